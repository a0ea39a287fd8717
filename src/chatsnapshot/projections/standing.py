"""Tells where the stored states of every projection stand."""

from __future__ import annotations

from typing import Any

import msgspec

from chatsnapshot.errors import NotFound
from chatsnapshot.projections import base, slots
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.engine import known
from chatsnapshot.projections.slots import Entry
from chatsnapshot.projections.storing import Named, Parked, Slot
from chatsnapshot.stores.base import Store

__all__ = ["Standing", "status"]


class Standing(msgspec.Struct, frozen=True):
    """Where the states of one version of a projection stand.

    ``role``: ``current``; ``building``, the newest version on its way to the head; ``older`` and ``newer`` than the
    version of this program; ``unknown`` to this program; ``none``: nothing is stored.
    """

    name: str
    version: int
    role: str
    position: int
    behind: int
    keys: int
    state_bytes: int
    digest: str
    parked: tuple[Parked, ...] = ()
    stopped: Parked | None = None


def status(ledger: Any) -> list[Standing]:
    """Where every projection stands, by name and version."""
    store: Store = ledger._store
    head = ledger.head
    directory = slots.read(store).projections
    found: list[Standing] = []
    for name in sorted({*known(), *directory}):
        entry = directory.get(name, Entry())
        try:
            own: Projection[Any] | None = base.get(name)()
        except NotFound:
            own = None
        for version, number in sorted(entry.slots.items()):
            found.append(_standing(store, own, name, version, number, entry, head))
        if own is not None and own.version not in entry.slots and entry.current <= own.version:
            found.append(Standing(name, own.version, "none", 0, head, 0, 0, ""))
    return found


def _standing(
    store: Store, own: Projection[Any] | None, name: str, version: int, number: int, entry: Entry, head: int
) -> Standing:
    slot = Slot(store, Named(name, version), number)
    at, facts = slot.checkpoint(), slot.facts()
    position = 0 if at is None else at.position
    if own is None:
        role = "unknown"
    elif version != own.version:
        role = "older" if version < own.version else "newer"
    else:
        role = "current" if entry.current == version else "building"
    return Standing(
        name=name,
        version=version,
        role=role,
        position=position,
        behind=max(head - position, 0),
        keys=facts.keys,
        state_bytes=facts.state_bytes,
        digest="" if at is None else at.digest.hex(),
        parked=tuple(slot.all_parked().values()) if facts.parked else (),
        stopped=facts.stopped,
    )
