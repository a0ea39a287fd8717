"""The ``metrics`` projection: counts, tokens, durations and failures of one correlation, each thing counted once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import LEDGER_CORRELATION
from chatsnapshot.events.fields import payload_of
from chatsnapshot.events.normaliser import (
    read_answer,
    read_call,
    read_model_call,
    read_question,
    read_result,
    read_service,
)
from chatsnapshot.projections.base import register
from chatsnapshot.projections.latency import believable
from chatsnapshot.projections.lineage import Link, Start
from chatsnapshot.projections.lines import who
from chatsnapshot.projections.metricshapes import Metrics
from chatsnapshot.projections.metricstate import Cell, MetricsState, Waiting, shape_of, tokens_of
from chatsnapshot.projections.metricsums import shape_metrics
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.runs import RunsProjection
from chatsnapshot.projections.times import duration, happened

__all__ = ["MetricsProjection"]

_RUNS = RunsProjection()

_STEPS = {
    "execution.message": "messages",
    "execution.handoff": "handoffs",
    "system.task_started": "tasks.started",
    "system.task_completed": "tasks.completed",
    "system.task_failed": "tasks.failed",
    "system.task_cancelled": "tasks.cancelled",
    "system.task_retried": "tasks.retried",
    "integration.call": "services.calls",
    "integration.api_triggered": "services.calls",
}


@register
class MetricsProjection:
    """Key: the correlation. Tokens come from ``execution.model_call`` only; what repeats them is not added."""

    name = "metrics"
    version = 100 * RunsProjection.version + 1  # its state holds one of that projection
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation; the ledger's own facts are not measured."""
        return None if entry.correlation_id == LEDGER_CORRELATION else entry.correlation_id

    def initial(self) -> MetricsState:
        """Nothing counted."""
        return MetricsState()

    def apply(self, state: MetricsState, entry: LedgerEntry) -> MetricsState:
        """Count the entry in its cell."""
        if entry.event_type == "execution.run_started" and not state.runs.open:
            _forget(state)
        state.runs = _RUNS.apply(state.runs, entry)
        payload = payload_of(entry)
        at = happened(entry)
        if at is not None:
            state.first_at = at if state.first_at is None else min(state.first_at, at)
            state.last_at = at if state.last_at is None else max(state.last_at, at)
        step = _cell(state, entry, payload, "step")
        step.count("events")
        event_type = entry.event_type
        if event_type in _STEPS:
            step.count(_STEPS[event_type])
        if event_type.startswith("integration.") and read_service(payload).error is not None:
            step.count("services.failed")
        elif event_type == "execution.model_call":
            _model(state, entry, payload)
        elif event_type == "execution.tool_call":
            call = read_call(payload)
            cell = _cell(state, entry, payload, "tool", call.name)
            _start(state, "tool", entry, cell, call.call_id, call.name)
        elif event_type == "execution.tool_result":
            result = read_result(payload)
            cell = _cell(state, entry, payload, "tool", result.name)
            edge = _edge(state, entry, result.call_id, result.name)
            _end(state, "tool", entry, cell, edge, failed=result.error is not None)
        elif event_type == "execution.human_input_requested":
            _start(state, "people", entry, step, read_question(payload).question_id, None)
        elif event_type == "execution.human_input_received":
            edge = _edge(state, entry, read_answer(payload).answers, None)
            _end(state, "people", entry, step, edge, failed=False)
        return state

    def result(self, state: MetricsState) -> Metrics:
        """The metrics of this correlation alone."""
        return shape_metrics([state], state.runs.correlation_id)

    def start(self, state: MetricsState) -> Start:
        """How this correlation began."""
        return Start(state.runs.first_position, state.runs.cause)

    def compose(
        self, states: Mapping[str, MetricsState], links: Mapping[str, Link], correlation_id: str
    ) -> Metrics:
        """The metrics of a correlation and of its children, each once."""
        return shape_metrics(list(states.values()), correlation_id)


def _forget(state: MetricsState) -> None:
    """A run begins and no other is open: it may use again the ids of ends whose start was never seen."""
    for kind, pairs in state.pairs.items():
        for index in pairs.waiting.held:
            state.waiting[kind].pop(index, None)
        pairs.forget_waiting()


def _cell(
    state: MetricsState,
    entry: LedgerEntry,
    payload: Mapping[str, Any],
    kind: str,
    name: str | None = None,
    provider: str | None = None,
    shape: int = 0,
) -> Cell:
    at = happened(entry)
    day = None if at is None else at[:10]
    run = state.runs.owners[-1][1]
    cell = Cell(kind, run, who(entry, payload), day, name, provider, shape)
    return state.cells.setdefault(cell.key, cell)


def _model(state: MetricsState, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    call = read_model_call(payload)
    tokens = tokens_of(call)
    cell = _cell(state, entry, payload, "model", call.model, call.provider, shape_of(tokens))
    cell.count("model.calls")
    if call.error is not None:
        cell.count("model.failed")
    if call.attempt is not None and call.attempt > 1:
        cell.count("model.retries")
    for kind, count in tokens.items():
        if count:
            cell.count(f"tokens.{kind}", count)
    if tokens["input"] is None or tokens["output"] is None:
        cell.count("tokens.unknown_calls")
    took = call.duration_ns
    if took is None:
        took = duration(call.started_at, happened(entry))
    cell.took("model", believable(took))


def _edge(state: MetricsState, entry: LedgerEntry, native: str | None, name: str | None) -> Edge:
    cause = native if native is not None and name is None else None
    return Edge(entry.sequence, native, name, entry.event_id, entry.causation_id or cause)


def _start(
    state: MetricsState, kind: str, entry: LedgerEntry, cell: Cell, native: str | None, name: str | None
) -> None:
    cell.count(f"{kind}.calls")
    pairs = state.pairs.setdefault(kind, Pairs())
    waiting = state.waiting.setdefault(kind, {})
    found = pairs.start(_edge(state, entry, native, name))
    at = happened(entry)
    if found is None:
        cell.count(f"{kind}.open")
        waiting[entry.sequence] = Waiting(cell.key, at)
        return
    end = waiting.pop(found[0].index)
    state.cells[end.cell].count(f"{kind}.unmatched", -1)
    if end.failed:
        state.cells[end.cell].count(f"{kind}.failed", -1)
        cell.count(f"{kind}.failed")
    cell.took(kind, believable(duration(at, end.at)))


def _end(state: MetricsState, kind: str, entry: LedgerEntry, cell: Cell, edge: Edge, *, failed: bool) -> None:
    pairs = state.pairs.setdefault(kind, Pairs())
    waiting = state.waiting.setdefault(kind, {})
    found = pairs.end(edge, lone=kind == "people")
    at = happened(entry)
    if found is None:
        waiting[entry.sequence] = Waiting(cell.key, at, failed)
        cell.count(f"{kind}.unmatched")
    else:
        start = waiting.pop(found[0].index)
        cell = state.cells[start.cell]
        cell.count(f"{kind}.open", -1)
        cell.took(kind, believable(duration(start.at, at)))
    if failed:
        cell.count(f"{kind}.failed")
