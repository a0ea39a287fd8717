"""The graph does not depend on the order in which causal events reach the ledger, and costs linear time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.projections.graphshapes import Graph
from chatsnapshot.projections.views import view

Event = tuple[str, dict[str, Any], int | None, list[int]]


def named(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012x}"


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """Calls and results, questions and answers, tasks, messages: with and without causes, links to any, ids used once."""
    made: list[tuple[str, dict[str, Any]]] = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["tool", "question", "task", "message"]))
        name = f"{kind}-{number}"
        if kind == "tool":
            made.append(("execution.tool_call", {"call_id": name, "name": "f"}))
            made.append(("execution.tool_result", {"call_id": name}))
            if draw(st.booleans()):
                made.append(("execution.message", {"role": "tool", "tool_call_id": name, "content": "4"}))
        elif kind == "question":
            made.append(("execution.human_input_requested", {"question_id": name}))
            made.append(("execution.human_input_received", {"answers": name}))
        elif kind == "task":
            waits = draw(st.lists(st.sampled_from([f"task-{n}" for n in range(4)]), max_size=2))
            made.append(("system.task_scheduled", {"task_id": name, "depends_on": waits}))
            made.append(("system.task_started", {"task_id": name}))
            made.append(("system.task_completed", {"task_id": name}))
        else:
            made.append(("execution.message", {"role": "user", "content": name}))
    numbers = st.integers(1, len(made) + 1)  # one of them is nowhere
    return [
        (event_type, payload, draw(st.none() | numbers), draw(st.lists(numbers, max_size=2)))
        for event_type, payload in made
    ]


def record(history: Any, given_events: list[Event], order: list[int]) -> Graph:
    history.entries.clear()
    history.sequences.clear()
    for number in order:
        event_type, payload, cause, links = given_events[number]
        history.add(
            event_type,
            payload,
            at=number,
            event_id=named(number + 1),
            cause=None if cause is None else named(cause),
            links=[named(link) for link in links],
        )
    found = view(history, "graph", "run-1")
    assert isinstance(found, Graph)
    return found


def without_places(graph: Graph) -> Any:
    """A graph with ids in the place of positions."""
    name = {node.position: node.event_id for node in graph.nodes}
    return {
        "nodes": {
            (node.event_id, node.event_type, node.what, node.fan_in, node.fan_out) for node in graph.nodes
        },
        "edges": {
            (name[one.source], name[one.target], one.kind, one.via, one.relation) for one in graph.edges
        },
        "places": [{name[one] for one in places} for places in (graph.roots, graph.joins, graph.fan_outs)],
        "dangling": {(name[one.position], one.event_id, one.kind) for one in graph.dangling},
        "cycles": {frozenset(name[one] for one in group) for group in graph.cycles},
        "tasks": {(task.task_id, task.status, task.depends_on, task.unknown) for task in graph.tasks},
        "task_cycles": {frozenset(group) for group in graph.task_cycles},
    }


@given(st.data(), events())
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_order_of_the_same_events_gives_the_same_graph(
    history: Any, data: Any, made: list[Event]
) -> None:
    order = list(range(len(made)))
    first = record(history, made, order)
    other = record(history, made, data.draw(st.permutations(order)))
    assert without_places(other) == without_places(first)


@given(st.data(), events())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_late_says_of_each_edge_whether_the_effect_came_first(
    history: Any, data: Any, made: list[Event]
) -> None:
    found = record(history, made, data.draw(st.permutations(range(len(made)))))
    positions = {node.position for node in found.nodes}
    for edge in found.edges:
        assert {edge.source, edge.target} <= positions
        assert edge.late == (edge.source > edge.target)


def chain(history: Any, count: int) -> None:
    cause = None
    for number in range(count):
        kind, payload = (
            ("execution.tool_call", {"name": "f", "call_id": str(number // 2)}),
            ("execution.tool_result", {"call_id": str(number // 2)}),
        )[number % 2]
        entry = history.add(kind, payload, cause=cause)
        cause = entry if number % 2 == 0 else None


def one_cause(history: Any, count: int) -> None:
    first = history.add("execution.run_started")
    for _ in range(count - 1):
        history.add("execution.message", {"content": "x"}, cause=first)


def one_id(history: Any, count: int) -> None:
    for number in range(count):
        history.add(("execution.tool_call", "execution.tool_result")[number % 2], {"call_id": "call_1"})


def one_task(history: Any, count: int) -> None:
    for number in range(count):
        history.add(
            f"system.task_{('started', 'failed')[number % 2]}", {"task_id": "a", "attempt": 1 + number // 2}
        )


@pytest.mark.parametrize("shape", [chain, one_cause, one_id, one_task])
def test_five_thousand_events_of_any_shape_take_about_a_second(
    history: Any, shape: Callable[[Any, int], None]
) -> None:
    shape(history, 5_000)
    started = time.process_time()
    found = view(history, "graph", "run-1")
    assert len(msgspec.json.encode(found)) > 5_000
    # Bounded by far above what it takes (0.3 s), far below what anything quadratic does.
    assert time.process_time() - started < 4
