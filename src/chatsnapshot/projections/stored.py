"""States as of a position, out of what is stored; what has happened to a key since is folded in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from chatsnapshot.errors import LedgerError
from chatsnapshot.projections.base import Projection, copy_state
from chatsnapshot.projections.building import ProjectionStopped
from chatsnapshot.projections.engine import find_slot, run
from chatsnapshot.projections.replaying import correlated, entries_after, entries_of_key, erasures, touched
from chatsnapshot.projections.running import BATCH_MIN
from chatsnapshot.projections.storing import Facts, Held, Parked, Slot
from chatsnapshot.stores.base import Query

__all__ = ["Stored", "bring_up"]

_log = logging.getLogger("chatsnapshot.projections")

STORED_MIN = 100
"""New entries from which on a view of one run stores them; up to a batch."""


def bring_up(ledger: Any, projections: Iterable[Projection[Any]], *, whole: bool = False) -> None:
    """Store what is new before a view is read, where it is one small batch, or the whole is needed anyway.

    Fewer entries are folded in memory: a long state is not written anew for each event.

    Behind a service that keeps the ledger, it is the service that does so.

    A read-only ledger, and one whose store refuses, is left as it is: what is new is then folded in memory.
    """
    if hasattr(type(ledger._store), "bring_up") and not ledger.closed:
        ledger._store.bring_up([(one.name, one.version) for one in projections], whole)
        return
    if ledger.read_only or ledger.closed:
        return
    behind = []
    for one in projections:
        slot = find_slot(ledger._store, one)
        at = None if slot is None else slot.checkpoint()
        new = ledger.head - (0 if at is None else at.position)
        if new and (whole or STORED_MIN <= new <= BATCH_MIN):
            behind.append(one)
    if behind:
        try:
            run(ledger, behind)
        except LedgerError as error:
            _log.info("views of %s are folded in memory: %s", ledger.url, error)


class Stored:
    """The states of one projection as of ``until``, which is at most the head of now."""

    def __init__(self, ledger: Any, projection: Projection[Any], until: int) -> None:
        self.ledger = ledger
        self.projection = projection
        self.until = until
        self.slot: Slot | None = None
        self.position = 0
        """Up to here every state is stored."""
        self.facts = Facts()
        self._stale: set[str] | None = set()
        self._made: dict[str, Held | None] = {}
        self._complete = False
        self._find()

    def _find(self) -> None:
        slot = find_slot(self.ledger._store, self.projection)
        at = None if slot is None else slot.checkpoint()
        if slot is None or at is None:
            return
        facts = slot.facts()
        if slot.fault(at, facts) is not None:
            return
        self.slot, self.position, self.facts = slot, at.position, facts
        # An erasure holds for every view, also one of the past.
        gone = set(erasures(self.ledger, at.position, self.ledger.head))
        self._stale = touched(self.ledger, self.projection, [one for one in gone if one <= at.position])

    @property
    def usable(self) -> bool:
        """Whether anything is stored that a view can begin from."""
        return self.slot is not None and self._stale is not None

    def state(self, key: str) -> Any:
        """The state of a key, ``None`` when it has none. Raises :class:`ProjectionStopped` where a fold fails."""
        if key not in self._made:
            held = self._load(key)
            self._made[key] = held if self._complete and held is not None else self._fold(key, held)
        held = self._made[key]
        return None if held is None or not held.position else held.state

    def _load(self, key: str) -> Held | None:
        """What is stored, when a view as of ``until`` can go on from there."""
        if self.slot is None or self._stale is None or key in self._stale:
            return None
        if self.facts.parked:
            why = self.slot.parked(key)
            if why is not None and why.position <= self.until:
                raise ProjectionStopped(self.projection.name, self.projection.version, why)
        try:
            held = self.slot.load(key, to_read=True)
        except msgspec.DecodeError as error:
            _log.warning("the state of %r in projection %r cannot be read: %s", key, self.slot.name, error)
            return None
        return None if held is not None and held.position > self.until else held

    def _fold(self, key: str, held: Held | None) -> Held | None:
        """Take a key from its stored state, or from the start, to ``until``."""
        if held is None:
            after, sequence = self._start(key), 0
            held = Held(self.projection.initial())
        else:
            after, sequence = max(held.position, min(self.position, self.until)), held.sequence
        for entry in entries_of_key(self.ledger, self.projection, key, after, self.until, sequence):
            try:
                held.state = self.projection.apply(held.state, entry)
            except Exception as error:
                why = Parked(entry.position, entry.event_id, f"{type(error).__name__}: {error}"[:500], key)
                raise ProjectionStopped(self.projection.name, self.projection.version, why) from error
            held.position, held.sequence = entry.position, entry.sequence
        return held

    def _start(self, key: str) -> int:
        """Where to begin with a key that has no stored state: at what is new, where it is sure that it has none."""
        slot = self.slot
        if correlated(self.projection) or slot is None or self._stale is None or key in self._stale:
            return 0
        if slot.record(key) is not None or key in self.facts.lacking or key in slot.facts().lacking:
            return 0
        now = find_slot(slot.store, self.projection)
        return self.position if now is not None and now.name == slot.name and now.checkpoint() else 0

    def fold_new(self) -> None:
        """Fold everything that is new in one pass, for a reader that wants many keys."""
        if self._complete or self.position >= self.until:
            self._complete = self.position >= self.until
            return
        self.position_after = self.position
        for page in entries_after(self.ledger, Query(), self.position, self.until):
            for entry in page:
                key = self.projection.key(entry)
                if key is None:
                    continue
                if key not in self._made:
                    self._made[key] = self._begin(key)
                held = self._made[key]
                assert held is not None
                if entry.position > held.position:
                    held.state = self.projection.apply(held.state, entry)
                    held.position, held.sequence = entry.position, entry.sequence
        self._complete = True

    def _begin(self, key: str) -> Held:
        held = self._load(key)
        if held is None:
            made = Held(self.projection.initial())
            start = self._start(key)
            for entry in entries_of_key(self.ledger, self.projection, key, start, self.position):
                made.state = self.projection.apply(made.state, entry)
                made.position, made.sequence = entry.position, entry.sequence
            return made
        return held

    def new_keys(self) -> list[str]:
        """Keys of which something is new, after :meth:`fold_new`."""
        return [key for key, held in self._made.items() if held is not None and held.position]

    def copied(self, key: str) -> Any:
        """As :meth:`state`, for a caller that changes what it gets."""
        state = self.state(key)
        return None if state is None else copy_state(state)
