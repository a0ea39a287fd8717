"""The list of runs out of stored states: it costs what is shown, not what there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.clock import uuid_bytes, uuid_text
from chatsnapshot.events.catalogue import LEDGER_CORRELATION
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.forest import forest
from chatsnapshot.projections.indexes import JudgementsProjection, StartsProjection, StartState, start_key
from chatsnapshot.projections.judged import Condition, keep
from chatsnapshot.projections.lineage import Start, hangs_by, links
from chatsnapshot.projections.runs import RunsProjection
from chatsnapshot.projections.runstate import RunsState
from chatsnapshot.projections.shapes import Run
from chatsnapshot.projections.stored import Stored, bring_up
from chatsnapshot.reading import position_until

__all__ = ["INDEXES", "stored_runs"]

INDEXES = (StartsProjection, JudgementsProjection)
_AT_ONCE = 50
_ROOTS_AT_ONCE = 20


class _First(msgspec.Struct, frozen=True):
    """How a correlation begins."""

    position: int
    correlation_id: str
    cause: str | None


def stored_runs(
    ledger: Any, last: int | None, until: Any, conditions: Sequence[Condition]
) -> list[Run] | None:
    """The runs, see :func:`~chatsnapshot.projections.views.list_runs`; ``None`` when nothing is stored to begin from."""
    projections: list[Projection[Any]] = [RunsProjection(), StartsProjection(), JudgementsProjection()]
    bring_up(ledger, projections, whole=True)
    position = position_until(ledger._store, until, ledger.head)
    states, starts, judges = (Stored(ledger, one, position) for one in projections)
    if not (states.usable and starts.usable and judges.usable):
        return None
    for one in (states, starts, judges):
        one.fold_new()
    listing = _Listing(ledger, position, states, starts, judges)
    found: list[Run] = []
    roots: list[_First] = []
    for first in listing.roots():
        roots.append(first)
        if last is not None and len(roots) >= (min(last - len(found), _ROOTS_AT_ONCE)):
            found = _more(listing, roots, conditions) + found
            roots = []
            if len(found) >= last:
                break
    found = (_more(listing, roots, conditions) if last is None or len(found) < last else []) + found
    return found if last is None else found[len(found) - min(last, len(found)) :]


def _more(listing: _Listing, roots: list[_First], conditions: Sequence[Condition]) -> list[Run]:
    listed = listing.trees(roots)
    return keep(listed, conditions) if conditions else listed


class _Listing:
    """The runs of a ledger as of a position, looked up as they are asked for."""

    def __init__(self, ledger: Any, position: int, states: Stored, starts: Stored, judges: Stored) -> None:
        self.ledger = ledger
        self.store = ledger._store
        self.position = position
        self.states, self.starts, self.judges = states, starts, judges
        self.places: dict[str, tuple[str, int] | None] = {}

    # --- roots ---

    def roots(self) -> Iterator[_First]:
        """Correlations that hang under no other, the last one first."""
        for chunk in self._firsts():
            self._look_up(first.cause for first in chunk if first.cause is not None)
            for first in chunk:
                if self._is_root(first):
                    yield first

    def _firsts(self) -> Iterator[list[_First]]:
        """How correlations begin, the last one first: those that are new, then those that are stored."""
        new = sorted(self.starts.new_keys(), reverse=True)
        for start in range(0, len(new), _AT_ONCE):
            yield [self._first(key) for key in new[start : start + _AT_ONCE]]
        slot = self.starts.slot
        assert slot is not None
        seen = set(new)
        after = start_key(self.position + 1)
        while True:
            keys = slot.page(after, _AT_ONCE, reverse=True)
            yield [self._first(key) for key in keys if key not in seen]
            if len(keys) < _AT_ONCE:
                return
            after = keys[-1]

    def _first(self, key: str) -> _First:
        state: StartState = self.starts.state(key)
        return _First(int(key), state.correlation_id, state.cause)

    def _is_root(self, first: _First) -> bool:
        place = self.where(first.cause)
        if place is not None and place[0] == first.correlation_id:
            place = self._place_of(first.correlation_id)
        if place is None or place[0] in (first.correlation_id, LEDGER_CORRELATION):
            return True
        # Whoever is the first of those that hang under each other has its cause after its own beginning.
        return place[1] > first.position and self._first_of_ring(first)

    def _first_of_ring(self, first: _First) -> bool:
        path = {first.correlation_id: first.position}
        at = first.correlation_id
        while True:
            place = self._place_of(at)
            if place is None or place[0] == LEDGER_CORRELATION:
                return False
            at = place[0]
            state = self.states.state(at)
            if at == first.correlation_id:
                return min(path.values()) == first.position
            if state is None or at in path:
                return False
            path[at] = state.first_position

    def _place_of(self, correlation_id: str) -> tuple[str, int] | None:
        """Where the event stands by which a correlation hangs."""
        state = self.states.state(correlation_id)
        if state is None:
            return None
        return hangs_by(correlation_id, Start(state.first_position, state.cause, state.late), self.where)[1]

    # --- causes ---

    def where(self, event_id: str | None) -> tuple[str, int] | None:
        """Correlation and position of an event; ``None`` for none that is known by then."""
        if event_id is None:
            return None
        if event_id not in self.places:
            self._look_up([event_id])
        return self.places[event_id]

    def _look_up(self, event_ids: Iterable[str]) -> None:
        wanted = [one for one in dict.fromkeys(event_ids) if one not in self.places]
        rows = self.store.get([uuid_bytes(one) for one in wanted])
        self.places.update(dict.fromkeys(wanted))
        for key, row in rows.items():
            if row[0] <= self.position:
                self.places[uuid_text(key)] = row[7], row[0]

    # --- trees ---

    def trees(self, roots: Sequence[_First]) -> list[Run]:
        """The runs under these roots, in the order in which they began."""
        family: dict[str, RunsState] = {}
        level = [root.correlation_id for root in roots]
        while level:
            found = {one: self.states.state(one) for one in level if one not in family}
            family.update((one, state) for one, state in found.items() if state is not None)
            level = [child for one in found for child in self.store.children(one)]
        starts = {key: Start(state.first_position, state.cause, state.late) for key, state in family.items()}
        told = (cause for start in starts.values() for cause in (start.cause, start.late))
        self._look_up(cause for cause in told if cause is not None)
        linked = links(dict(sorted(starts.items(), key=lambda pair: pair[1].position)), self.where)
        return forest({**family, **self._judges(family)}, linked, [root.correlation_id for root in roots])

    def _judges(self, family: Mapping[str, RunsState]) -> dict[str, RunsState]:
        """The states of correlations outside that hold evaluations of these runs."""
        named: dict[str, None] = {}
        for state in list(family.values()):
            for run in state.runs.values():
                found = self.judges.state(run.run_id)
                if found is not None:
                    named.update(found.correlations)
        states = {one: self.states.state(one) for one in named if one not in family}
        return {one: state for one, state in states.items() if state is not None}
