"""Makes the metrics that readers get: cells chosen, grouped, summed and priced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

import msgspec

from chatsnapshot.projections.latency import Sketch
from chatsnapshot.projections.metricshapes import (
    Cost,
    Group,
    Latency,
    Measures,
    Metrics,
    ModelUse,
    People,
    Services,
    Tasks,
    Tokens,
    ToolCalls,
)
from chatsnapshot.projections.metricstate import Cell, MetricsState, used_of
from chatsnapshot.projections.pricing import PriceTable, plain_amount, sum_of
from chatsnapshot.projections.runstate import RunState

__all__ = ["Chosen", "shape_metrics"]


class Chosen(msgspec.Struct, frozen=True):
    """Which cells are taken: those of an agent, model, tool or run, and of days from ``since`` to ``until`` (inclusive).

    ``None`` takes all. A cell whose day is unknown is taken only without either bound.
    """

    agent: str | None = None
    model: str | None = None
    tool: str | None = None
    run: str | None = None
    since: str | None = None
    until: str | None = None

    def takes(self, cell: Cell, run: RunState, correlation_id: str) -> bool:
        """Whether a cell is taken."""
        if self.agent is not None and cell.agent != self.agent:
            return False
        if self.run is not None and self.run not in (run.run_id, correlation_id):
            return False
        if self.model is not None and (cell.kind, cell.name) != ("model", self.model):
            return False
        if self.tool is not None and (cell.kind, cell.name) != ("tool", self.tool):
            return False
        if cell.day is None:
            return self.since is None and self.until is None
        return (self.since is None or cell.day >= self.since) and (
            self.until is None or cell.day <= self.until
        )


class _Sums:
    """Sums while they are being made."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.sketches: dict[str, Sketch] = {}
        self.costs: dict[str, Decimal] = {}

    def add(self, cell: Cell, cost: tuple[str, Decimal] | None) -> None:
        for name, count in cell.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        for name, sketch in cell.sketches.items():
            self.sketches.setdefault(name, Sketch()).merge(sketch)
        calls = cell.counts.get("model.calls", 0)
        if cost is not None:
            self.costs[cost[0]] = sum_of(self.costs, *cost)
        elif calls:
            self.counts["cost.unknown"] = self.counts.get("cost.unknown", 0) + calls

    def measures(self) -> Measures:
        count = _Counts(self.counts)
        calls, failed, retries = count("model.calls"), count("model.failed"), count("model.retries")
        tools, tool_failed, unmatched = count("tool.calls"), count("tool.failed"), count("tool.unmatched")
        started, retried = count("tasks.started"), count("tasks.retried")
        task_failed, completed = count("tasks.failed"), count("tasks.completed")
        return Measures(
            events=count("events"),
            messages=count("messages"),
            handoffs=count("handoffs"),
            model=ModelUse(
                calls,
                failed,
                retries,
                _rate(failed, calls),
                _rate(retries, calls),
                Tokens(
                    count("tokens.input"),
                    count("tokens.output"),
                    count("tokens.cache_read"),
                    count("tokens.cache_write"),
                    count("tokens.reasoning"),
                    count("tokens.unknown_calls"),
                ),
                tuple(Cost(name, plain_amount(amount)) for name, amount in sorted(self.costs.items())),
                count("cost.unknown"),
                self._latency("model"),
            ),
            tools=ToolCalls(
                tools,
                tool_failed,
                count("tool.open"),
                unmatched,
                _rate(tool_failed, tools + unmatched),
                self._latency("tool"),
            ),
            people=People(count("people.calls"), count("people.open"), self._latency("people")),
            tasks=Tasks(
                started,
                completed,
                task_failed,
                count("tasks.cancelled"),
                retried,
                _rate(task_failed, completed + task_failed),
                _rate(retried, started),
            ),
            services=Services(count("services.calls"), count("services.failed")),
        )

    def _latency(self, name: str) -> Latency:
        sketch = self.sketches.get(name, Sketch())
        return Latency(
            sketch.count,
            self.counts.get(f"{name}.unknown", 0),
            sketch.total_ns,
            sketch.percentile(50),
            sketch.percentile(90),
            sketch.percentile(99),
            sketch.largest_ns if sketch.count else None,
            sketch.exact,
        )


class _Counts:
    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def __call__(self, name: str) -> int:
        return self.counts.get(name, 0)


class _Taken(msgspec.Struct, frozen=True):
    cell: Cell
    run: RunState
    correlation_id: str
    cost: tuple[str, Decimal] | None


Key = tuple[str | None, ...]


def shape_metrics(
    states: Sequence[MetricsState],
    correlation_id: str | None,
    prices: PriceTable | None = None,
    chosen: Chosen | None = None,
) -> Metrics:
    """The metrics of some correlations together; without ``prices`` every cost is unknown."""
    table = prices or PriceTable()
    wanted = chosen or Chosen()
    taken: list[_Taken] = []
    for state in states:
        runs = {run.number: run for run in state.runs.runs.values()}
        for cell in state.cells.values():
            run = runs[cell.run]
            if any(cell.counts.values()) and wanted.takes(cell, run, state.runs.correlation_id):
                cost = (
                    table.cost(cell.name, cell.provider, cell.day, used_of(cell)) if _is_model(cell) else None
                )
                taken.append(_Taken(cell, run, state.runs.correlation_id, cost))
    seen = {(one.correlation_id, one.run.number): one.run for one in taken}
    statuses = [run.executions[-1].status if run.executions else "unknown" for run in seen.values()]
    firsts = [state.first_at for state in states if state.first_at]
    lasts = [state.last_at for state in states if state.last_at]
    return Metrics(
        correlation_id=correlation_id,
        last_position=max((state.runs.last_position for state in states), default=0),
        first_at=min(firsts, default=None),
        last_at=max(lasts, default=None),
        priced=prices is not None,
        runs={status: statuses.count(status) for status in sorted(set(statuses))},
        total=_summed(taken),
        by_agent=_grouped(taken, lambda one: (one.cell.agent, None, None, None)),
        by_model=_grouped(
            (one for one in taken if _is_model(one.cell)),
            lambda one: (one.cell.name, one.cell.provider, None, None),
        ),
        by_tool=_grouped(
            (one for one in taken if one.cell.kind == "tool"), lambda one: (one.cell.name, None, None, None)
        ),
        by_run=_grouped(taken, _run_key),
        by_day=_grouped(taken, lambda one: (one.cell.day, None, None, None)),
    )


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _is_model(cell: Cell) -> bool:
    return cell.kind == "model"


def _run_key(one: _Taken) -> Key:
    status = one.run.executions[-1].status if one.run.executions else "unknown"
    return one.run.run_id, one.run.name, status, one.correlation_id


def _summed(taken: Iterable[_Taken]) -> Measures:
    sums = _Sums()
    for one in taken:
        sums.add(one.cell, one.cost)
    return sums.measures()


def _grouped(taken: Iterable[_Taken], key: Callable[[_Taken], Key]) -> tuple[Group, ...]:
    groups: dict[Key, list[_Taken]] = {}
    for one in taken:
        groups.setdefault(key(one), []).append(one)
    return tuple(
        Group(of[0], _summed(groups[of]), *of[1:])
        for of in sorted(groups, key=lambda of: [(part is None, part or "") for part in of])
    )
