"""The ``metrics`` projection: counts, tokens, durations and failures of one correlation, each thing counted once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import LEDGER_CORRELATION
from chatsnapshot.events.normaliser import read_service
from chatsnapshot.projections.base import register
from chatsnapshot.projections.latency import believable
from chatsnapshot.projections.lineage import Link, Start
from chatsnapshot.projections.metricshapes import Metrics
from chatsnapshot.projections.metricstate import Cell, MetricsState, Waiting, cell_key, shape_of, tokens_of
from chatsnapshot.projections.metricsums import shape_metrics
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.pairing import Edge, Pairs
from chatsnapshot.projections.runs import RunsProjection
from chatsnapshot.projections.times import duration

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
        return self.take_once(state, Once(entry))

    def take_once(self, state: MetricsState, once: Once) -> MetricsState:
        """As :meth:`apply`."""
        event_type = once.event_type
        if event_type == "execution.run_started" and not state.runs.open:
            _forget(state)
        state.runs = _RUNS.take_once(state.runs, once)
        at = once.at
        if at is not None:
            if state.first_at is None or at < state.first_at:
                state.first_at = at
            if state.last_at is None or at > state.last_at:
                state.last_at = at
        step = _cell(state, once, "step")
        counts = step.counts
        counts["events"] = counts.get("events", 0) + 1
        named = _STEPS.get(event_type)
        if named is not None:
            counts[named] = counts.get(named, 0) + 1
        rule = _RULES.get(event_type)
        if rule is not None:
            rule(state, once, step)
        elif event_type.startswith("integration.") and read_service(once.payload).error is not None:
            step.count("services.failed")
        return state

    def result(self, state: MetricsState) -> Metrics:
        """The metrics of this correlation alone."""
        return shape_metrics([state], state.runs.correlation_id)

    def start(self, state: MetricsState) -> Start:
        """How this correlation began."""
        return Start(state.runs.first_position, state.runs.cause, state.runs.late)

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
    once: Once,
    kind: str,
    name: str | None = None,
    provider: str | None = None,
    shape: int = 0,
) -> Cell:
    at = once.at
    day = None if at is None else at[:10]
    run, agent = state.runs.owners[-1][1], once.who
    key = cell_key(kind, run, agent, day, name, provider, shape)
    found = state.cells.get(key)
    if found is None:
        found = state.cells[key] = Cell(kind, run, agent, day, name, provider, shape)
    return found


def _model(state: MetricsState, once: Once, step: Cell) -> None:
    call = once.facts
    tokens = tokens_of(call)
    cell = _cell(state, once, "model", call.model, call.provider, shape_of(tokens))
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
        took = duration(call.started_at, once.at)
    cell.took("model", believable(took))


def _tool_call(state: MetricsState, once: Once, step: Cell) -> None:
    call = once.facts
    cell = _cell(state, once, "tool", call.name)
    _start(state, "tool", once, cell, call.call_id, call.name)


def _tool_result(state: MetricsState, once: Once, step: Cell) -> None:
    result = once.facts
    cell = _cell(state, once, "tool", result.name)
    edge = _edge(once, result.call_id, result.name)
    _end(state, "tool", once, cell, edge, failed=result.error is not None)


def _asked(state: MetricsState, once: Once, step: Cell) -> None:
    _start(state, "people", once, step, once.facts.question_id, None)


def _answered(state: MetricsState, once: Once, step: Cell) -> None:
    _end(state, "people", once, step, _edge(once, once.facts.answers, None), failed=False)


_RULES: dict[str, Callable[[MetricsState, Once, Cell], None]] = {
    "execution.model_call": _model,
    "execution.tool_call": _tool_call,
    "execution.tool_result": _tool_result,
    "execution.human_input_requested": _asked,
    "execution.human_input_received": _answered,
}


def _edge(once: Once, native: str | None, name: str | None) -> Edge:
    cause = native if native is not None and name is None else None
    return Edge(once.sequence, native, name, once.event_id, once.causation_id or cause)


def _waiting(state: MetricsState, kind: str) -> tuple[Pairs, dict[int, Waiting]]:
    pairs = state.pairs.get(kind)
    if pairs is None:
        pairs, state.waiting[kind] = state.pairs.setdefault(kind, Pairs()), {}
    return pairs, state.waiting[kind]


def _start(
    state: MetricsState, kind: str, once: Once, cell: Cell, native: str | None, name: str | None
) -> None:
    cell.count(f"{kind}.calls")
    pairs, waiting = _waiting(state, kind)
    found = pairs.start(_edge(once, native, name))
    if found is None:
        cell.count(f"{kind}.open")
        waiting[once.sequence] = Waiting(cell.key, once.at)
        return
    end = waiting.pop(found[0].index)
    state.cells[end.cell].count(f"{kind}.unmatched", -1)
    if end.failed:
        state.cells[end.cell].count(f"{kind}.failed", -1)
        cell.count(f"{kind}.failed")
    cell.took(kind, believable(duration(once.at, end.at)))


def _end(state: MetricsState, kind: str, once: Once, cell: Cell, edge: Edge, *, failed: bool) -> None:
    pairs, waiting = _waiting(state, kind)
    found = pairs.end(edge, lone=kind == "people")
    if found is None:
        waiting[once.sequence] = Waiting(cell.key, once.at, failed)
        cell.count(f"{kind}.unmatched")
    else:
        start = waiting.pop(found[0].index)
        cell = state.cells[start.cell]
        cell.count(f"{kind}.open", -1)
        cell.took(kind, believable(duration(start.at, once.at)))
    if failed:
        cell.count(f"{kind}.failed")
