"""A run's status follows its events, failures inside show on it, and what is unknown is said to be unknown."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.projections.shapes import Errors, Run
from chatsnapshot.projections.views import list_runs, view
from chatsnapshot.projections.words import status_text

S = "execution.run_started"
ENDS = ["completed", "failed", "cancelled", "paused"]


def only(history: Any) -> Run:
    (run,) = list_runs(history)
    return run


@pytest.mark.parametrize("status", ENDS)
def test_a_run_has_the_status_of_its_last_end(history: Any, status: str) -> None:
    history.add(S, {"name": "triage"}, at=0)
    history.add(f"execution.run_{status}", at=2.5)
    run = only(history)
    assert (run.status, run.name, run.duration_ns, run.partial) == (status, "triage", 2_500_000_000, False)


def test_a_run_without_an_end_is_unfinished_and_its_duration_unknown(history: Any) -> None:
    history.add(S)
    history.add("execution.message", {"role": "user", "content": "x"})
    run = only(history)
    assert (run.status, run.ended_at, run.duration_ns) == ("unfinished", None, None)


def test_events_without_a_run_are_a_run_of_unknown_status(history: Any) -> None:
    history.add("execution.message", {"role": "user", "content": "x"})
    run = only(history)
    assert (run.kind, run.status, run.run_id, run.started_at, run.partial) == (
        "events", "unknown", "run-1", None, True,
    )  # fmt: skip


def test_a_run_whose_start_was_not_seen_has_its_end_and_no_duration(history: Any) -> None:
    history.add("execution.message", {"run_id": "r"})
    history.add("execution.run_completed", {"run_id": "r"})
    run = only(history)
    assert (run.status, run.started_at, run.duration_ns, run.partial) == ("completed", None, None, True)
    assert run.ended_at is not None
    assert status_text(run) == "completed, seen in part"


def test_a_run_seen_only_by_its_steps_is_unknown_not_running(history: Any) -> None:
    history.add("execution.message", {"run_id": "r7", "content": "x"})
    run = only(history)
    assert (run.run_id, run.kind, run.status) == ("r7", "run", "unknown")


def test_what_came_before_the_first_run_of_a_correlation_counts_in_it(history: Any) -> None:
    history.add("ui.input_received", {"text": "hi"}, name="Ann")
    history.add(S, {"run_id": "r1", "name": "n"})
    run = only(history)
    assert (run.run_id, run.kind, run.events, run.first_position) == ("r1", "run", 2, 1)
    assert run.participants == ("Ann",)


def test_pausing_and_resuming_are_executions_of_one_run_and_waiting_is_not_in_its_duration(
    history: Any,
) -> None:
    history.add(S, at=0)
    history.add("execution.run_paused", at=2)
    history.add("execution.run_resumed", at=100)
    assert only(history).status == "unfinished"
    history.add("execution.run_completed", at=103)
    run = only(history)
    assert [(one.status, one.duration_ns, one.resumed) for one in run.executions] == [
        ("paused", 2_000_000_000, False),
        ("completed", 3_000_000_000, True),
    ]
    assert (run.status, run.duration_ns) == ("completed", 5_000_000_000)


def test_a_run_cancelled_while_it_was_paused_is_cancelled(history: Any) -> None:
    history.add(S, at=0)
    history.add("execution.run_paused", at=2)
    history.add("execution.run_cancelled", {"reason": "too late"}, at=50)
    run = only(history)
    assert (run.status, run.reason, run.duration_ns) == ("cancelled", "too late", 2_000_000_000)
    assert run.ended_at == "2026-11-30T02:26:50.000000Z"


def test_a_run_known_only_from_its_resumption_is_seen_in_part(history: Any) -> None:
    history.add("execution.run_resumed")
    run = only(history)
    assert (run.status, run.started_at, run.partial) == ("unfinished", None, True)


def test_turns_of_one_conversation_are_runs_in_their_order(history: Any) -> None:
    for turn in ("t1", "t2"):
        history.add(S, {"run_id": turn, "name": turn})
        history.add("execution.message", {"content": "x"})
        history.add("execution.run_completed", {"run_id": turn})
    runs = view(history, "runs", "run-1").runs
    assert [(run.run_id, run.events, run.status) for run in runs] == [
        ("t1", 3, "completed"),
        ("t2", 3, "completed"),
    ]


def test_an_end_that_names_no_run_ends_the_one_that_is_open(history: Any) -> None:
    history.add(S, {"run_id": "r1"})
    history.add("execution.run_completed")
    run = only(history)
    assert (run.run_id, run.status) == ("r1", "completed")


def test_the_title_comes_from_the_start_event_only(history: Any) -> None:
    history.add(S, {"name": "mine"})
    history.add(S, {"name": "child", "run_id": "c", "parent_run_id": "run-1"})
    history.add("execution.run_completed", {"name": "other"})
    run = only(history)
    assert run.name == "mine"
    assert [child.name for child in run.children] == ["child"]


def test_a_child_run_of_the_same_correlation_hangs_under_the_run_it_names(history: Any) -> None:
    history.add(S, {"run_id": "a"})
    history.add(S, {"run_id": "b", "parent_run_id": "a"})
    history.add("execution.run_failed", {"run_id": "b", "error": "x"})
    history.add("execution.run_completed", {"run_id": "a"})
    run = only(history)
    assert status_text(run) == "completed, 1 failed run below"
    assert (run.children[0].run_id, run.children[0].status, run.children[0].link) == ("b", "failed", "child")


def test_runs_that_name_each_other_as_parent_are_still_shown(history: Any) -> None:
    history.add(S, {"run_id": "a", "parent_run_id": "b"})
    history.add(S, {"run_id": "b", "parent_run_id": "a"})
    history.add(S, {"run_id": "a", "parent_run_id": "b"})
    assert sum(1 + len(run.children) for run in list_runs(history)) == 2


def test_a_failure_inside_shows_on_the_run(history: Any) -> None:
    history.add(S)
    history.add("execution.tool_result", {"name": "f", "is_error": True})
    history.add("execution.tool_result", {"name": "f", "result": 1})
    history.add("execution.tool_result", {"tool": {"name": "f", "error": "x"}})
    history.add("execution.model_call", {"model": "m", "error": {"type": "RateLimit"}})
    history.add("system.task_failed", {"task_id": "t"})
    history.add("integration.response", {"status": 500})
    history.add("system.error", {"error": "x"})
    history.add("execution.run_completed")
    run = only(history)
    assert run.errors == Errors(tool=2, model=1, task=1, integration=1, other=1)
    assert status_text(run) == (
        "completed, 2 tool errors, 1 model error, 1 failed task, 1 integration error, 1 error"
    )


def test_a_workflow_is_a_run_and_the_agent_runs_inside_hang_under_it(history: Any) -> None:
    history.add("system.workflow_started", {"workflow_id": "w", "name": "refunds"})
    history.add(S, {"run_id": "r", "name": "agent"})
    history.add("execution.run_completed", {"run_id": "r"})
    history.add("system.task_started", {"task_id": "t"})
    history.add("system.workflow_completed", {"workflow_id": "w"})
    run = only(history)
    assert (run.kind, run.run_id, run.status, run.events) == ("workflow", "w", "completed", 3)
    assert [(child.kind, child.run_id, child.events) for child in run.children] == [("run", "r", 2)]


def test_a_workflow_and_a_run_of_the_same_id_are_kept_apart(history: Any) -> None:
    history.add("system.workflow_started")
    history.add(S)
    history.add("execution.run_failed")
    history.add("system.workflow_completed")
    run = only(history)
    assert (run.kind, run.status) == ("workflow", "completed")
    assert [child.status for child in run.children] == ["failed"]


def test_counts_agents_participants_runtimes_and_tags_are_gathered_once_each(history: Any) -> None:
    history.add(S, {"tags": ["a", "b", "a"], "user": "Ann"}, name="planner", runtime="ag2")
    history.add("execution.message", {"content": "x"}, name="planner", runtime="ag2")
    history.add("execution.tool_call", {"name": "f", "agent": "coder"}, runtime="langgraph")
    history.add("execution.model_call", {"model": "m"})
    history.add("execution.handoff", {"from": "planner", "to": "critic"})
    run = only(history)
    assert (run.messages, run.tool_calls, run.model_calls, run.events) == (1, 1, 1, 5)
    assert run.agents == ("planner", "coder", "critic")
    assert run.participants == ("planner", "Ann", "coder", "critic")
    assert (run.runtimes, run.tags) == (("ag2", "langgraph"), ("a", "b"))


def test_open_questions_are_counted_until_they_are_answered(history: Any) -> None:
    history.add(S)
    first = history.add("execution.human_input_requested", {"id": "q1", "question": "a"})
    history.add("execution.human_input_requested", {"id": "q2", "question": "b"})
    assert status_text(only(history)) == "unfinished, 2 open questions"
    history.add("execution.human_input_received", {"answers": first.event_id, "value": "x"})
    history.add("execution.human_input_received", {"answers": "q9", "value": "x"})
    assert only(history).questions_open == 1
    history.add("execution.human_input_received", {"value": "y"})
    assert only(history).questions_open == 0


def test_clocks_that_disagree_make_a_duration_unknown_not_negative(history: Any) -> None:
    history.add(S, at=10)
    history.add("execution.run_completed", at=3)
    assert only(history).duration_ns is None


def test_an_evaluation_names_a_run_and_does_not_make_one(history: Any) -> None:
    history.add(S, {"run_id": "r"})
    history.add("execution.run_completed", {"run_id": "r"})
    history.add("execution.evaluation", {"run_id": "elsewhere", "name": "quality", "score": 1})
    run = only(history)
    assert (run.run_id, run.status, run.events) == ("r", "completed", 3)
    assert run.ended_at == "2026-11-30T02:26:02.000000Z"


def test_a_second_end_corrects_the_first(history: Any) -> None:
    history.add(S, at=0)
    history.add("execution.run_cancelled", {"reason": "gave up"}, at=1)
    history.add("execution.run_completed", at=2)
    run = only(history)
    assert (run.status, run.reason, run.duration_ns) == ("completed", None, 2_000_000_000)


def test_an_erased_start_keeps_the_run_and_loses_its_name(history: Any) -> None:
    history.add(S, {"name": "secret"}, erased=True)
    history.add("execution.run_completed")
    run = only(history)
    assert (run.status, run.name) == ("completed", None)


def test_the_ledgers_own_facts_are_no_run(history: Any) -> None:
    history.add("ledger.gap", {"count": 3}, run="ledger")
    assert list_runs(history) == []
