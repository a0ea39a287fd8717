"""The shapes that readers of the metrics get: counts, tokens, exact costs, latencies and rates."""

from __future__ import annotations

from decimal import Decimal

import msgspec

__all__ = [
    "Cost",
    "Group",
    "Latency",
    "Measures",
    "Metrics",
    "ModelUse",
    "People",
    "Services",
    "Tasks",
    "Tokens",
    "ToolCalls",
]


class Latency(msgspec.Struct, frozen=True):
    """How long things took, in nanoseconds; ``unknown`` counts those of which that is not known.

    A percentile is the smallest duration that is not less than that share of them. ``exact``: of the durations
    themselves; else (of more than 512) off by at most 0.4 %.
    """

    count: int
    unknown: int
    total_ns: int
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    exact: bool


class Tokens(msgspec.Struct, frozen=True):
    """Tokens as providers count them; ``unknown_calls`` did not say how many they read or wrote."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    unknown_calls: int


class Cost(msgspec.Struct, frozen=True):
    """An exact amount, in digits."""

    currency: str
    amount: str

    @property
    def value(self) -> Decimal:
        """The amount as a number."""
        return Decimal(self.amount)


class ModelUse(msgspec.Struct, frozen=True):
    """Calls of models, each counted once. Rates are shares of ``calls``, ``None`` without any.

    ``retries`` are calls whose ``attempt`` is above 1. ``cost`` is that of the calls whose cost is known, by currency;
    of ``cost_unknown_calls`` it is not: it is more than ``cost`` then.
    """

    calls: int
    failed: int
    retries: int
    error_rate: float | None
    retry_rate: float | None
    tokens: Tokens
    cost: tuple[Cost, ...]
    cost_unknown_calls: int
    latency: Latency


class ToolCalls(msgspec.Struct, frozen=True):
    """Calls of tools. ``open`` have no result, ``unmatched`` are results whose call was not seen.

    ``error_rate`` is the share of failed ones in ``calls`` and ``unmatched``.
    """

    calls: int
    failed: int
    open: int
    unmatched: int
    error_rate: float | None
    latency: Latency


class People(msgspec.Struct, frozen=True):
    """Questions to people, of which ``open`` have no answer, and how long answers took."""

    questions: int
    open: int
    waiting: Latency


class Tasks(msgspec.Struct, frozen=True):
    """Events of tasks. ``retry_rate`` is the share of ``retried`` in ``started``."""

    started: int
    completed: int
    failed: int
    cancelled: int
    retried: int
    error_rate: float | None
    retry_rate: float | None


class Services(msgspec.Struct, frozen=True):
    """Calls of other services, and answers that say that something went wrong."""

    calls: int
    failed: int


class Measures(msgspec.Struct, frozen=True):
    """Everything that is measured, of one group."""

    events: int
    messages: int
    handoffs: int
    model: ModelUse
    tools: ToolCalls
    people: People
    tasks: Tasks
    services: Services


class Group(msgspec.Struct, frozen=True):
    """The measures of one agent, model, tool, run or day; ``key`` is ``None`` where that is unknown.

    ``name``, ``status`` and ``correlation_id`` are those of a run; ``name`` is a model's provider.
    """

    key: str | None
    measures: Measures
    name: str | None = None
    status: str | None = None
    correlation_id: str | None = None


class Metrics(msgspec.Struct, frozen=True):
    """What one correlation (and its children), or the whole ledger, did and what it cost.

    ``runs`` counts runs by status; ``first_at`` and ``last_at`` are the times of the earliest and latest event.
    ``priced``: a price table was given. Groups are sorted by their key, days are UTC.
    """

    correlation_id: str | None
    last_position: int
    first_at: str | None
    last_at: str | None
    priced: bool
    runs: dict[str, int]
    total: Measures
    by_agent: tuple[Group, ...]
    by_model: tuple[Group, ...]
    by_tool: tuple[Group, ...]
    by_run: tuple[Group, ...]
    by_day: tuple[Group, ...]
