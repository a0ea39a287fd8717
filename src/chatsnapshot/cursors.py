"""Durable cursors of feeds: where each stands, of which history, moved by compare-and-set beside the stored states."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from chatsnapshot.errors import Corrupt, NotFound, StoreUnavailable
from chatsnapshot.stores.base import LEAF, Checkpoint, Query, Store

__all__ = [
    "Cursor",
    "FeedState",
    "Mark",
    "drop",
    "fault",
    "list_name",
    "load",
    "move",
    "new_mark",
    "shown",
    "states",
    "told",
]

DIRECTORY = "@feeds"
"""Under this name a store keeps the names of all feeds; no projection is called so."""
VERSION = 1
_CURSOR = "cursor"
_TRIES = 1_000
_LISTED_AT_ONCE = 1_000


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept with a position: the history and the filters it is of, and the end of the batch handed out.

    ``era`` is another one after each reset, so that nothing handed out before it counts. ``claimed`` is 0 when nothing
    is handed out.
    """

    ledger_id: str
    era: str
    filters: Query = Query()
    claimed: int = 0


class Cursor(msgspec.Struct, frozen=True):
    """A cursor as it is stored; ``at`` is what a compare-and-set compares."""

    name: str
    at: Checkpoint
    mark: Mark

    @property
    def position(self) -> int:
        """Everything up to here was committed."""
        return self.at.position


class FeedState(msgspec.Struct, frozen=True):
    """Where a feed stands: committed up to ``position``, with ``lag`` positions of the ledger after it.

    ``claimed`` is the end of the batch that was handed out and not committed, ``filters`` are those it was made with,
    by name, and ``fault`` says why it cannot go on in this ledger before a reset.
    """

    name: str
    position: int
    lag: int
    claimed: int | None
    filters: dict[str, Any]
    fault: str | None


def new_mark(store: Store, filters: Query) -> Mark:
    """The mark of a cursor that begins, in an era of its own."""
    return Mark(store.ledger_id, os.urandom(8).hex(), filters)


def load(store: Store, name: str) -> Cursor | None:
    """The cursor of a feed; ``None`` when there is none."""
    stored = _stored(name)
    while True:
        at = store.checkpoint(stored, VERSION)
        if at is None:
            return None
        data = store.load_state(stored, VERSION, _CURSOR)
        if store.checkpoint(stored, VERSION) != at:
            continue  # moved between the two reads
        if data is None or hashlib.sha256(data).digest() != at.digest:
            raise Corrupt(
                f"the cursor of feed {name!r} in {store.url} is damaged; drop the feed, then make it anew"
            )
        return Cursor(name, at, msgspec.json.decode(data, type=Mark))


def move(store: Store, name: str, before: Cursor | None, position: int, mark: Mark) -> Cursor | None:
    """Put the cursor at a position if it is still ``before``; ``None`` when somebody else was faster."""
    data = msgspec.json.encode(mark)
    if before is not None and before.position == position:
        leaf = before.at.leaf
    else:
        leaf = _leaf_at(store, position)
    at = Checkpoint(position, leaf, hashlib.sha256(data).digest())
    was = None if before is None else before.at
    return (
        Cursor(name, at, mark)
        if store.save_states(_stored(name), VERSION, was, at, {_CURSOR: data})
        else None
    )


def fault(store: Store, cursor: Cursor) -> str | None:
    """Why a cursor is not of this history; ``None`` when it is."""
    if cursor.mark.ledger_id != store.ledger_id:
        return f"it is of ledger {cursor.mark.ledger_id}, and this is ledger {store.ledger_id}"
    head = store.head().size
    if max(cursor.position, cursor.mark.claimed) > head:
        return f"it is of position {max(cursor.position, cursor.mark.claimed)}, and the ledger ends at {head}"
    if cursor.at.leaf != _leaf_at(store, cursor.position):
        return f"another entry stands at position {cursor.position} than when it came there"
    return None


def drop(store: Store, name: str) -> None:
    """Forget a feed; raises :class:`NotFound` when there is none."""
    if store.checkpoint(_stored(name), VERSION) is None:
        raise NotFound(f"there is no feed {name!r} in {store.url}; list what there is with feeds()")
    _change_directory(store, name, None)
    store.drop_states(_stored(name), VERSION)


def list_name(store: Store, name: str) -> None:
    """Take the name of a feed into the directory."""
    _change_directory(store, name, b"{}")


def states(store: Store) -> list[FeedState]:
    """Where every feed stands, by name."""
    found = []
    for name in _names(store):
        head = store.head().size
        try:
            cursor = load(store, name)
        except Corrupt as error:
            found.append(FeedState(name, 0, head, None, {}, str(error)))
            continue
        if cursor is not None:  # else it was dropped in this moment
            lag, claimed = max(head - cursor.position, 0), cursor.mark.claimed or None
            why = fault(store, cursor)
            found.append(FeedState(name, cursor.position, lag, claimed, shown(cursor.mark.filters), why))
    return found


def shown(filters: Query) -> dict[str, Any]:
    """The filters that are set, as plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(filters)
    return {key: value for key, value in plain.items() if value not in (None, [], ())}


def told(filters: dict[str, Any]) -> str:
    """The filters that are set, for people."""
    if not filters:
        return "no filters"
    lists = {key: value if isinstance(value, (list, tuple)) else [value] for key, value in filters.items()}
    return ", ".join(f"{key} {' '.join(map(_word, value))}" for key, value in lists.items())


def _word(value: object) -> str:
    return "=".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _stored(name: str) -> str:
    return f"feed:{name}"


def _names(store: Store) -> list[str]:
    found: list[str] = []
    while True:
        after = found[-1] if found else ""
        page = store.keys(DIRECTORY, VERSION, after=after, limit=_LISTED_AT_ONCE)
        found += page
        if len(page) < _LISTED_AT_ONCE:
            return found


def _change_directory(store: Store, name: str, data: bytes | None) -> None:
    for _ in range(_TRIES):
        before = store.checkpoint(DIRECTORY, VERSION)
        if store.load_state(DIRECTORY, VERSION, name) == data:
            return
        after = Checkpoint(1 if before is None else before.position + 1, bytes(32), bytes(32))
        if store.save_states(DIRECTORY, VERSION, before, after, {name: data}):
            return
    raise StoreUnavailable(f"the list of feeds in {store.url} never stayed as it was read; try again")


def _leaf_at(store: Store, position: int) -> bytes:
    """The leaf of the entry at a position; zeros in front of the first one."""
    if position == 0:
        return bytes(32)
    page = store.read(Query(), after=position - 1, until=position, limit=1, reverse=False, hint=None)
    if not page.rows:
        raise Corrupt(f"position {position} is missing; run chatsnapshot verify", position=position)
    return bytes(page.rows[0][LEAF])
