"""Reads and writes the states of one projection in one slot: records, parked keys, facts, all with the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.errors import NotFound
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.digest import part
from chatsnapshot.projections.slots import slot_name
from chatsnapshot.stores.base import Checkpoint, Store

__all__ = ["FACTS", "KEY", "PARKED", "Facts", "Held", "Named", "Parked", "Slot"]

FACTS = ""
"""The key of what is known of the slot as a whole."""
KEY = "="
"""Stands in front of the keys of records."""
PARKED = "!"
"""Stands in front of the keys that are parked."""
_LISTED_AT_ONCE = 1_000


class Parked(msgspec.Struct, frozen=True):
    """An entry that a projection could not take: its position, its event's id, why, and the key it was of."""

    position: int
    event_id: str
    reason: str
    key: str | None = None


class Facts(msgspec.Struct, omit_defaults=True):
    """What is known of a slot as a whole.

    ``lacking`` are keys whose record was removed before a payload was erased; they are folded anew at the next run.
    """

    ledger_id: str = ""
    keys: int = 0
    state_bytes: int = 0
    parked: int = 0
    stopped: Parked | None = None
    lacking: list[str] = []


class Held(msgspec.Struct, gc=False):
    """The state of one key in memory, the last entry in it, and the size and digest of its record in the store."""

    state: Any
    position: int = 0
    sequence: int = 0
    size: int = 0
    part: int = 0

    def record(self) -> bytes:
        """The record that is stored: ``[position, sequence, state]``."""
        return msgspec.json.encode((self.position, self.sequence, self.state))


class Named:
    """Stands for a projection of which only the stored states are looked at."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version

    def key(self, entry: Any) -> str | None:
        return None

    def initial(self) -> Any:
        return None

    def apply(self, state: Any, entry: Any) -> Any:
        return state


class Slot:
    """One slot of one projection in a store."""

    def __init__(self, store: Store, projection: Projection[Any], number: int) -> None:
        self.store = store
        self.projection = projection
        self.number = number
        self.name = slot_name(projection.name, number)
        self.version = projection.version
        self._decoder = msgspec.json.Decoder(tuple[int, int, type(projection.initial())])  # type: ignore[misc]

    def checkpoint(self) -> Checkpoint | None:
        """Where the slot stands."""
        return self.store.checkpoint(self.name, self.version)

    def facts(self) -> Facts:
        """What is known of the slot as a whole."""
        data = self.store.load_state(self.name, self.version, FACTS)
        return Facts() if data is None else msgspec.json.decode(data, type=Facts)

    def load(self, key: str, *, to_read: bool = False) -> Held | None:
        """The state of a key; ``None`` when it has none. ``to_read``: nothing is saved, so its digest is not needed."""
        data = self.store.load_state(self.name, self.version, KEY + key)
        if data is None:
            return None
        position, sequence, state = self._decoder.decode(data)
        return Held(state, position, sequence, len(data), 0 if to_read else part(key, data))

    def record(self, key: str) -> bytes | None:
        """The stored record of a key as it is."""
        return self.store.load_state(self.name, self.version, KEY + key)

    def parked(self, key: str) -> Parked | None:
        """Why a key is parked; ``None`` when it is not."""
        data = self.store.load_state(self.name, self.version, PARKED + key)
        return None if data is None else msgspec.json.decode(data, type=Parked)

    def all_parked(self) -> dict[str, Parked]:
        """Every parked key."""
        found = {key: self.parked(key) for key in self._keys(PARKED)}
        return {key: why for key, why in found.items() if why is not None}

    def all_keys(self) -> list[str]:
        """Every key that has a record, in order."""
        return self._keys(KEY)

    def _keys(self, prefix: str) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page = self.store.keys(self.name, self.version, prefix=prefix, after=after, limit=_LISTED_AT_ONCE)
            found += [key[len(prefix) :] for key in page]
            if len(page) < _LISTED_AT_ONCE:
                return found
            after = page[-1]

    def page(self, after: str, limit: int, *, reverse: bool) -> list[str]:
        """Some keys that have a record: those after ``after``, or in front of it (from the last on when it is empty)."""
        start = KEY + after if after else ""
        found = self.store.keys(
            self.name, self.version, prefix=KEY, after=start, limit=limit, reverse=reverse
        )
        return [key[len(KEY) :] for key in found]

    def save(self, before: Checkpoint | None, after: Checkpoint, changes: Mapping[str, bytes | None]) -> bool:
        """Store everything together when the checkpoint is still ``before``."""
        return self.store.save_states(self.name, self.version, before, after, changes)

    def fault(self, at: Checkpoint, facts: Facts) -> str | None:
        """Why the slot's states are not of this history; ``None`` when they are."""
        if facts.ledger_id != self.store.ledger_id:
            return f"they are of ledger {facts.ledger_id or 'unknown'}"
        if at.position == 0:
            return None
        head = self.store.head().size
        if at.position > head:
            return f"they are of position {at.position}, and the ledger ends at {head}"
        try:
            leaf = leaf_at(self.store, at.position)
        except NotFound as error:
            return str(error)
        return (
            None
            if leaf == at.leaf
            else f"another entry stands at position {at.position} than they were made of"
        )


def leaf_at(store: Store, position: int) -> bytes:
    """The leaf of the entry at a position; raises :class:`NotFound`."""
    from chatsnapshot.stores.base import LEAF, Query

    page = store.read(Query(), after=position - 1, until=position, limit=1, reverse=False, hint=None)
    if not page.rows:
        raise NotFound(f"there is no position {position} in {store.url}")
    leaf = page.rows[0][LEAF]
    return bytes(leaf)
