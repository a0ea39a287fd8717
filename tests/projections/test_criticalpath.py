"""The critical path: what the end waited for, without holes; overlaps, waiting and idle time."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.projections.criticalpath import IDLE_NS_MIN
from chatsnapshot.projections.views import view

S = IDLE_NS_MIN


def path(history: Any, run: str = "run-1") -> Any:
    return view(history, "critical_path", run)


def told(found: Any) -> list[tuple[str, int, int, bool]]:
    return [(step.kind, step.from_ns // S, step.to_ns // S, step.own) for step in found.steps]


def span(history: Any, name: str, start: float, end: float, **options: Any) -> Any:
    begun = history.add("execution.tool_call", {"name": name, "call_id": name}, at=start, **options)
    return history.add("execution.tool_result", {"name": name, "call_id": name}, at=end, cause=begun)


def test_of_two_parallel_tools_the_one_that_ended_last_is_on_the_path(history: Any) -> None:
    history.add("execution.run_started", {"name": "triage"}, at=0)
    span(history, "quick", 1, 3)
    span(history, "slow", 1, 8)
    span(history, "last", 8, 9)
    history.add("execution.run_completed", {}, at=10)
    found = path(history)
    assert told(found) == [
        ("run", 0, 1, True),
        ("tool", 1, 8, False),
        ("tool", 8, 9, False),
        ("run", 9, 10, True),
    ]
    assert [step.what for step in found.steps if not step.own] == ["calls slow()", "calls last()"]
    assert [one.what for one in found.spans if not one.on_path] == ["calls quick()"]
    assert (found.busy_ns, found.parallel_ns, found.at_once, found.idle_ns) == (8 * S, 2 * S, 2, 2 * S)
    assert [(gap.from_ns // S, gap.to_ns // S) for gap in found.gaps] == [(0, 1), (9, 10)]


def test_a_recorded_cause_is_followed_before_time(history: Any) -> None:
    history.add("execution.run_started", {}, at=0)
    first = span(history, "first", 1, 3)
    span(history, "beside", 1, 4)
    span(history, "then", 5, 7, cause=first)
    history.add("execution.run_completed", {}, at=7)
    assert [step.what for step in path(history).steps if not step.own] == ["calls first()", "calls then()"]


def test_the_path_goes_down_into_child_runs(history: Any) -> None:
    history.add("execution.run_started", {}, at=0)
    call = history.add("execution.tool_call", {"name": "ask", "call_id": "a"}, at=1)
    history.add("execution.run_started", {"name": "part"}, run="child", cause=call, at=2)
    history.add("execution.model_call", {"model": "m", "duration_ns": 2 * S}, run="child", at=5)
    history.add("execution.run_completed", {}, run="child", at=6)
    history.add("execution.tool_result", {"call_id": "a", "result": 1}, at=7)
    history.add("execution.run_completed", {}, at=8)
    found = path(history)
    assert told(found) == [
        ("run", 0, 1, True),
        ("tool", 1, 2, True),
        ("run", 2, 3, True),
        ("model", 3, 5, False),
        ("run", 5, 6, True),
        ("tool", 6, 7, True),
        ("run", 7, 8, True),
    ]
    assert [one.depth for one in found.spans] == [0, 1, 2, 3]


def test_a_child_run_that_outlives_the_call_that_began_it_is_followed_by_itself(history: Any) -> None:
    history.add("execution.run_started", {}, at=0)
    call = history.add("execution.tool_call", {"name": "begin", "call_id": "a"}, at=1)
    history.add("execution.run_started", {"name": "part"}, run="child", cause=call, at=2)
    history.add("execution.tool_result", {"call_id": "a"}, at=3)
    history.add("execution.run_completed", {}, run="child", at=8)
    history.add("execution.run_completed", {}, at=9)
    found = path(history)
    assert told(found) == [("run", 0, 2, True), ("run", 2, 8, False), ("run", 8, 9, True)]


def test_waiting_for_a_person_is_no_idle_time(history: Any) -> None:
    history.add("execution.run_started", {}, at=0)
    history.add("execution.human_input_requested", {"question_id": "q"}, at=0)
    history.add("execution.human_input_received", {"answers": "q"}, at=60)
    history.add("execution.run_completed", {}, at=60)
    found = path(history)
    assert (found.waiting_ns, found.idle_ns, found.gaps) == (60 * S, 0, ())
    assert told(found) == [("question", 0, 60, False)]


def test_what_has_no_end_goes_on_to_the_last_known_time(history: Any) -> None:
    history.add("execution.run_started", {}, at=0)
    history.add("execution.tool_call", {"name": "f"}, at=1)
    history.add("execution.message", {"content": "x"}, at=4)
    found = path(history)
    assert found.open_spans == 2
    assert told(found)[-1] == ("tool", 1, 4, False)


def test_clocks_that_disagree_and_absurd_durations_are_counted_as_unknown(history: Any) -> None:
    history.add("execution.run_started", {}, at=0)
    history.add("execution.tool_call", {"name": "f", "call_id": "a"}, at=5)
    history.add("execution.tool_result", {"call_id": "a"}, at=2)
    history.add("execution.model_call", {"model": "m", "duration_ns": 10**18}, at=6)
    history.add("execution.model_call", {"model": "m", "duration_ns": -1}, at=6)
    found = path(history)
    assert (found.unknown_spans, found.duration_ns) == (3, 6 * S)


def test_hundreds_of_runs_inside_each_other_are_followed(history: Any) -> None:
    cause = None
    for number in range(400):
        history.add("execution.run_started", {}, run=f"run-{number}", cause=cause, at=number)
        cause = history.add("execution.tool_call", {"name": "ask"}, run=f"run-{number}", at=number)
    found = path(history, "run-0")
    assert max(one.depth for one in found.spans) == 799
    assert sum(step.duration_ns for step in found.steps) == found.duration_ns


SPANS = st.lists(
    st.tuples(
        st.sampled_from(["tool", "task", "question", "model"]),
        st.integers(0, 30),
        st.integers(0, 30),
        st.none() | st.integers(1, 20),
    ),
    max_size=8,
)


@given(SPANS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
def test_the_steps_follow_each_other_without_a_hole(history: Any, spans: Any) -> None:
    history.entries.clear()
    history.sequences.clear()
    history.add("execution.run_started", {}, at=0)
    for number, (kind, start, took, cause) in enumerate(spans):
        led = history.entries[cause - 1] if cause is not None and cause <= len(history.entries) else None
        if kind == "model":
            history.add("execution.model_call", {"duration_ns": took * S}, at=start, cause=led)
            continue
        first, last = {
            "tool": ("execution.tool_call", "execution.tool_result"),
            "task": ("system.task_started", "system.task_completed"),
            "question": ("execution.human_input_requested", "execution.human_input_received"),
        }[kind]
        same = {"call_id": number, "task_id": number, "question_id": number, "answers": number}
        history.add(first, same, at=start, cause=led)
        history.add(last, same, at=start + took)
    found = path(history)
    at = found.steps[0].from_ns if found.steps else 0
    begun = at
    for step in found.steps:
        assert step.from_ns == at
        at = step.to_ns
    assert at - begun == found.duration_ns
    assert found.idle_ns >= 0
    assert found.parallel_ns <= found.busy_ns <= found.duration_ns


def test_a_run_that_was_cut_off_ends_where_it_was_last_heard_of(history: Any) -> None:
    history.add("execution.run_started", {"name": "triage"}, at=0)
    history.add("execution.tool_call", {"name": "f"}, at=2)
    history.add("execution.run_resumed", {}, at=50)
    history.add("execution.run_completed", {}, at=52)
    found = path(history)
    assert [(one.from_ns // S, one.to_ns // S, one.open) for one in found.spans] == [
        (0, 2, True),
        (2, 2, True),
        (50, 52, False),
    ]
    assert told(found)[-2:] == [("outside", 2, 50, True), ("run", 50, 52, False)]


def test_a_task_holds_the_child_run_that_the_same_event_began(history: Any) -> None:
    history.add("execution.run_started", {}, at=0)
    call = history.add("execution.tool_call", {"name": "ask", "call_id": "a"}, at=1)
    history.add("system.task_started", {"task_id": "t"}, cause=call, at=2)
    history.add("execution.run_started", {}, run="child", cause=call, at=3)
    history.add("execution.run_completed", {}, run="child", at=5)
    history.add("system.task_completed", {"task_id": "t"}, at=6)
    history.add("execution.tool_result", {"call_id": "a"}, at=7)
    history.add("execution.run_completed", {}, at=8)
    found = path(history)
    assert [(one.kind, one.depth) for one in found.spans] == [
        ("run", 0),
        ("tool", 1),
        ("task", 2),
        ("run", 3),
    ]
    assert all(one.on_path for one in found.spans)
