"""The last state of everything, at any position."""

from __future__ import annotations

from typing import Any

from chatsnapshot.projections.stateshapes import Subject
from chatsnapshot.projections.views import view


def subjects(history: Any, kind: str, **options: Any) -> dict[str, Subject]:
    found = view(history, "state", "run-1", **options).subjects
    return {subject.id: subject for subject in found if subject.kind == kind}


def test_every_kind_of_subject_has_its_last_state(history: Any) -> None:
    history.add("execution.run_started", {"name": "triage"})
    history.add("system.workflow_started", {"workflow_id": "w"})
    history.add("system.task_scheduled", {"task_id": "book", "name": "book the courier"})
    history.add("system.task_started", {"task_id": "book", "attempt": 1})
    history.add("system.state_transition", {"entity": "order 7", "from": "open", "to": "settled"})
    history.add("execution.state_change", {"node": "plan", "to": {"step": 2}}, name="desk")
    history.add("execution.human_input_requested", {"question_id": "q", "question": "Pay?"})
    history.add("execution.handoff", {"from": "desk", "to": "scribe"})
    assert {subject.kind for subject in view(history, "state", "run-1").subjects} == {
        *("run", "workflow", "task", "process", "step", "question", "agent"),
    }
    assert subjects(history, "run")["run-1"].state == "unfinished"
    task = subjects(history, "task")["book"]
    assert (task.state, task.before, task.name, task.changes) == (
        "started",
        "scheduled",
        "book the courier",
        2,
    )
    process = subjects(history, "process")["order 7"]
    assert (process.state, process.before, process.position) == ("settled", "open", 5)
    assert subjects(history, "step")["plan"].value == {"step": 2}
    assert subjects(history, "question")["q"].state == "open"
    assert subjects(history, "agent")["scribe"].state == "desk hands over to scribe"


def test_a_position_knows_nothing_of_what_follows(history: Any) -> None:
    history.add("system.state_transition", {"entity": "order", "to": "open"})
    history.add("system.state_transition", {"entity": "order", "to": "settled"})
    assert subjects(history, "process", until=1)["order"].state == "open"
    assert subjects(history, "process")["order"].state == "settled"


def test_an_end_that_was_recorded_before_its_start_holds(history: Any) -> None:
    history.add("system.task_completed", {"task_id": "a", "attempt": 1})
    history.add("system.task_started", {"task_id": "a", "attempt": 1, "name": "look"})
    history.add("system.task_scheduled", {"task_id": "a"})
    task = subjects(history, "task")["a"]
    assert (task.state, task.name, task.changes) == ("completed", "look", 3)
    history.add("system.task_started", {"task_id": "a", "attempt": 2})
    assert subjects(history, "task")["a"].state == "started"


def test_a_task_that_starts_again_without_a_number_is_started(history: Any) -> None:
    for status in ("started", "failed", "started"):
        history.add(f"system.task_{status}", {"task_id": "a"})
    assert subjects(history, "task")["a"].state == "started"


def test_runs_have_the_status_that_the_runs_view_gives(history: Any) -> None:
    history.add("execution.run_started", {"run_id": "r1", "name": "triage"})
    history.add("execution.run_failed", {"error": "no answer"})
    assert [run.run_id for run in view(history, "runs", "run-1").runs] == ["r1"]
    run = subjects(history, "run")["r1"]
    assert (run.state, run.name, run.reason) == ("failed", "triage", "no answer")


def test_an_answer_settles_its_question_whichever_came_first(history: Any) -> None:
    history.add("execution.human_input_requested", {"question_id": "q", "question": "Pay?"})
    history.add("execution.human_input_received", {"answers": "q", "decision": "approved"})
    history.add("execution.human_input_received", {"answers": "r"})
    history.add("execution.human_input_requested", {"question_id": "r"})
    found = subjects(history, "question")
    assert (found["q"].state, found["q"].reason, found["q"].name) == ("answered", "approved", "Pay?")
    assert found["r"].state == "answered"


def test_an_erased_change_says_so(history: Any) -> None:
    history.add("execution.state_change", {"node": "plan", "to": "x"}, erased=True, name="desk")
    assert subjects(history, "step")["desk"].state == "[erased]"


def test_an_agent_at_work_in_several_correlations_is_one(history: Any) -> None:
    call = history.add("execution.tool_call", {"name": "ask"}, name="desk")
    history.add(
        "execution.message", {"role": "assistant", "content": "Hi"}, run="child", cause=call, name="desk"
    )
    agent = subjects(history, "agent")["desk"]
    assert (agent.state, agent.position, agent.first_position, agent.changes) == ("assistant: Hi", 2, 1, 2)
    assert len(view(history, "state", "run-1").subjects) == 1
