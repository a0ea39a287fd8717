"""Erases payloads: the record of it first, then their removal; states and the index of searches let go of them too."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.stores.draft import ledger_draft

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["erase"]

_ENGINE = "chatsnapshot.projections.engine"
_SEARCH = "chatsnapshot.projections.search.searching"
"""Floor 5 holds what was derived; it is told by name what to let go of."""


def erase(
    ledger: Ledger, positions: int | Iterable[int], reason: str, facts: Mapping[str, Any]
) -> LedgerEntry:
    """Erase the payloads at these positions, see ``Ledger.erase``; gives the entry of the record."""
    ledger._check_writable()
    wanted = _erasable(ledger, positions)
    importlib.import_module(_ENGINE).forget(ledger, wanted)
    payload = {"positions": wanted, "reason": reason, **facts}
    opening = ledger._opening
    record = ledger_draft("ledger.payload_erased", payload, opening.entropy, opening.clock)
    entry = ledger._entry(ledger._store.erase(wanted, record))
    importlib.import_module(_SEARCH).forget(ledger, wanted)
    ledger._bell.ring()
    return entry


def _erasable(ledger: Ledger, positions: int | Iterable[int]) -> list[int]:
    """The positions in order; :class:`NotFound` for one that is not there, :class:`InvalidEvent` for own records."""
    wanted = sorted({positions} if isinstance(positions, int) else set(positions))
    head = ledger.head
    if not wanted:
        raise InvalidEvent("give the positions to erase", path="positions")
    for position in wanted:
        if isinstance(position, bool) or not isinstance(position, int) or not 1 <= position <= head:
            raise NotFound(f"there is no position {position!r} in {ledger.url}; the last one is {head}")
    for position in wanted:
        found = next(ledger.read(after=position - 1, until=position))
        if found.event_type.startswith("ledger."):
            raise InvalidEvent(f"position {position} is a record of the ledger itself and stays")
    return wanted
