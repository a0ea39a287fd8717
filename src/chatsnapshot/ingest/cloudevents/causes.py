"""Finds the event that another system means by a cause: it gives the id alone, and not whose id it is."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING

from chatsnapshot.clock import foreign_uuid, uuid_bytes
from chatsnapshot.errors import InvalidEvent

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["Causes"]

_KEPT = 10_000
_LOOKED_AT = 200
"""Newest entries of the correlation that are looked at."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class Causes:
    """Remembers the events that passed by, bounded, and looks into the ledger for others."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger
        self._seen: OrderedDict[tuple[str, str], dict[str, bytes]] = OrderedDict()

    def saw(self, correlation: str, source: str, event_id: str, key: bytes) -> None:
        """An event with this id and source stands, or will stand, under ``key`` (16 bytes)."""
        known = self._seen.setdefault((correlation, event_id), {})
        known[source] = key
        self._seen.move_to_end((correlation, event_id))
        if len(self._seen) > _KEPT:
            self._seen.popitem(last=False)

    def find(self, correlation: str, source: str, cause: str) -> bytes:
        """The event id of a cause.

        The first of: the event of that id and the same source, the event of the ledger whose own id it is, the only event
        of that id in the correlation (among those seen, else among its newest 200). Without any, the id that the first
        one would have.
        """
        own = foreign_uuid(source, cause)
        seen = self._seen.get((correlation, cause), {})
        if source in seen:
            return own
        candidates = [own]
        if _UUID.fullmatch(cause):
            candidates.append(uuid_bytes(cause))
        known = {} if self._ledger is None else self._ledger._store.get(candidates)
        for candidate in candidates:
            if candidate in known:
                return candidate
        if not seen and self._ledger is not None:
            seen = self._recorded(self._ledger, correlation, cause)
        return next(iter(seen.values())) if len(seen) == 1 else own

    def _recorded(self, ledger: Ledger, correlation: str, cause: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        mark = cause.encode()
        try:
            entries = ledger.read(correlation_id=correlation, reverse=True, limit=_LOOKED_AT)
            for entry in entries:
                if entry.payload_json is None or mark not in entry.payload_json:
                    continue
                native = entry.payload.get("native")
                if (
                    isinstance(native, dict)
                    and native.get("id") == cause
                    and isinstance(native.get("source"), str)
                ):
                    found[native["source"]] = entry.event_key
        except InvalidEvent:
            return {}  # a correlation that is refused elsewhere
        return found
