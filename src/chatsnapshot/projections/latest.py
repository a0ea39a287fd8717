"""Entries as projections see them: with payloads in the newest version that upcasters lead to."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.registry import Schemas
from chatsnapshot.events.upcasting import UpcastFailed

__all__ = ["newest"]

_log = logging.getLogger("chatsnapshot.schemas")


def newest(ledger: Any, entries: Iterable[LedgerEntry]) -> Iterable[LedgerEntry]:
    """The entries, those with an upcaster in the newest version; where it fails an entry stays as it was recorded.

    A failure is logged once a call for each type and version. Without upcasters ``entries`` itself is given.
    """
    schemas: Schemas | None = getattr(getattr(ledger, "validator", None), "schemas", None)
    if schemas is None or not schemas.upcast_types:
        return entries
    return _upcast(schemas, entries)


def _upcast(schemas: Schemas, entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
    types = schemas.upcast_types
    told: set[tuple[str, int]] = set()
    for entry in entries:
        if entry.event_type in types and entry.payload_json is not None:
            try:
                entry = _of_newest(schemas, entry, entry.payload_json)
            except UpcastFailed as error:
                if (error.event_type, error.from_version) not in told:
                    told.add((error.event_type, error.from_version))
                    _log.warning("a view shows an entry as it was recorded: %s", error)
        yield entry


def _of_newest(schemas: Schemas, entry: LedgerEntry, payload_json: bytes) -> LedgerEntry:
    version, payload = schemas.upcast(entry.event_type, entry.schema_version, payload_json, entry.position)
    if version == entry.schema_version:
        return entry
    return msgspec.structs.replace(entry, payload_json=payload, version=version)
