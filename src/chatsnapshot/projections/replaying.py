"""The entries that a fold reads: of the whole ledger, or of one key from a place on; upcast on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import LEDGER_CORRELATION
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.latest import newest
from chatsnapshot.reading import to_entries
from chatsnapshot.stores.base import Query, Store

__all__ = [
    "ERASED",
    "correlated",
    "entries_after",
    "entries_of_key",
    "erased_positions",
    "erasures",
    "store_of",
    "touched",
]


ERASED = "ledger.payload_erased"


def store_of(ledger: Any) -> Store | None:
    """The store behind a ledger; ``None`` for something that only reads like one."""
    store: Store | None = getattr(ledger, "_store", None)
    return store


def correlated(projection: Projection[Any]) -> bool:
    """Whether every key is the correlation of its entries, so that a key can be folded without reading the others."""
    return bool(getattr(projection, "correlated", hasattr(projection, "compose")))


def entries_after(
    ledger: Any, query: Query, after: int, until: int, hint: int | None = None
) -> Iterator[list[LedgerEntry]]:
    """Pages of matching entries with after < position <= until, as projections see them."""
    store = ledger._store
    limit = ledger.limits.page_entries_max
    while after < until:
        page = store.read(query, after=after, until=until, limit=limit, reverse=False, hint=hint)
        if page.rows:
            yield list(newest(ledger, to_entries(page.rows, ledger)))
            hint = page.rows[-1][1]
        if page.done:
            return
        after = page.scanned_to


def entries_of_key(
    ledger: Any, projection: Projection[Any], key: str, after: int, until: int, sequence: int = 0
) -> Iterator[LedgerEntry]:
    """The entries of one key with after < position <= until; ``sequence``: that of the last one before, where known."""
    alone = correlated(projection)
    query = Query(correlation_id=key) if alone else Query()
    for page in entries_after(ledger, query, after, until, sequence if alone and sequence else None):
        for entry in page:
            if projection.key(entry) == key:
                yield entry


def erased_positions(entry: LedgerEntry) -> list[int]:
    """The positions that a record of an erasure names; none for any other entry."""
    if entry.event_type != ERASED or entry.correlation_id != LEDGER_CORRELATION:
        return []
    try:
        named = entry.payload["positions"]
        return [one for one in named if isinstance(one, int) and 0 < one < entry.position]
    except (KeyError, TypeError, msgspec.DecodeError):
        return []


def erasures(ledger: Any, after: int, until: int) -> Iterable[int]:
    """The positions whose payloads were erased by records with after < position <= until."""
    query = Query(correlation_id=LEDGER_CORRELATION, event_types=(ERASED,))
    for page in entries_after(ledger, query, after, until):
        for entry in page:
            yield from erased_positions(entry)


def touched(ledger: Any, projection: Projection[Any], positions: Iterable[int]) -> set[str] | None:
    """The keys whose states change when these payloads are erased; ``None`` when that cannot be told.

    A key may have come out of the payload that is gone. A projection can say better by a method ``erased(entry)``, which
    gets the entry and gives its keys, or ``None``.
    """
    keys: set[str] = set()
    tell = getattr(projection, "erased", None)
    for position in positions:
        for page in entries_after(ledger, Query(), position - 1, position):
            for entry in page:
                if tell is not None:
                    found = tell(entry)
                elif correlated(projection):
                    found = [entry.correlation_id]
                else:
                    found = None
                if found is None:
                    return None
                keys.update(found)
    return keys
