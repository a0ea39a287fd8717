"""Which states of a projection are in use: a directory in the store, changed by compare-and-set, so switches are atomic.

States of one projection and version lie in a slot. A rebuild and a state that was set aside go into slots of their own;
readers look here which one to use, and never see one that is being removed as if it were whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

import msgspec

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.stores.base import Checkpoint, Store

__all__ = ["Directory", "Entry", "change", "clear", "read", "slot_name"]

DIRECTORY = "@projections"
VERSION = 1
_TRIES = 1_000
_CLEARED_AT_ONCE = 1_000

T = TypeVar("T")


class Entry(msgspec.Struct, omit_defaults=True):
    """One projection: the newest version that is whole, the slot of each version, slots not yet or no longer used.

    ``building`` are slots of rebuilds that have not ended, by version; ``leaving`` are slots to be removed.
    """

    current: int = 0
    slots: dict[int, int] = {}
    next: int = 1
    building: dict[int, int] = {}
    leaving: list[tuple[int, int]] = []


class Directory(msgspec.Struct):
    """All projections that have states, by name."""

    projections: dict[str, Entry] = {}


def slot_name(name: str, slot: int) -> str:
    """The name under which a store keeps a slot."""
    return name if slot == 0 else f"{name}#{slot}"


def read(store: Store) -> Directory:
    """The directory as it is now."""
    return _read(store)[1]


def _read(store: Store) -> tuple[Checkpoint | None, Directory]:
    while True:
        before = store.checkpoint(DIRECTORY, VERSION)
        if before is None:
            return None, Directory()
        data = store.load_state(DIRECTORY, VERSION, "directory")
        if store.checkpoint(DIRECTORY, VERSION) == before:
            return before, msgspec.json.decode(data or b"{}", type=Directory)


def change(store: Store, name: str, work: Callable[[Entry], T]) -> T:
    """Change the entry of one projection; ``work`` is done again when another change came between."""
    for _ in range(_TRIES):
        before, directory = _read(store)
        seen = msgspec.json.encode(directory)
        entry = directory.projections.setdefault(name, Entry())
        found = work(entry)
        data = msgspec.json.encode(directory)
        if data == seen:
            return found
        number = 1 if before is None else before.position + 1
        after = Checkpoint(number, bytes(32), hashlib.sha256(data).digest())
        if store.save_states(DIRECTORY, VERSION, before, after, {"directory": data}):
            return found
    raise StoreUnavailable(
        f"the directory of projections in {store.url} never stayed as it was read; try again"
    )


def clear(store: Store, name: str, version: int, slot: int) -> None:
    """Remove the states of a slot that nobody uses any more, some at a time, so that no writer waits long."""
    stored = slot_name(name, slot)
    while True:
        at = store.checkpoint(stored, version)
        keys = store.keys(stored, version, limit=_CLEARED_AT_ONCE)
        if at is None or len(keys) < _CLEARED_AT_ONCE:
            break
        store.save_states(stored, version, at, at, dict.fromkeys(keys))
    store.drop_states(stored, version)
