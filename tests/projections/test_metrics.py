"""Metrics: each model call counted once, exact costs, latencies, rates; what is unknown stays unknown."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.projections.latency import EXACT_VALUES_MAX, Sketch
from chatsnapshot.projections.metricsreading import metrics_of
from chatsnapshot.projections.views import view

PRICES = {"currency": "USD", "models": {"large-2": {"input": "2.50", "output": 10, "cache_read": "0.25"}}}
USAGE = {"input_tokens": 1250, "output_tokens": 84}


def model(history: Any, usage: Any = USAGE, **more: Any) -> Any:
    options = {key: more.pop(key) for key in ("run", "cause", "at", "name", "erased") if key in more}
    return history.add(
        "execution.model_call", {"model": "large-2", "usage": usage, "agent": "desk", **more}, **options
    )


def test_tokens_come_from_model_calls_only(history: Any) -> None:
    history.add("execution.run_started", {"name": "triage"})
    model(history)
    history.add("execution.message", {"role": "assistant", "content": "Hi", "usage": USAGE})
    history.add("execution.run_completed", {"usage": USAGE})
    found = view(history, "metrics", "run-1")
    assert found.total.model.calls == 1
    assert (found.total.model.tokens.input, found.total.model.tokens.output) == (1250, 84)
    assert found.runs == {"completed": 1}
    assert not found.priced
    assert (found.total.model.cost, found.total.model.cost_unknown_calls) == ((), 1)


def test_a_cost_is_exact_and_never_rounded_to_0(history: Any) -> None:
    model(history, {"input_tokens": 1, "output_tokens": 0})
    model(history, {"input_tokens": 1000, "output_tokens": 1, "cache_read": 900})
    (cost,) = metrics_of(history, "run-1", prices=PRICES).total.model.cost
    assert (cost.currency, cost.amount) == ("USD", "0.0004875")
    model(history, {"input_tokens": 10**10, "output_tokens": 10**10})
    (cost,) = metrics_of(history, "run-1", prices=PRICES).total.model.cost
    assert cost.amount == "125000.0004875"


@pytest.mark.parametrize(
    "payload",
    [
        {"model": "other", "usage": USAGE},
        {"usage": USAGE},
        {"model": "large-2"},
        {"model": "large-2", "usage": {"input_tokens": 5}},
        {"model": "large-2", "usage": {**USAGE, "cache_write": 4}},
        {"model": "large-2", "usage": {**USAGE, "cache_read": 9000}},
        {"model": "large-2", "usage": {**USAGE, "reasoning": 85}},
        {"model": "large-2", "usage": {"input_tokens": -1, "output_tokens": 5}},
        {"model": "large-2", "usage": {"input_tokens": 10**11, "output_tokens": 5}},
    ],
)
def test_a_call_with_a_gap_has_an_unknown_cost_and_not_0(history: Any, payload: Any) -> None:
    model(history)
    history.add("execution.model_call", payload)
    found = metrics_of(history, "run-1", prices=PRICES).total.model
    assert found.cost_unknown_calls == 1
    assert [cost.amount for cost in found.cost] == ["0.003965"]


@pytest.mark.parametrize("count", [-1, 10**11, 1.5, True, "many"])
@pytest.mark.parametrize("kind", ["input_tokens", "output_tokens", "cache_read", "reasoning"])
def test_a_count_of_tokens_that_cannot_be_is_not_added(history: Any, kind: str, count: Any) -> None:
    model(history, {**USAGE, kind: count})
    tokens = view(history, "metrics", "run-1").total.model.tokens
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.reasoning) == (
        0 if kind == "input_tokens" else 1250,
        0 if kind == "output_tokens" else 84,
        0,
        0,
    )
    assert tokens.unknown_calls == (kind in ("input_tokens", "output_tokens"))


def test_an_erased_call_is_counted_with_everything_about_it_unknown(history: Any) -> None:
    model(history, erased=True)
    found = metrics_of(history, "run-1", prices=PRICES)
    assert (found.total.model.calls, found.total.model.cost_unknown_calls) == (1, 1)
    assert found.total.model.tokens.unknown_calls == 1
    assert found.total.model.latency.unknown == 1
    assert found.by_model[0].key is None


def test_prices_hold_from_their_day_on(history: Any) -> None:
    prices = {
        "currency": "EUR",
        "prices": [
            {"model": "large-*", "input": 1, "output": 1},
            {"model": "large-*", "input": 2, "output": 2, "valid_from": "2026-12-01"},
        ],
    }
    model(history, {"input_tokens": 10**6, "output_tokens": 0})
    model(history, {"input_tokens": 10**6, "output_tokens": 0}, at=86_400)
    found = metrics_of(history, prices=prices)
    assert [(day.key, day.measures.model.cost[0].amount) for day in found.by_day] == [
        ("2026-11-30", "1"),
        ("2026-12-01", "2"),
    ]
    assert found.total.model.cost[0].amount == "3"


def test_failures_and_retries_are_rates_of_calls(history: Any) -> None:
    model(history, error="overloaded")
    model(history, attempt=2)
    model(history, attempt=1)
    model(history)
    found = view(history, "metrics", "run-1").total.model
    assert (found.failed, found.retries) == (1, 1)
    assert (found.error_rate, found.retry_rate) == (0.25, 0.25)


@pytest.mark.parametrize("took", [-5, 10**18, "soon", None])
def test_an_absurd_duration_is_unknown(history: Any, took: Any) -> None:
    model(history, duration_ns=took)
    model(history, duration_ns=7)
    found = view(history, "metrics", "run-1").total.model.latency
    assert (found.count, found.unknown, found.p50_ns, found.p99_ns, found.max_ns) == (1, 1, 7, 7, 7)


def test_a_call_without_a_duration_took_from_its_start_to_its_end(history: Any) -> None:
    model(history, started_at="2026-11-30T02:26:01.000000Z", at=3)
    model(history, started_at="2026-11-30T02:26:09.000000Z", at=3)  # the clocks disagree
    found = view(history, "metrics", "run-1").total.model.latency
    assert (found.count, found.unknown, found.max_ns) == (1, 1, 2_000_000_000)


def test_a_tool_is_counted_once_whichever_of_its_events_came_first(history: Any) -> None:
    history.add("execution.message", {"role": "assistant", "tool_calls": [{"id": "a", "name": "search"}]})
    history.add("execution.tool_call", {"name": "search", "call_id": "a"})
    history.add("execution.tool_result", {"call_id": "a", "error": "no answer"})
    history.add("execution.message", {"role": "tool", "tool_call_id": "a", "content": "no answer"})
    history.add("execution.tool_result", {"call_id": "b", "error": "late"}, at=9)
    (before, after) = view(history, "metrics", "run-1").by_tool
    assert (before.key, before.measures.tools.calls, before.measures.tools.failed) == ("search", 1, 1)
    assert (after.key, after.measures.tools.unmatched, after.measures.tools.failed) == (None, 1, 1)
    history.add("execution.tool_call", {"name": "book", "call_id": "b"}, at=8)
    history.add("execution.tool_call", {"name": "book", "call_id": "c"})
    found = view(history, "metrics", "run-1")
    assert [group.key for group in found.by_tool] == ["book", "search"]
    tools = found.by_tool[0].measures.tools
    assert (tools.calls, tools.failed, tools.open, tools.unmatched) == (2, 1, 1, 0)
    assert tools.latency.p50_ns == 1_000_000_000
    assert found.total.tools.error_rate == 2 / 3


def test_waiting_for_people_is_measured(history: Any) -> None:
    history.add("execution.human_input_requested", {"question_id": "q"}, at=1)
    history.add("execution.human_input_received", {"answers": "q"}, at=61)
    history.add("execution.human_input_requested", {"question_id": "r"})
    people = view(history, "metrics", "run-1").total.people
    assert (people.questions, people.open, people.waiting.max_ns) == (2, 1, 60_000_000_000)


def test_children_count_once_and_can_be_left_out(history: Any) -> None:
    call = history.add("execution.tool_call", {"name": "ask", "call_id": "a"})
    history.add("execution.run_started", {"name": "part"}, run="child", cause=call)
    model(history, run="child")
    model(history)
    assert view(history, "metrics", "run-1").total.model.calls == 2
    assert view(history, "metrics", "child").total.model.calls == 1
    assert metrics_of(history, "run-1", children=False).total.model.calls == 1
    everything = view(history, "metrics")
    assert everything.total.model.calls == 2
    assert everything.total.events == 4
    assert [(group.key, group.correlation_id) for group in everything.by_run] == [
        ("child", "child"),
        ("run-1", "run-1"),
    ]


def test_filters_choose_what_is_counted(history: Any) -> None:
    model(history)
    model(history, agent="scribe", model="small-1")
    model(history, run="run-2", at=90_000)
    history.add("execution.tool_call", {"name": "search", "agent": "desk"})

    def calls(**filters: Any) -> int:
        return metrics_of(history, **filters).total.model.calls

    assert calls() == 3
    assert calls(agent="desk") == 2
    assert calls(model="small-1") == 1
    assert calls(run="run-2") == 1
    assert calls(first_day="2026-12-01") == 1
    assert calls(last_day="2026-11-30") == 2
    assert calls(until=1) == 1
    assert metrics_of(history, tool="search").total.tools.calls == 1
    with pytest.raises(InvalidEvent, match="'yesterday' is no day"):
        calls(first_day="yesterday")
    with pytest.raises(NotFound, match="no events under correlation 'run-9'"):
        metrics_of(history, "run-9")


NS = st.integers(0, 10**15)


@given(st.lists(NS, min_size=1, max_size=60), st.integers(1, 100))
def test_percentiles_of_few_values_are_exact(values: list[int], percent: int) -> None:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    rank = -(-percent * len(values) // 100)
    assert sketch.percentile(percent) == sorted(values)[rank - 1]


@given(st.integers(0, 10**9), st.integers(1, 15), st.integers(1, 100))
@settings(max_examples=25)
def test_percentiles_of_many_values_stay_within_the_stated_error_however_they_are_merged(
    seed: int, digits: int, percent: int
) -> None:
    chance = random.Random(seed)
    values = [chance.randrange(10 ** chance.randint(1, digits)) for _ in range(EXACT_VALUES_MAX * 2 + 1)]
    parts = [Sketch() for _ in range(3)]
    whole = Sketch()
    for value in values:
        whole.add(value)
        chance.choice(parts).add(value)
    first, *others = chance.sample(parts, 3)
    for part in others:
        first.merge(part)
    assert first == whole
    true = sorted(values)[-(-percent * whole.count // 100) - 1]
    found = whole.percentile(percent)
    assert found is not None
    assert abs(found - true) <= true / 256


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["model", "call", "result", "ask", "answer", "start", "end"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 50),
    ),
    max_size=8,
)
TYPES = {
    "model": "execution.model_call",
    "call": "execution.tool_call",
    "result": "execution.tool_result",
    "ask": "execution.human_input_requested",
    "answer": "execution.human_input_received",
    "start": "execution.run_started",
    "end": "execution.run_completed",
}


@given(STEPS, STEPS, st.integers(0, 10**9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_interleaving_of_two_independent_runs_gives_the_same_metrics(
    history: Any, first: Any, second: Any, seed: int
) -> None:
    def told(order: list[str]) -> bytes:
        history.entries.clear()
        history.sequences.clear()
        left = {"one": list(first), "two": list(second)}
        for run in order:
            kind, name, at = left[run].pop(0)
            payload = {"call_id": name, "question_id": name, "answers": name, "usage": USAGE, "model": name}
            history.add(TYPES[kind], payload, run=run, at=at)
        found = metrics_of(history, prices=PRICES)
        return msgspec.json.encode(found)

    order = ["one"] * len(first) + ["two"] * len(second)
    expected = told(order)
    random.Random(seed).shuffle(order)
    assert told(order) == expected
