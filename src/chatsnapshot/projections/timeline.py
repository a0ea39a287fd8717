"""The ``timeline`` projection: every entry of one correlation, with what it begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import RUN_ENDS, RUN_STARTS, WORKFLOW_ENDS, WORKFLOW_STARTS
from chatsnapshot.events.fields import failed, payload_of
from chatsnapshot.events.normaliser import (
    read_answer,
    read_call,
    read_model_call,
    read_question,
    read_result,
    read_run,
    read_service,
    read_task,
    tool_failed,
)
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start, depths
from chatsnapshot.projections.lines import line, who
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.shapes import Timeline, TimelineItem
from chatsnapshot.projections.times import between, duration, happened

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
_NAMED_AT_START = ("run", "workflow", "task")
_FAILURES = frozenset(
    {"execution.run_failed", "system.workflow_failed", "system.task_failed", "system.error", "ledger.gap"}
)


class TimelineState(msgspec.Struct, gc=False):
    """The items so far, and what is open, by kind of span."""

    correlation_id: str = ""
    cause: str | None = None
    items: list[TimelineItem] = []
    pairs: dict[str, Pairs] = {}


@register
class TimelineProjection:
    """Key: the correlation. One item for each entry."""

    name = "timeline"
    version = 3
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation."""
        return entry.correlation_id

    def initial(self) -> TimelineState:
        """No entry."""
        return TimelineState()

    def apply(self, state: TimelineState, entry: LedgerEntry) -> TimelineState:
        """Append the entry, and close what it ends."""
        payload = payload_of(entry)
        if not state.items:
            state.correlation_id = entry.correlation_id
            state.cause = entry.causation_id if entry.sequence == 1 else None
        item = _item(entry, payload)
        number = len(state.items)
        state.items.append(item)
        if item.span is None or item.edge == "whole":
            return state
        pairs = state.pairs.setdefault(item.span, Pairs())
        edge = _edge(number, item, entry, payload)
        if edge.id is None and item.span in ("run", "workflow") and entry.correlation_id in pairs.open.by_id:
            edge.id = entry.correlation_id
        if item.edge == "start":
            if entry.event_type == "execution.run_started" and not pairs.open.held:
                _forget(state)
            match = pairs.start(edge)
            pair = (number, match[0].index) if match else None
        else:
            match = pairs.end(edge, lone=item.span != "tool" and item.span != "task")
            pair = (match[0].index, number) if match else None
            if match and item.span in _NAMED_AT_START and edge.name is None and not entry.erased:
                # An end rarely says its name again; a bare id says little to people.
                named = {**payload, "name": match[0].name}
                state.items[number] = msgspec.structs.replace(item, what=line(entry, named))
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
        return Start(state.items[0].position, state.cause)

    def compose(
        self, states: Mapping[str, TimelineState], links: Mapping[str, Link], correlation_id: str
    ) -> Timeline:
        """One timeline of a correlation and its children, in position order."""
        depth = depths(links)
        items = sorted(
            ((depth[key], item) for key, state in states.items() for item in state.items),
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


def _item(entry: LedgerEntry, payload: Mapping[str, Any]) -> TimelineItem:
    event_type = entry.event_type
    span, edge, took = _STARTS.get(event_type), "start", None
    is_open, unmatched = span is not None, False
    if span is None:
        span, edge = _ENDS.get(event_type), "end"
        unmatched = span is not None
    has_failed = event_type in _FAILURES or (edge == "end" and span is not None and failed(payload))
    if event_type == "execution.tool_result":
        has_failed = tool_failed(payload)
    elif event_type == "execution.model_call":
        call = read_model_call(payload)
        span, edge, took = "model", "whole", call.duration_ns
        has_failed = call.error is not None
    return TimelineItem(
        position=entry.position,
        sequence=entry.sequence,
        correlation_id=entry.correlation_id,
        event_id=entry.event_id,
        event_type=event_type,
        at=happened(entry),
        offset_ns=None,
        what=line(entry, payload),
        who=who(entry, payload),
        origin=entry.source.origin,
        cause=entry.causation_id,
        cause_position=None,
        span=span,
        edge=edge if span is not None else None,
        duration_ns=took if took is None or took >= 0 else None,
        open=is_open,
        unmatched=unmatched,
        failed=has_failed,
        erased=entry.erased,
    )


def _edge(number: int, item: TimelineItem, entry: LedgerEntry, payload: Mapping[str, Any]) -> Edge:
    native, name, cause = None, None, entry.causation_id
    if item.span == "tool":
        tool = read_call(payload) if item.edge == "start" else read_result(payload)
        native, name = tool.call_id, tool.name
    elif item.span == "task":
        task = read_task(payload)
        native, name = task.task_id, task.name
    elif item.span == "question":
        if item.edge == "start":
            native = read_question(payload).question_id
        else:
            native = read_answer(payload).answers
    elif item.span == "integration":
        service = read_service(payload)
        native, name = service.call_id, service.name
    else:
        facts = read_run(payload, "run_id" if item.span == "run" else "workflow_id")
        native, name = facts.run_id, facts.name
        if native is None and item.edge == "start":
            native = entry.correlation_id
    return Edge(number, native, name, entry.event_id, cause)


def _join(state: TimelineState, start: int, end: int) -> None:
    first, last = state.items[start], state.items[end]
    took = duration(first.at, last.at)
    replace = msgspec.structs.replace
    state.items[start] = replace(
        first, partner=last.position, duration_ns=took, open=False, failed=last.failed
    )
    state.items[end] = replace(last, partner=first.position, duration_ns=took, unmatched=False)
