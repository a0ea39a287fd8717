"""What an importer is: it knows its files by their beginning, and reads one into events and problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from chatsnapshot.clock import idempotent_uuid, uuid_text
from chatsnapshot.envelope import EventEnvelope

__all__ = ["ImportReport", "Importer", "Piece", "Problem", "event_id", "name_text"]


class Piece(NamedTuple):
    """One event of a file: the byte at which what it says begins, and the arguments of ``record()`` or an envelope.

    ``event`` has an ``event_id`` that follows from the file alone, so that importing again records nothing twice.
    """

    offset: int
    event: Mapping[str, Any] | EventEnvelope


class Problem(NamedTuple):
    """Something in a file that could not be taken: the byte at which it begins, and why."""

    offset: int
    reason: str


class Importer(Protocol):
    """Reads the files of one program. ``kind`` is its name on the command line, ``what`` says in words what it reads."""

    kind: str
    what: str

    def looks_like(self, head: bytes) -> float:
        """How sure it is, 0 to 1, that a file with this beginning (up to 64 KiB) is one of its own; never raises."""
        ...

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The events of a file in their order, and what could not be taken; never raises because of the file.

        Of a file that is cut off, what is whole is given, and one problem says where the rest begins.
        """
        ...


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file.

    ``stored`` events are new in the ledger, ``known`` ones were there already. ``correlations`` are those that it
    recorded in. ``problems`` holds the first 100, by offset; ``problem_count`` counts all. ``last_position`` is the
    highest position of an event of this file (0: none).
    """

    file: str
    kind: str
    bytes: int
    correlations: tuple[str, ...] = ()
    stored: int = 0
    known: int = 0
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    last_position: int = 0

    @property
    def whole(self) -> bool:
        """Whether everything in the file was taken."""
        return self.problem_count == 0


def event_id(correlation_id: str, key: str) -> str:
    """The id of an event that its file gives none: that of the same ``idempotency_key`` (``docs/format.md``)."""
    return uuid_text(idempotent_uuid(correlation_id, key))


_UNFIT = str.maketrans(dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}"))


def name_text(value: object, chars_max: int = 256) -> str | None:
    """A name or id as a header may hold it: valid Unicode, no control characters, cut; ``None`` where there is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value) if isinstance(value, str) or abs(value) < 2**64 else ""
    text = text.encode("utf-8", "replace").decode().translate(_UNFIT).strip()
    return text[:chars_max] or None
