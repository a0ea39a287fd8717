"""Holds a whole ledger against schemas: the entries whose stored payload does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt
from chatsnapshot.events.registry import Schemas

__all__ = ["EntryMisfit", "Misfits", "find_misfits"]

LISTED_MAX = 1_000
_PROGRESS_EVERY = 1_000


class EntryMisfit(msgspec.Struct, frozen=True):
    """An entry whose payload does not fit: where it stands, its type and version, the JSON path, and why."""

    position: int
    event_type: str
    version: int
    path: str
    reason: str


class Misfits(msgspec.Struct, frozen=True, kw_only=True):
    """What holding a ledger against schemas found; ``listed`` are the first 1,000.

    ``checked`` payloads had a schema of their type, ``unknown`` had none, ``erased`` are gone. ``stopped`` says why the
    rest could not be read, where that is so.
    """

    count: int
    listed: tuple[EntryMisfit, ...]
    checked: int
    unknown: int
    erased: int
    stopped: str = ""


def find_misfits(
    entries: Iterable[LedgerEntry],
    schemas: Schemas,
    head: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Misfits:
    """Look at every payload as it is stored, in its own version; changes nothing.

    ``progress`` is called with the position and ``head`` now and then.
    """
    accepts = schemas.accepts
    schemas.complete()
    listed: list[EntryMisfit] = []
    count = checked = unknown = erased = 0
    stopped = ""
    try:
        for entry in entries:
            event_type, payload = entry.event_type, entry.payload_json
            if progress is not None and entry.position % _PROGRESS_EVERY == 0:
                progress(entry.position, head)
            if payload is None:
                erased += 1
                continue
            accept = accepts.get((event_type, entry.schema_version))
            if accept is None and not schemas.versions(event_type):
                unknown += 1
                continue
            checked += 1
            if accept is not None and _accepted(accept, payload):
                continue
            misfit = schemas.misfit(event_type, entry.schema_version, payload)
            if misfit is None:
                continue
            count += 1
            if len(listed) < LISTED_MAX:
                listed.append(
                    EntryMisfit(entry.position, event_type, entry.schema_version, misfit.path, misfit.reason)
                )
    except Corrupt as error:
        stopped = str(error)
    return Misfits(
        count=count, listed=tuple(listed), checked=checked, unknown=unknown, erased=erased, stopped=stopped
    )


def _accepted(accept: Callable[[bytes], object], payload: bytes) -> bool:
    try:
        accept(payload)
    except Exception:  # a class may raise anything; the slow way says what
        return False
    return True
