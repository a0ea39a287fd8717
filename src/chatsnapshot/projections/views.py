"""Reads a ledger and folds what it reads: the views that a ledger gives, and the list of runs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from chatsnapshot.clock import timestamp_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import NotFound
from chatsnapshot.projections import (
    audit,
    base,
    criticalpath,
    graph,
    laststate,
    metrics,
    runs,
    timeline,
    transcript,
)
from chatsnapshot.projections.auditreading import audit_of
from chatsnapshot.projections.engine import Given, resolve
from chatsnapshot.projections.forest import forest
from chatsnapshot.projections.gathering import family_states, state_of_key
from chatsnapshot.projections.judged import keep, parse
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.lineage import Link, Start, Where, links
from chatsnapshot.projections.listing import stored_runs
from chatsnapshot.projections.metricsreading import metrics_of
from chatsnapshot.projections.replaying import correlated, store_of
from chatsnapshot.projections.runs import RunsProjection
from chatsnapshot.projections.runstate import RunsState
from chatsnapshot.projections.shapes import Run

__all__ = ["Composed", "Outward", "Readable", "list_runs", "view"]

State = TypeVar("State", contravariant=True)

# Named so that their modules are loaded and their projections registered.
STANDARD = (
    runs.RunsProjection,
    timeline.TimelineProjection,
    transcript.TranscriptProjection,
    graph.GraphProjection,
    metrics.MetricsProjection,
    audit.AuditProjection,
    laststate.StateProjection,
    criticalpath.CriticalPathProjection,
)


class Readable(Protocol):
    """What a view needs of a ledger."""

    def replay(
        self, correlation_id: str, *, until: Any = None, children: bool = False
    ) -> Iterator[LedgerEntry]:
        """The entries of a correlation in position order, with those of its children when asked."""
        ...

    def read(self, *, until: Any = None) -> Iterator[LedgerEntry]:
        """All entries in position order."""
        ...

    def get(self, event_id: str) -> LedgerEntry:
        """The entry of that event; raises :class:`~chatsnapshot.errors.NotFound`."""
        ...


@runtime_checkable
class Composed(Protocol[State]):
    """A projection whose view of a correlation takes in its children."""

    def start(self, state: State) -> Start:
        """How the state's correlation began."""
        ...

    def compose(self, states: Mapping[str, Any], links: Mapping[str, Link], correlation_id: str) -> Any:
        """The view of ``correlation_id`` from its state and those of the correlations below it."""
        ...


@runtime_checkable
class Outward(Protocol):
    """A composed projection that is told where events stand that its entries name and that were not read."""

    def outward(self, states: Mapping[str, Any]) -> Iterable[str]:
        """Ids of such events."""
        ...

    def compose(
        self,
        states: Mapping[str, Any],
        links: Mapping[str, Link],
        correlation_id: str,
        outside: Mapping[str, tuple[str, int]] | None = None,
    ) -> Any:
        """As :meth:`Composed.compose`; ``outside`` gives correlation and position of those that are there."""
        ...


def view(
    ledger: Readable, name: Given, correlation_id: object = None, *, until: Any = None, children: bool = True
) -> Any:
    """The view ``name`` of one correlation (stored states, what is new); ``runs``, ``metrics`` and ``audit`` also of all.

    ``runs`` gives :class:`~chatsnapshot.projections.shapes.Runs`, ``timeline`` a ``Timeline``, ``transcript`` a
    ``Transcript``, ``graph`` a ``Graph``; another registered projection its own result. ``until``: a position or a
    time, inclusive. ``children=False`` leaves child correlations out. Raises
    :class:`~chatsnapshot.errors.NotFound` for an unknown name (with the nearest ones) and for a correlation without
    entries.
    """
    projection = resolve(name)
    name = projection.name
    if correlation_id is None:
        if name == "metrics":
            return metrics_of(ledger, until=until)
        if name == "audit":
            return audit_of(ledger, until=until)
        if name != "runs":
            raise TypeError(f"the view {name!r} needs a correlation_id")
        return list_runs(ledger, until=until)
    correlation_id = unicodedata.normalize("NFC", str(correlation_id))
    composed = isinstance(projection, Composed)
    if store_of(ledger) is None:
        states, places = _folded(ledger, projection, correlation_id, until, children and composed)
    elif correlated(projection):
        states, places = (
            family_states(ledger, projection, correlation_id, until, children and composed),
            {},
        )
    else:
        found_state = state_of_key(ledger, projection, correlation_id, until)
        states, places = ({} if found_state is None else {correlation_id: found_state}), {}
    if correlation_id not in states:
        raise NotFound(_nothing(ledger, projection, correlation_id, until))
    if isinstance(projection, Composed):
        starts = {key: projection.start(state) for key, state in states.items()}
        where = _where(ledger, places, until)
        found = links(starts, where)
        if found[correlation_id].parent is not None:
            # What was asked for is the root here, also where it hangs under one of its own children.
            found[correlation_id] = Link("cycle", None, found[correlation_id].position)
        if isinstance(projection, Outward):
            named = {event_id: where(event_id) for event_id in projection.outward(states)}
            known = {event_id: place for event_id, place in named.items() if place is not None}
            return projection.compose(states, found, correlation_id, known)
        return projection.compose(states, found, correlation_id)
    state = states[correlation_id]
    return projection.result(state) if isinstance(projection, base.Presented) else state


