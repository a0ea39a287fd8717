"""The ``timeline`` projection: every entry of one correlation, with what it begins and ends."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import RUN_ENDS, RUN_STARTS, WORKFLOW_ENDS, WORKFLOW_STARTS
from chatsnapshot.events.fields import failed
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start, depths, take_late
from chatsnapshot.projections.lines import line
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.shapes import Timeline, TimelineItem
from chatsnapshot.projections.times import between, duration

__all__ = ["TimelineProjection", "TimelineState"]

_STARTS: dict[str, str] = {
    **dict.fromkeys(RUN_STARTS, "run"),
    **dict.fromkeys(WORKFLOW_STARTS, "workflow"),
    "system.task_started": "task",
    "execution.tool_call": "tool",
    "execution.human_input_requested": "question",
    "integration.call": "integration",
}
_ENDS: dict[str, str] = {
    **dict.fromkeys(RUN_ENDS, "run"),
    **dict.fromkeys(WORKFLOW_ENDS, "workflow"),
    "system.task_completed": "task",
    "system.task_failed": "task",
    "system.task_cancelled": "task",
    "execution.tool_result": "tool",
    "execution.human_input_received": "question",
    "integration.response": "integration",
}
_REQUEST = "integration.api_triggered"
_ANSWER = "integration.response"
_SERVED = "served"
"""Requests to us whose answer is an event of its own: kept apart from calls of ours, which may have no id."""
_NAMED_AT_START = ("run", "workflow", "task")
_FAILURES = frozenset(
    {"execution.run_failed", "system.workflow_failed", "system.task_failed", "system.error", "ledger.gap"}
)


class TimelineState(msgspec.Struct, gc=False):
    """The items so far, and what is open, by kind of span; their offsets count from ``started_at``."""

    correlation_id: str = ""
    cause: str | None = None
    late: str | None = None
    started_at: str | None = None
    items: list[TimelineItem] = []
    pairs: dict[str, Pairs] = {}


@register
class TimelineProjection:
    """Key: the correlation. One item for each entry."""

    name = "timeline"
    version = 6
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation."""
        return entry.correlation_id

    def initial(self) -> TimelineState:
        """No entry."""
        return TimelineState()

    def apply(self, state: TimelineState, entry: LedgerEntry) -> TimelineState:
        """Append the entry, and close what it ends."""
        return self.take_once(state, Once(entry))

    def take_once(self, state: TimelineState, once: Once) -> TimelineState:
        """As :meth:`apply`."""
        if not state.items:
            state.correlation_id = once.correlation_id
            state.cause = once.causation_id if once.sequence == 1 else None
        elif state.cause is not None:
            take_late(state, once)
        if state.started_at is None:
            state.started_at = once.at
        item = _item(once, between(state.started_at, once.at))
        number = len(state.items)
        state.items.append(item)
        if item.span is None or item.edge == "whole":
            return state
        edge = _edge(number, item, once)
        served = state.pairs.get(_SERVED)
        answer = once.event_type == _ANSWER and served is not None and edge.id in served.open.by_id
        pairs = state.pairs.setdefault(
            _SERVED if answer or once.event_type == _REQUEST else item.span, Pairs()
        )
        if edge.id is None and item.span in ("run", "workflow") and once.correlation_id in pairs.open.by_id:
            edge.id = once.correlation_id
        if item.edge == "start":
            if once.event_type == "execution.run_started" and not pairs.open.held:
                _forget(state)
            match = pairs.start(edge)
            pair = (number, match[0].index) if match else None
        else:
            match = pairs.end(edge, lone=item.span != "tool" and item.span != "task")
            pair = (match[0].index, number) if match else None
            if match and item.span in _NAMED_AT_START and edge.name is None and not once.erased:
                # An end rarely says its name again; a bare id says little to people.
                named = {**once.payload, "name": match[0].name}
                state.items[number] = msgspec.structs.replace(item, what=line(once.entry, named))
        if pair:
            _join(state, *pair)
        return state

    def result(self, state: TimelineState) -> Timeline:
        """The timeline of this correlation alone."""
        return self.compose(
            {state.correlation_id: state}, {state.correlation_id: Link("root")}, state.correlation_id
        )

    def start(self, state: TimelineState) -> Start:
        """How this correlation began."""
        return Start(state.items[0].position, state.cause, state.late)

    def compose(
        self, states: Mapping[str, TimelineState], links: Mapping[str, Link], correlation_id: str
    ) -> Timeline:
        """One timeline of a correlation and its children, in position order."""
        if len(states) == 1:
            return _alone(states[correlation_id], correlation_id)
        depth = depths(links)
        items = sorted(
            ((depth[key], item) for key, state in states.items() for item in _shown(state)),
            key=lambda pair: pair[1].position,
        )
        places = {item.event_id: item.position for _, item in items}
        started = next((item.at for _, item in items if item.at is not None), None)
        return Timeline(
            correlation_id,
            items[-1][1].position if items else 0,
            started,
            tuple(
                msgspec.structs.replace(
                    item,
                    depth=deep,
                    offset_ns=between(started, item.at),
                    cause_position=places.get(item.cause or ""),
                )
                for deep, item in items
            ),
        )


