"""What was said, with each tool call folded with its result, whichever events told of it and in whatever order."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from chatsnapshot.projections.shapes import (
    Boundary,
    Child,
    Handoff,
    Message,
    Note,
    Problem,
    Question,
    ToolUse,
)
from chatsnapshot.projections.views import view


def items(history: Any, run: str = "run-1", **options: Any) -> list[Any]:
    return list(view(history, "transcript", run, **options).items)


def tools(history: Any) -> list[ToolUse]:
    return [item for item in items(history) if isinstance(item, ToolUse)]


def kinds(history: Any) -> list[str]:
    return [type(item).__name__ for item in items(history)]


def test_messages_have_speakers_roles_and_text(history: Any) -> None:
    history.add("execution.message", {"role": "system", "content": "Be kind."})
    history.add("execution.message", {"role": "user", "content": "Hi", "name": "Ann"})
    history.add("execution.message", {"parts": [{"type": "text", "content": "Hello"}]}, name="planner")
    said = [(item.role, item.speaker, item.text) for item in items(history)]
    assert said == [("system", None, "Be kind."), ("user", "Ann", "Hi"), ("assistant", "planner", "Hello")]


ASK = {"parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"x": 1}}], "role": "assistant"}
CALL = {"name": "f", "call_id": "c", "arguments": {"x": 1}}
RESULT = {"name": "f", "call_id": "c", "result": {"y": 2}}
TELL = {"role": "tool", "tool_call_id": "c", "content": '{"y": 2}'}
FACTS = {
    "ask": ("execution.message", ASK),
    "call": ("execution.tool_call", CALL),
    "result": ("execution.tool_result", RESULT),
    "tell": ("execution.message", TELL),
}


@pytest.mark.parametrize("order", list(permutations(FACTS)))
def test_the_four_facts_of_one_tool_are_one_item_in_any_order(history: Any, order: tuple[str, ...]) -> None:
    for fact in order:
        history.add(*FACTS[fact])
    (tool,) = items(history)
    assert (tool.name, tool.call_id, tool.arguments, tool.status, tool.result) == (
        "f", "c", {"x": 1}, "ok", {"y": 2},
    )  # fmt: skip
    assert tool.position == 1
    places = (tool.asked_position, tool.call_position, tool.result_position, tool.told_position)
    assert [dict(zip(FACTS, places, strict=True))[fact] for fact in order] == [1, 2, 3, 4]


@pytest.mark.parametrize("missing", list(FACTS))
def test_a_missing_fact_is_seen_and_the_rest_is_one_item(history: Any, missing: str) -> None:
    for fact, (event_type, payload) in FACTS.items():
        if fact != missing:
            history.add(event_type, payload)
    (tool,) = items(history)
    assert tool.status == "ok"
    assert (tool.result == {"y": 2}) == (missing != "result")


def test_a_conversation_in_openai_form_alone_is_folded(history: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    history.add("execution.message", {"role": "assistant", "content": None, "tool_calls": [call]})
    history.add("execution.message", TELL)
    (tool,) = items(history)
    assert (tool.name, tool.arguments, tool.status, tool.result) == ("f", {"x": 1}, "ok", '{"y": 2}')
    assert (tool.call_position, tool.result_position, tool.told_position) == (None, None, 2)


def test_plain_calls_and_results_without_ids_are_folded_by_name_in_order(history: Any) -> None:
    history.add("execution.tool_call", {"tool_name": "f", "arguments": 1})
    history.add("execution.tool_call", {"tool_name": "f", "arguments": 2})
    history.add("execution.tool_call", {"tool_name": "g", "arguments": 3})
    history.add("execution.tool_result", {"tool_name": "f", "result": "one"})
    history.add("execution.tool_result", {"tool_name": "f", "result": "two"})
    assert [(t.arguments, t.result, t.status, t.matched_by) for t in tools(history)] == [
        (1, "one", "ok", "name"),
        (2, "two", "ok", "name"),
        (3, None, "open", None),
    ]


def test_without_ids_causes_fold_an_asked_called_answered_and_told_tool(history: Any) -> None:
    ask = {"role": "assistant", "parts": [{"type": "tool_call", "name": "f", "arguments": {}}]}
    asked = history.add("execution.message", ask)
    call = history.add("execution.tool_call", {"name": "f", "arguments": {}}, cause=asked)
    result = history.add("execution.tool_result", {"name": "f", "result": 4}, cause=call)
    tell = {"role": "tool", "name": "f", "parts": [{"type": "tool_call_response", "result": "4"}]}
    history.add("execution.message", tell, cause=result)
    (tool,) = items(history)
    assert (tool.status, tool.result, tool.told_position, tool.matched_by) == ("ok", 4, 4, "cause")


def test_parallel_calls_keep_their_results_apart(history: Any) -> None:
    parts = [{"type": "tool_call", "id": c, "name": "f", "arguments": c} for c in "abc"]
    history.add("execution.message", {"role": "assistant", "content": "Look", "parts": parts})
    for c in "abc":
        history.add("execution.tool_call", {"name": "f", "call_id": c})
    for c in "ca":
        history.add("execution.tool_result", {"name": "f", "call_id": c, "result": c * 2})
    assert [(t.call_id, t.arguments, t.result, t.status) for t in tools(history)] == [
        ("a", "a", "aa", "ok"),
        ("b", "b", None, "open"),
        ("c", "c", "cc", "ok"),
    ]


def test_a_result_without_a_call_is_unmatched(history: Any) -> None:
    history.add("execution.tool_result", {"name": "f", "call_id": "zz", "result": 1})
    (tool,) = items(history)
    assert (tool.status, tool.result, tool.matched_by) == ("unmatched", 1, None)


def test_a_failed_tool_has_its_error_and_duration(history: Any) -> None:
    history.add("execution.tool_call", CALL, at=0)
    history.add("execution.tool_result", {"call_id": "c", "error": ValueError("no such city")}, at=1.5)
    (tool,) = items(history)
    assert (tool.status, tool.error, tool.duration_ns) == (
        "failed",
        "ValueError: no such city",
        1_500_000_000,
    )


def test_an_id_used_again_in_the_next_run_is_another_call(history: Any) -> None:
    for turn in ("1", "2"):
        history.add("execution.run_started", {"run_id": turn})
        history.add("execution.message", ASK)
        history.add("execution.tool_call", CALL)
        history.add("execution.tool_result", {**RESULT, "result": turn})
        history.add("execution.message", {**TELL, "content": turn})
        history.add("execution.run_completed", {"run_id": turn})
    assert [tool.result for tool in tools(history)] == ["1", "2"]
    assert len(items(history)) == 6


def test_an_id_used_again_before_an_answer_goes_with_the_last_call_unless_the_cause_says_otherwise(
    history: Any,
) -> None:
    first = history.add("execution.tool_call", {**CALL, "arguments": 1})
    history.add("execution.tool_call", {**CALL, "arguments": 2})
    history.add("execution.tool_call", {**CALL, "arguments": 3})
    history.add("execution.tool_result", {**RESULT, "result": "last"})
    history.add("execution.tool_result", {**RESULT, "result": "first"}, cause=first)
    assert [tool.result for tool in tools(history)] == ["first", None, "last"]


def test_a_leftover_of_one_run_is_not_taken_by_the_next(history: Any) -> None:
    history.add("execution.run_started", {"run_id": "1"})
    history.add("execution.tool_call", CALL)
    history.add("execution.run_failed", {"run_id": "1"})
    history.add("execution.run_started", {"run_id": "2"})
    history.add("execution.tool_result", RESULT)
    assert [tool.status for tool in tools(history)] == ["open", "unmatched"]


def test_a_run_inside_a_run_does_not_part_a_call_from_its_result(history: Any) -> None:
    history.add("execution.run_started", {"run_id": "1"})
    history.add("execution.tool_call", CALL)
    history.add("execution.run_started", {"run_id": "2", "parent_run_id": "1"})
    history.add("execution.run_completed", {"run_id": "2"})
    history.add("execution.tool_result", RESULT)
    assert [tool.status for tool in tools(history)] == ["ok"]


def test_an_erased_message_and_an_erased_result_are_shown_as_erased(history: Any) -> None:
    history.add("execution.message", {"content": "secret"}, erased=True, name="planner")
    call = history.add("execution.tool_call", CALL)
    history.add("execution.tool_result", RESULT, erased=True, cause=call)
    message, tool = items(history)
    assert (message.erased, message.text, message.speaker) == (True, "[erased]", "planner")
    assert (tool.erased, tool.status, tool.result) == (True, "ok", None)


def test_withheld_payloads_and_blobs_are_named(history: Any) -> None:
    history.add("execution.message", raw=b'{"$withheld":"redaction failed"}')
    history.add("execution.message", {"role": "user", "content": ["see", b"x" * 50_000]})
    blob = b'{"$blob":"sha256:%s","bytes":9000000,"media_type":"application/json"}' % (b"a" * 64)
    history.add("execution.message", raw=blob)
    withheld, said, whole = items(history)
    assert withheld.text == "[withheld: redaction failed]"
    assert (said.text, said.parts[0].type) == ("see", "blob")
    assert said.parts[0].text.startswith("<application/octet-stream, 50,000 bytes, sha256:")
    assert whole.text.startswith("<application/json, 9,000,000 bytes, sha256:aaa")


def test_questions_are_folded_with_their_answers(history: Any) -> None:
    asked = history.add(
        "execution.human_input_requested", {"question": "Go?", "kind": "approval"}, at=0, name="planner"
    )
    payload = {"answers": asked.event_id, "decision": "approved", "value": "yes"}
    history.add("execution.human_input_received", payload, at=4, name="Bob", origin="ui")
    (question,) = items(history)
    assert isinstance(question, Question)
    assert (question.ask, question.text, question.speaker, question.status) == (
        "approval", "Go?", "planner", "answered",
    )  # fmt: skip
    assert (question.decision, question.answer, question.answered_by, question.answer_position) == (
        "approved", "yes", "Bob", 2,
    )  # fmt: skip
    assert question.duration_ns == 4_000_000_000


def test_open_questions_and_answers_without_a_question_stay_visible(history: Any) -> None:
    history.add("execution.human_input_requested", {"id": "1", "question": "Go?"})
    history.add("execution.human_input_received", {"answers": "2", "value": "yes"})
    assert [(q.status, q.text, q.answer) for q in items(history)] == [
        ("open", "Go?", None),
        ("unmatched", "", "yes"),
    ]


def test_an_answer_recorded_before_its_question_is_folded(history: Any) -> None:
    history.add("execution.human_input_received", {"answers": "q", "value": "yes"}, name="Bob")
    history.add("execution.human_input_requested", {"id": "q", "question": "Go?"})
    (question,) = items(history)
    assert (question.status, question.text, question.answer) == ("answered", "Go?", "yes")


def test_boundaries_handoffs_problems_and_notes_have_their_place(history: Any) -> None:
    history.add("execution.run_started", {"name": "triage"})
    history.add("execution.handoff", {"from": "a", "to": "b", "reason": "knows more"})
    history.add("execution.model_call", {"model": "m", "error": "rate limit"})
    history.add("execution.model_call", {"model": "m"})
    history.add("system.task_failed", {"name": "load", "error": "timeout"})
    history.add("system.error", {"message": "disk"})
    history.add("integration.response", {"service": "crm", "status": 500})
    history.add("integration.response", {"service": "crm", "status": 200})
    history.add("execution.output", {"output": {"answer": 42}})
    history.add("execution.state_change", {"to": "x"})
    history.add("execution.run_failed", {"error": {"type": "E", "message": "m"}})
    found = items(history)
    assert isinstance(found[0], Boundary)
    assert (found[0].what, found[0].event, found[0].name) == ("run", "started", "triage")
    assert isinstance(found[1], Handoff)
    assert (found[1].source, found[1].target, found[1].text) == ("a", "b", "knows more")
    assert [(p.what, p.text) for p in found if isinstance(p, Problem)] == [
        ("model call", "m: rate limit"),
        ("task", "load: timeout"),
        ("error", "disk"),
        ("integration", "crm: status 500"),
    ]
    assert [(n.what, n.text) for n in found if isinstance(n, Note)] == [("output", '{"answer": 42}')]
    assert isinstance(found[-1], Boundary)
    assert (found[-1].event, found[-1].name, found[-1].error) == ("failed", "triage", "E: m")


def test_what_a_user_gave_and_saw_is_not_said_twice(history: Any) -> None:
    history.add("ui.input_received", {"text": "Hi"}, name="Ann")
    history.add("execution.message", {"role": "user", "content": "Hi"}, name="Ann")
    history.add("execution.message", {"role": "assistant", "content": "Hello"})
    history.add("ui.output_displayed", {"text": "Hello"})
    history.add("ui.output_displayed", {"text": "an advert"})
    assert kinds(history) == ["Message", "Message", "Note"]


def test_a_type_of_another_domain_that_reads_as_a_message_is_one(history: Any) -> None:
    history.add("acme.chat", {"role": "user", "content": "hi"})
    history.add("acme.metric", {"value": 3})
    assert kinds(history) == ["Message"]


def test_a_child_run_stands_at_its_cause_with_its_own_transcript(history: Any) -> None:
    history.add("execution.message", {"role": "user", "content": "Hi"}, run="a")
    call = history.add("execution.tool_call", {"name": "ask", "call_id": "1"}, run="a")
    history.add("execution.tool_call", {"name": "other", "call_id": "2"}, run="a")
    history.add("execution.run_started", {"name": "sub"}, run="b", cause=call)
    history.add("execution.message", {"role": "assistant", "content": "inner"}, run="b")
    history.add("execution.tool_result", {"call_id": "1", "result": "done"}, run="a")
    found = items(history, "a")
    assert [type(item).__name__ for item in found] == ["Message", "ToolUse", "Child", "ToolUse"]
    child = found[2]
    assert isinstance(child, Child)
    assert (child.correlation_id, child.cause_position, child.transcript.name) == ("b", 2, "sub")
    assert [type(item).__name__ for item in child.transcript.items] == ["Boundary", "Message"]
    assert "Child" not in [type(item).__name__ for item in items(history, "a", children=False)]


def test_a_child_of_a_folded_result_stands_after_its_tool(history: Any) -> None:
    history.add("execution.tool_call", {"name": "f", "call_id": "1"}, run="a")
    history.add("execution.message", {"content": "x"}, run="a")
    result = history.add("execution.tool_result", {"call_id": "1"}, run="a")
    history.add("execution.run_started", run="b", cause=result)
    found = items(history, "a")
    assert [type(item).__name__ for item in found] == ["ToolUse", "Child", "Message"]


def test_a_child_of_a_step_that_is_not_shown_stands_where_the_step_was(history: Any) -> None:
    history.add("system.workflow_started", {"name": "w"}, run="a")
    task = history.add("system.task_started", {"task_id": "t"}, run="a")
    history.add("execution.run_started", run="b", cause=task)
    history.add("system.workflow_completed", run="a")
    assert [type(item).__name__ for item in items(history, "a")] == ["Boundary", "Child", "Boundary"]


def test_a_transcript_up_to_a_position_shows_the_call_as_open(history: Any) -> None:
    history.add("execution.tool_call", CALL)
    history.add("execution.tool_result", RESULT)
    assert [item.status for item in items(history, until=1)] == ["open"]


def test_a_message_with_text_and_calls_is_a_message_and_its_tools(history: Any) -> None:
    history.add("execution.message", {"content": "Let me look", **ASK, "parts": None, "tool_calls": [
        {"id": "c", "name": "f", "arguments": {}}]})  # fmt: skip
    message, tool = items(history)
    assert isinstance(message, Message)
    assert (message.text, tool.asked_position, tool.status) == ("Let me look", 1, "open")
