"""Folds a projection anew in memory and compares its digest with the stored one: replay made checkable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.digest import digest_of
from chatsnapshot.projections.engine import Given, find_slot, resolve
from chatsnapshot.projections.replaying import entries_after, entries_of_key, erasures
from chatsnapshot.projections.storing import Held, Slot
from chatsnapshot.stores.base import Checkpoint, Query

__all__ = ["Compared", "digest_at", "verify"]

Progress = Callable[[int, int], None]

_TRIES = 5
_KEYS_NAMED = 20


class Compared(msgspec.Struct, frozen=True):
    """The digest of a projection at a position, folded anew, beside what is stored.

    ``verdict``: ``same``; ``different``; ``outdated``: a payload was erased since, a run brings the states up to that;
    ``alone``: nothing is stored for this position, so there is nothing to compare with. ``stored`` is the digest of the
    checkpoint, ``kept`` the one that the stored records give. ``keys`` are keys whose records differ, at most 20.
    """

    name: str
    version: int
    position: int
    verdict: str
    digest: str
    stored: str | None = None
    kept: str | None = None
    keys: tuple[str, ...] = ()


def digest_at(ledger: Any, given: Given, position: int, progress: Progress | None = None) -> str:
    """The digest of a projection's states as of a position, folded from the first entry; in hexadecimal."""
    return digest_of(_records(ledger, resolve(given), position, progress)).hex()


def verify(
    ledger: Any,
    given: Given,
    *,
    at: int | None = None,
    expected: str | None = None,
    progress: Progress | None = None,
) -> Compared:
    """Fold a projection anew and compare: with the stored digest and records, where its checkpoint is at that position.

    ``at``: another position than that of the checkpoint; ``expected``: a digest (hexadecimal) to compare with, such as
    that of a copy. All states are held in memory meanwhile. Raises ``ValueError`` for a position that is not there.
    """
    projection = resolve(given)
    head = ledger.head
    if at is not None and not 0 <= at <= head:
        raise ValueError(f"there is no position {at}; the last one is {head}")
    for _ in range(_TRIES):
        slot = find_slot(ledger._store, projection)
        mark = None if slot is None else slot.checkpoint()
        position = at if at is not None else head if mark is None else min(mark.position, head)
        records = _records(ledger, projection, position, progress)
        digest = digest_of(records).hex()
        found = Compared(projection.name, projection.version, position, "alone", digest)
        if expected is not None:
            verdict = "same" if digest == expected.lower() else "different"
            return msgspec.structs.replace(found, verdict=verdict, stored=expected.lower())
        if slot is None or mark is None or mark.position != position:
            return found
        compared = _compare(ledger, slot, mark, records, found)
        if compared is not None:
            return compared
    raise StoreUnavailable(
        f"projection {projection.name!r} went on while it was looked at, {_TRIES} times; try again, or name a position"
    )


def _compare(
    ledger: Any, slot: Slot, mark: Checkpoint, records: dict[str, bytes], found: Compared
) -> Compared | None:
    """Beside what is stored; ``None`` when that changed in the meantime."""
    kept = {key: slot.record(key) or b"" for key in slot.all_keys()}
    facts = slot.facts()
    if slot.checkpoint() != mark:
        return None
    keys = sorted(key for key in {*records, *kept} if records.get(key) != kept.get(key))
    digests = (found.digest, mark.digest.hex(), digest_of(kept).hex())
    same = len(set(digests)) == 1 and slot.fault(mark, facts) is None
    behind = facts.lacking or any(
        one <= mark.position for one in erasures(ledger, mark.position, ledger.head)
    )
    return msgspec.structs.replace(
        found,
        verdict="same" if same else "outdated" if behind else "different",
        stored=digests[1],
        kept=digests[2],
        keys=tuple(keys[:_KEYS_NAMED]),
    )


def _records(
    ledger: Any, projection: Projection[Any], position: int, progress: Progress | None
) -> dict[str, bytes]:
    """The record of every key as of a position. A key stays as it was before an entry that cannot be taken."""
    states: dict[str, Held] = {}
    failed: set[str] = set()
    for page in entries_after(ledger, Query(), 0, position):
        for entry in page:
            key = None
            try:
                key = projection.key(entry)
                if not isinstance(key, str) or key in failed:
                    continue
                held = states.get(key)
                if held is None:
                    held = states[key] = Held(projection.initial())
                held.state = projection.apply(held.state, entry)
                held.position, held.sequence = entry.position, entry.sequence
            except Exception:
                if key is not None:
                    failed.add(key)
                    states[key] = _before(ledger, projection, key, entry.position)
        if progress is not None and page:
            progress(page[-1].position, position)
    return {key: held.record() for key, held in states.items() if held.position}


def _before(ledger: Any, projection: Projection[Any], key: str, position: int) -> Held:
    held = Held(projection.initial())
    for entry in entries_of_key(ledger, projection, key, 0, position - 1):
        held.state = projection.apply(held.state, entry)
        held.position, held.sequence = entry.position, entry.sequence
    return held