def _forget(state: TimelineState) -> None:
    """A run begins and no other is open: it may use again the ids of results whose calls were never seen."""
    for span in ("tool", "question"):
        if span in state.pairs:
            state.pairs[span].forget_waiting()


def _shown(state: TimelineState) -> list[TimelineItem]:
    """The items; a request to us whose answer is not there was told whole: it stands for itself and begins nothing."""
    return [
        msgspec.structs.replace(item, span=None, edge=None)
        if item.event_type == _REQUEST and item.partner is None
        else item
        for item in state.items
    ]


def _alone(state: TimelineState, correlation_id: str) -> Timeline:
    """The timeline of one correlation: its items as they are kept, with the places of their causes."""
    items = _shown(state)
    if any(item.cause is not None for item in items):
        places = {item.event_id: item.position for item in items}
        items = [
            item
            if item.cause is None or item.cause not in places
            else msgspec.structs.replace(item, cause_position=places[item.cause])
            for item in items
        ]
    return Timeline(correlation_id, items[-1].position if items else 0, state.started_at, tuple(items))


def _item(once: Once, offset: int | None) -> TimelineItem:
    event_type = once.event_type
    span, edge, took = _STARTS.get(event_type), "start", None
    is_open, unmatched = span is not None, False
    if span is None:
        span, edge = _ENDS.get(event_type), "end"
        unmatched = span is not None
    has_failed = event_type in _FAILURES or (edge == "end" and span is not None and failed(once.payload))
    if event_type == "execution.tool_result":
        has_failed = once.facts.error is not None
    elif event_type == _REQUEST and once.facts.call_id is not None and once.facts.status is None:
        # Never open: most requests are told whole, without an answer of their own.
        span, edge = "integration", "start"
    elif event_type == "execution.model_call":
        call = once.facts
        span, edge, took = "model", "whole", call.duration_ns
        has_failed = call.error is not None
    return TimelineItem(
        position=once.position,
        sequence=once.sequence,
        correlation_id=once.correlation_id,
        event_id=once.event_id,
        event_type=event_type,
        at=once.at,
        offset_ns=offset,
        what=once.what,
        who=once.who,
        origin=once.source.origin,
        cause=once.causation_id,
        cause_position=None,
        span=span,
        edge=edge if span is not None else None,
        duration_ns=took if took is None or took >= 0 else None,
        open=is_open,
        unmatched=unmatched,
        failed=has_failed,
        erased=once.erased,
    )


def _edge(number: int, item: TimelineItem, once: Once) -> Edge:
    native, name = None, None
    said = once.facts
    if item.span == "tool" or item.span == "integration":
        native, name = said.call_id, said.name
    elif item.span == "task":
        native, name = said.task_id, said.name
    elif item.span == "question":
        native = said.question_id if item.edge == "start" else said.answers
    else:
        native, name = said.run_id, said.name
        if native is None and item.edge == "start":
            native = once.correlation_id
    return Edge(number, native, name, once.event_id, once.causation_id)


def _join(state: TimelineState, start: int, end: int) -> None:
    first, last = state.items[start], state.items[end]
    took = duration(first.at, last.at)
    replace = msgspec.structs.replace
    state.items[start] = replace(
        first, partner=last.position, duration_ns=took, open=False, failed=last.failed
    )
    state.items[end] = replace(last, partner=first.position, duration_ns=took, unmatched=False)
