"""Says what a check wanted and what it found; works with ``python -O`` too, where ``assert`` does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from chatsnapshot.integrity import Tree, leaf_hash
from chatsnapshot.ledger import Ledger
from chatsnapshot.stores.imports import row_header

__all__ = [
    "Caught",
    "Failed",
    "Skipped",
    "expect",
    "expect_dense",
    "expect_equal",
    "expect_sound",
    "expecting",
]

E = TypeVar("E", bound=BaseException)


class Failed(AssertionError):
    """A check found something else than the contract says."""


class Skipped(Exception):
    """A check cannot run here; the text says what is missing."""


def expect(truth: object, message: str) -> None:
    """Fail with ``message`` unless ``truth``."""
    if not truth:
        raise Failed(message)


def expect_equal(found: object, wanted: object, what: str) -> None:
    """Fail unless both are equal."""
    if found != wanted:
        raise Failed(f"{what}: wanted {_short(wanted)}, found {_short(found)}")


class Caught(Generic[E]):
    """The error that :func:`expecting` caught."""

    error: E


@contextmanager
def expecting(kind: type[E], what: str) -> Iterator[Caught[E]]:
    """Fail unless the block raises ``kind``; any other error goes through."""
    caught: Caught[E] = Caught()
    try:
        yield caught
    except kind as error:
        caught.error = error
        return
    raise Failed(f"{what}: wanted {kind.__name__}, and nothing was raised")


def expect_dense(numbers: Sequence[int], what: str, first: int = 1) -> None:
    """Fail unless the numbers go up one by one from ``first``."""
    for place, number in enumerate(numbers):
        if number != first + place:
            raise Failed(f"{what}: wanted {first + place} at place {place}, found {number}")


def expect_sound(ledger: Ledger, entries: int | None = None) -> None:
    """Fail unless positions and sequences are dense and every leaf and the root follow from what can be read.

    Everything is derived here anew, from what ``read`` gives, and compared with what ``verify`` says.
    """
    seen = list(ledger.read())
    if entries is not None:
        expect_equal(len(seen), entries, "entries in the ledger")
    expect_dense([entry.position for entry in seen], "positions")
    sequences: dict[str, int] = {}
    tree = Tree()
    recorded_at = ""
    for entry in seen:
        wanted = sequences.get(entry.correlation_id, 0) + 1
        expect_equal(
            entry.sequence, wanted, f"sequence in {entry.correlation_id!r} at position {entry.position}"
        )
        sequences[entry.correlation_id] = wanted
        row: Any = entry._identity()
        expect_equal(entry.leaf, leaf_hash(row_header(row)), f"leaf at position {entry.position}")
        expect(entry.recorded_at >= recorded_at, f"recorded_at goes back at position {entry.position}")
        recorded_at = entry.recorded_at
    tree.extend([entry.leaf for entry in seen])
    expect_equal(ledger.head, len(seen), "head")
    report = ledger.verify()
    expect(report.ok, f"verify: {report.summary}")
    expect_equal(report.root, tree.root().hex(), "root that verify derives")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} … {text[-80:]}"