def _folded(
    ledger: Readable, projection: Any, correlation_id: str, until: Any, children: bool
) -> tuple[dict[str, Any], dict[str, tuple[str, int]]]:
    """States, and the places of the entries that were read, of something that only reads like a ledger."""
    states: dict[str, Any] = {}
    places: dict[str, tuple[str, int]] = {}
    for entry in newest(ledger, ledger.replay(correlation_id, until=until, children=children)):
        key = projection.key(entry)
        places[entry.event_id] = entry.correlation_id, entry.position
        if key is not None:
            state = states[key] if key in states else projection.initial()
            states[key] = projection.apply(state, entry)
    return states, places


def _nothing(ledger: Readable, projection: Any, key: str, until: Any) -> str:
    when = "" if until is None else f" up to {until}"
    if store_of(ledger) is not None and not correlated(projection):
        return f"the view {projection.name!r} has nothing under {key!r}{when}"
    if next(iter(ledger.replay(key, until=until)), None) is not None:
        return f"the view {projection.name!r} passes over the events of correlation {key!r}"
    return f"no events under correlation {key!r}{when}; `chatsnapshot runs` lists what there is"


def _where(ledger: Readable, places: Mapping[str, tuple[str, int]], until: Any) -> Where:
    """Finds causes: among what was read, else by asking the ledger; nothing after ``until`` is known."""

    def where(event_id: str) -> tuple[str, int] | None:
        place = places.get(event_id)
        if place is not None:
            return place
        try:
            entry = ledger.get(event_id)
        except NotFound:
            return None
        if _after(entry, until):
            return None
        return entry.correlation_id, entry.position

    return where


def _after(entry: LedgerEntry, until: Any) -> bool:
    if until is None:
        return False
    if isinstance(until, int):
        return entry.position > until
    return entry.recorded_at > timestamp_text(until)


def list_runs(
    ledger: Readable, *, last: int | None = None, until: Any = None, evaluation: str | Sequence[str] = ()
) -> list[Run]:
    """All runs as trees, in the order in which they began; ``last=n`` keeps the ``n`` roots that began last.

    ``evaluation`` keeps runs by their evaluations, and the runs above them: ``correctness``, ``correctness>=0.8``,
    ``helpful=yes``; of several, all must hold. Read from stored states where there are some, else in one pass over the
    ledger, which stores them where it may. The ledger's own facts (correlation
    ``ledger``) are no run. Raises ``ValueError`` for a negative ``last``, :class:`~chatsnapshot.errors.InvalidEvent`
    for a condition that cannot be read.
    """
    if last is not None and last < 0:
        raise ValueError(f"last must be 0 or more, not {last}")
    conditions = [parse(text) for text in ([evaluation] if isinstance(evaluation, str) else evaluation)]
    if store_of(ledger) is not None:
        stored = stored_runs(ledger, last, until, conditions)
        if stored is not None:
            return stored
    projection = RunsProjection()
    states: dict[str, RunsState] = {}
    for entry in newest(ledger, ledger.read(until=until)):
        key = projection.key(entry)
        if key is not None:
            state = states[key] if key in states else projection.initial()
            states[key] = projection.apply(state, entry)
    starts = {key: projection.start(state) for key, state in states.items()}
    found = links(starts, _where(ledger, {}, until))
    roots = [key for key, link in found.items() if link.parent is None]
    roots.sort(key=lambda key: starts[key].position)
    if last is not None and not conditions:
        roots = roots[len(roots) - min(last, len(roots)) :]
    listed = forest(states, found, roots)
    if conditions:
        listed = keep(listed, conditions)
    return listed if last is None else listed[len(listed) - min(last, len(listed)) :]
