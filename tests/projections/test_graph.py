"""The graph tells what led to what: recorded causes, links, shared ids where no cause was recorded, and what is odd."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.projections.graphcycles import cycles
from chatsnapshot.projections.graphshapes import Graph
from chatsnapshot.projections.views import view


def graph(history: Any, run: str = "run-1", **options: Any) -> Graph:
    found = view(history, "graph", run, **options)
    assert isinstance(found, Graph)
    return found


def edges(history: Any, run: str = "run-1") -> list[tuple[int, int, str, str | None]]:
    return [(edge.source, edge.target, edge.kind, edge.via) for edge in graph(history, run).edges]


def test_recorded_causes_are_edges_and_counts_stand_at_the_nodes(history: Any) -> None:
    first = history.add("execution.run_started", {"name": "triage"}, name="planner")
    for _ in range(2):
        history.add("execution.message", {"content": "Hello"}, cause=first)
    found = graph(history)
    assert edges(history) == [(1, 2, "cause", None), (1, 3, "cause", None)]
    assert (found.roots, found.fan_outs, found.joins) == ((1,), (1,), ())
    start = found.nodes[0]
    assert (start.what, start.who, start.fan_in, start.fan_out) == ("run triage started", "planner", 0, 2)


def test_a_child_run_hangs_at_the_event_that_led_to_it(history: Any) -> None:
    call = history.add("execution.tool_call", {"name": "ask"})
    start = history.add("execution.run_started", run="child", cause=call)
    end = history.add("execution.run_completed", run="child", cause=start)
    history.add("execution.tool_result", {"name": "ask"}, cause=end)
    relations = [(edge.source, edge.target, edge.relation) for edge in graph(history).edges]
    assert relations == [(1, 2, "child"), (2, 3, None), (3, 4, "child")]
    assert [node.correlation_id for node in graph(history).nodes] == ["run-1", "child", "child", "run-1"]
    assert len(graph(history, children=False).nodes) == 2


@pytest.mark.parametrize(
    ("start", "end", "relation"),
    [
        (("execution.tool_call", {"call_id": "x"}), ("execution.tool_result", {"call_id": "x"}), "result"),
        (("integration.call", {"request_id": "x"}), ("integration.response", {"request_id": "x"}), "result"),
        (
            ("execution.human_input_requested", {"question_id": "x"}),
            ("execution.human_input_received", {"answers": "x"}),
            "answer",
        ),
        (("system.task_started", {"task_id": "x"}), ("system.task_failed", {"task_id": "x"}), "task"),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_shared_id_is_a_derived_edge_also_when_the_end_comes_first(
    history: Any, start: Any, end: Any, relation: str, reverse: bool
) -> None:
    for event_type, payload in (end, start) if reverse else (start, end):
        history.add(event_type, payload)
    (edge,) = graph(history).edges
    assert (edge.kind, edge.relation, edge.late) == ("derived", relation, reverse)
    assert (edge.source, edge.target) == ((2, 1) if reverse else (1, 2))


def test_an_answer_may_name_the_event_itself(history: Any) -> None:
    asked = history.add("execution.human_input_requested", {"question": "Go?"})
    history.add("execution.human_input_received", {"answers": asked.event_id})
    assert edges(history) == [(1, 2, "derived", "question_id")]


def test_a_recorded_cause_is_never_rewritten_nor_doubled(history: Any) -> None:
    start = history.add("execution.run_started")
    history.add("execution.tool_call", {"call_id": "x"}, cause=start)
    history.add("execution.tool_result", {"call_id": "x"}, cause=start)
    assert edges(history) == [(1, 2, "cause", None), (1, 3, "cause", None)]


def test_ids_tie_nothing_across_correlations(history: Any) -> None:
    history.add("execution.tool_call", {"call_id": "x"}, run="a")
    history.add("execution.tool_result", {"call_id": "x"}, run="b")
    assert edges(history, "b") == []


def test_the_four_facts_about_a_tool_follow_from_each_other(history: Any) -> None:
    ask = {"role": "assistant", "parts": [{"type": "tool_call", "id": "x", "name": "f"}]}
    history.add("execution.message", ask)
    history.add("execution.tool_call", {"call_id": "x"})
    history.add("execution.tool_result", {"call_id": "x"})
    history.add("execution.message", {"role": "tool", "tool_call_id": "x", "content": "4"})
    assert [pair[:2] for pair in edges(history)] == [(1, 2), (2, 3), (3, 4)]


def test_an_id_that_is_used_again_goes_with_the_last_one_before(history: Any) -> None:
    for _ in range(2):
        history.add("execution.tool_call", {"call_id": "call_1"})
        history.add("execution.tool_result", {"call_id": "call_1"})
    assert [pair[:2] for pair in edges(history)] == [(1, 2), (3, 4)]


def test_links_make_joins_and_the_cause_is_not_counted_twice(history: Any) -> None:
    calls = [history.add("execution.tool_result", {"call_id": str(n)}) for n in range(3)]
    named = [one.event_id for one in calls] + ["no id", "00000000-0000-0000-0000-0000000000ff"]
    history.add("execution.model_call", cause=calls[0], links=named)
    found = graph(history)
    assert [edge.kind for edge in found.edges] == ["cause", "link", "link"]
    assert found.joins == (4,)
    assert [(one.position, one.kind) for one in found.dangling] == [(4, "link")]


def test_what_is_named_twice_is_told_once(history: Any) -> None:
    nowhere = "00000000-0000-0000-0000-0000000000ff"
    history.add("execution.message", {"content": "x"}, cause=nowhere, links=[nowhere, nowhere])
    asked = history.add("execution.tool_call", {"call_id": "x"})
    history.add("execution.tool_result", {"call_id": "x"}, links=[asked.event_id])
    assert [(one.position, one.kind) for one in graph(history).dangling] == [(1, "cause")]
    assert edges(history) == [(2, 3, "link", None)]


def test_causes_elsewhere_and_causes_that_are_not_there_are_told_apart(history: Any) -> None:
    parent = history.add("execution.tool_call", run="parent")
    history.add("execution.run_started", cause=parent)
    history.add("execution.message", cause="0199c0de-0000-7000-8000-000000000001")
    found = graph(history)
    (outside,) = found.outside
    assert (outside.position, outside.correlation_id, outside.cause_position) == (2, "parent", 1)
    assert [one.position for one in found.dangling] == [3]


def test_a_cause_after_the_position_asked_for_is_not_there_yet(history: Any) -> None:
    late = "00000000-0000-0000-0000-000000000002"
    history.add("execution.message", {"content": "effect"}, cause=late)
    history.add("execution.message", {"content": "cause"}, event_id=late)
    assert [one.position for one in graph(history, until=1).dangling] == [1]
    (edge,) = graph(history).edges
    assert (edge.source, edge.target, edge.late) == (2, 1, True)


def test_cycles_are_reported_and_end(history: Any) -> None:
    ids = [f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2, 3, 4)]
    for own, cause in ((0, 2), (1, 0), (2, 1), (3, 3)):
        history.add("execution.message", {"content": "x"}, event_id=ids[own], cause=ids[cause])
    assert graph(history).cycles == ((1, 2, 3), (4,))
    assert graph(history).roots == ()


def test_branches_come_from_forked_from(history: Any) -> None:
    first = history.add("execution.message", {"content": "Hello"})
    place = {"correlation_id": "run-1", "position": first.position}
    history.add("execution.run_started", {"forked_from": place}, run="fork", cause=first)
    history.add("execution.run_started", {"forked_from": {"correlation_id": "run-9", "position": 1}})
    found = graph(history)
    assert [(one.position, one.from_correlation_id, one.known) for one in found.branches] == [
        (2, "run-1", True),
        (3, "run-9", False),
    ]
    assert [edge.kind for edge in found.edges] == ["cause"]


def test_a_fork_without_a_cause_is_an_edge_of_its_own_kind(history: Any) -> None:
    history.add("execution.message", {"content": "Hello"})
    place = {"correlation_id": "run-1", "position": 1}
    history.add("execution.run_started", {"forked_from": place})
    assert edges(history) == [(1, 2, "fork", "forked_from")]


# --- tasks ---


def test_tasks_wait_for_others_and_have_parents(history: Any) -> None:
    history.add("system.task_scheduled", {"task_id": "a", "name": "collect"})
    history.add("system.task_scheduled", {"task_id": "b", "depends_on": ["a", "z"], "parent_task_id": "top"})
    history.add("system.task_started", {"task_id": "a"})
    history.add("system.task_completed", {"task_id": "a"})
    history.add("system.task_started", {"task_id": "b"})
    history.add("system.task_failed", {"task_id": "b", "error": "no"})
    first, second = graph(history).tasks
    assert (first.task_id, first.name, first.status, first.attempts) == ("a", "collect", "completed", 1)
    assert (second.status, second.error, second.depends_on) == ("failed", "no", ("a", "z"))
    assert (second.unknown, second.parent_task_id) == (("z",), "top")
    assert (second.first_position, second.last_position) == (2, 6)
    assert set(edges(history)) == {
        (1, 3, "derived", "task_id"),
        (3, 4, "derived", "task_id"),
        (2, 5, "derived", "task_id"),
        (4, 5, "derived", "depends_on"),
        (5, 6, "derived", "task_id"),
    }


@pytest.mark.parametrize("attempts", [True, False])
def test_a_task_that_is_tried_again_is_one_chain(history: Any, attempts: bool) -> None:
    for stage, attempt in (("started", 1), ("failed", 1), ("retried", 2), ("started", 2), ("completed", 2)):
        history.add(f"system.task_{stage}", {"task_id": "a", **({"attempt": attempt} if attempts else {})})
    (task,) = graph(history).tasks
    assert (task.status, task.attempts, task.error) == ("completed", 2, None)
    assert [pair[:2] for pair in edges(history)] == [(1, 2), (2, 3), (3, 4), (4, 5)]


def test_tasks_that_wait_for_themselves_are_reported(history: Any) -> None:
    for task, waits in (("a", "b"), ("b", "a"), ("c", "c"), ("d", "a")):
        history.add("system.task_scheduled", {"task_id": task, "depends_on": [waits]})
    assert graph(history).task_cycles == (("a", "b"), ("c",))


def test_the_cycles_of_a_long_chain_need_no_recursion() -> None:
    chain = [[n + 1] for n in range(50_000)] + [[49_990]]
    assert cycles(chain) == [list(range(49_990, 50_001))]
