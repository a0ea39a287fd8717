"""Gathers what a context may hold: the items of one or many runs, whole, with what led to what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.projections.context.records import positions_of
from chatsnapshot.projections.gathering import family_states
from chatsnapshot.projections.graph import GraphProjection
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.replaying import store_of
from chatsnapshot.projections.shapes import Item
from chatsnapshot.projections.transcript import TranscriptProjection
from chatsnapshot.projections.transcriptstate import TranscriptState
from chatsnapshot.reading import position_until

__all__ = ["EVENTS_MATCHED_MAX", "Gathered", "Unit", "gather", "keep_matched", "matched_by"]

EVENTS_MATCHED_MAX = 1_000
"""Of the events that match a filter, only the newest so many are looked at."""

_FILTERS = (
    *("correlation_id", "event_type", "origin", "runtime", "name", "attributes", "causation_id"),
    *("start", "end", "after", "until"),
)


class Unit(msgspec.Struct, frozen=True):
    """An item of a transcript that is given whole or not at all."""

    position: int
    positions: tuple[int, ...]
    correlation_id: str
    item: Item


class Gathered(msgspec.Struct):
    """Units in order of position; the positions of events by id; the events that each was caused by, by position."""

    units: list[Unit]
    places: dict[str, int]
    causes: dict[int, tuple[str, ...]]
    last: int = 0
    """The newest position that was read."""


def gather(ledger: Any, correlations: Sequence[str], until: Any, children: bool) -> Gathered:
    """Whole correlations, out of stored states and what is new; raises :class:`NotFound` for one without events."""
    states: dict[str, TranscriptState] = {}
    found = Gathered([], {}, {})
    read = _folded if store_of(ledger) is None else _stored
    for correlation in correlations:
        if correlation not in states:  # else it came with its parent
            read(ledger, correlation, until, children, states, found)
        if correlation not in states:
            raise NotFound(f"no events under correlation {correlation!r} up to {until}")
    for name, state in states.items():
        for item in state.items:
            found.units.append(Unit(item.position, positions_of(item), name, item))
    found.units.sort(key=lambda unit: unit.position)
    return found


def _stored(
    ledger: Any,
    correlation: str,
    until: Any,
    children: bool,
    states: dict[str, TranscriptState],
    found: Gathered,
) -> None:
    """What was said out of the stored transcripts, what led to what out of the stored graphs."""
    # One position for both, whatever is recorded meanwhile.
    position = position_until(ledger._store, until, ledger.head)
    transcripts = family_states(ledger, TranscriptProjection(), correlation, position, children)
    graphs = family_states(ledger, GraphProjection(), correlation, position, children)
    for name, graph in graphs.items():
        if name in states:
            continue
        for node in graph.nodes:
            found.places[node.event_id] = node.position
            if node.cause is not None or node.links:
                found.causes[node.position] = (*([] if node.cause is None else [node.cause]), *node.links)
        found.last = max(found.last, graph.nodes[-1].position)
    for name, state in transcripts.items():
        states.setdefault(name, state)


def _folded(
    ledger: Any,
    correlation: str,
    until: Any,
    children: bool,
    states: dict[str, TranscriptState],
    found: Gathered,
) -> None:
    """The same of something that only reads like a ledger."""
    projection = TranscriptProjection()
    known = set(states)
    for entry in newest(ledger, ledger.replay(correlation, until=until, children=children)):
        if entry.correlation_id in known:
            continue
        state = states.get(entry.correlation_id) or projection.initial()
        states[entry.correlation_id] = projection.apply(state, entry)
        _note(found, entry)


def _note(found: Gathered, entry: LedgerEntry) -> None:
    found.places[entry.event_id] = entry.position
    found.last = max(found.last, entry.position)
    links = entry.event.attributes.get("links") if entry.attributes_json and entry.event.attributes else None
    causes = [entry.causation_id] if entry.causation_id else []
    if isinstance(links, (list, tuple)):
        causes += [link for link in links if isinstance(link, str)]
    if causes:
        found.causes[entry.position] = tuple(causes)


def matched_by(ledger: Any, filters: Mapping[str, Any], until: Any) -> tuple[list[LedgerEntry], bool]:
    """The newest entries that match filters of ``read``, and whether there may be more of them.

    Raises :class:`InvalidEvent` for a filter that ``read`` does not know.
    """
    unknown = [key for key in filters if key not in _FILTERS]
    if unknown:
        raise InvalidEvent(
            f"there is no filter {unknown[0]!r}; a context takes those of read: {', '.join(_FILTERS)}",
            path=str(unknown[0]),
        )
    given = {"until": until, **filters} if until is not None else dict(filters)
    limit = EVENTS_MATCHED_MAX + 1
    entries = list(ledger.read(**given, reverse=True, limit=limit))
    return entries[:EVENTS_MATCHED_MAX], len(entries) == limit


def keep_matched(found: Gathered, positions: Iterable[int]) -> None:
    """Keep the units that have a part in one of these events, whole."""
    wanted = set(positions)
    found.units = [unit for unit in found.units if wanted.intersection(unit.positions)]
