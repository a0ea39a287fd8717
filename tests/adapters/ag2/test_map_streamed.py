"""AG2 1.x: every kind of stream event has its place, and its payload holds what happened."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import ag2.events as events
import msgspec
import pytest
from ag2.compact import CompactionSummary
from ag2.events import (
    BinaryInput,
    DataInput,
    HumanInputRequest,
    HumanMessage,
    ModelMessage,
    ModelMessageChunk,
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolApprovalRequest,
    ToolCallEvent,
    ToolCallsEvent,
    ToolErrorEvent,
    ToolResult,
    ToolResultEvent,
    ToolResultsEvent,
    Usage,
    UsageEvent,
)
from ag2.events.alert import HaltEvent, ObserverAlert, Severity
from ag2.events.base import BaseEvent
from ag2.events.lifecycle import CompactionCompleted, UnknownEvent
from ag2.events.task_events import TaskCancelled, TaskCompleted, TaskExpired, TaskFailed, TaskStarted
from ag2.events.tool_events import BuiltinToolCallEvent, ClientToolCallEvent, ToolNotFoundEvent

from chatsnapshot.adapters.ag2 import map_event, normalize

CALL = ToolCallEvent("add", id="c1", arguments='{"a": 1}')
STREAM = UUID("00000000-0000-0000-0000-00000000abcd")
TASK = {"task_id": "t1", "agent_name": "researcher", "objective": "find it"}


class Refund(BaseEvent):
    """An event of an application's own."""

    amount: int


class Opaque:
    pass


def failing(kind: type[ToolErrorEvent] = ToolErrorEvent) -> ToolErrorEvent:
    return kind.from_call(CALL, ValueError("exploded"))


PLACES = [
    (ModelRequest([TextInput("hi")]), "execution.message"),
    (ModelResponse(ModelMessage("hello")), "execution.message"),
    (ModelResponse(tool_calls=ToolCallsEvent([CALL])), "execution.message"),
    (ToolCallEvent("add"), "execution.tool_call"),
    (BuiltinToolCallEvent("web_search"), "execution.tool_call"),
    (ToolResultEvent.from_call(CALL, 3), "execution.tool_result"),
    (failing(), "execution.tool_result"),
    (failing(ToolNotFoundEvent), "execution.tool_result"),
    (ToolResultsEvent([ToolResultEvent.from_call(CALL, 3)]), "execution.message"),
    (HumanInputRequest("colour?"), "execution.human_input_requested"),
    (ToolApprovalRequest("may I?", tool_call_id="c1"), "execution.human_input_requested"),
    (HumanMessage("blue", parent_id="q1"), "execution.human_input_received"),
    (TaskStarted(**TASK), "system.task_started"),
    (TaskCompleted(**TASK, result="found", task_stream=STREAM), "system.task_completed"),
    (TaskFailed(**TASK, error=ValueError("lost")), "system.task_failed"),
    (TaskExpired(**TASK), "system.task_failed"),
    (TaskCancelled(**TASK, reason="too slow"), "system.task_cancelled"),
    (UsageEvent(Usage(prompt_tokens=1.0)), "execution.model_call"),
    (UsageEvent(Usage(prompt_tokens=1.0), kind="compaction"), "execution.model_call"),
    (UsageEvent(Usage(prompt_tokens=1.0), kind="subtask", label="researcher"), "execution.state_change"),
    (ClientToolCallEvent("add", id="c1"), "execution.state_change"),
    (CompactionSummary(summary="so far", event_count=9), "execution.state_change"),
    (CompactionCompleted(agent="a", strategy="s", events_before=9, events_after=2), "execution.state_change"),
    (ObserverAlert(source="o", severity=Severity.WARNING, message="m"), "execution.state_change"),
    (HaltEvent(reason="r", source="o"), "execution.state_change"),
    (ToolCallsEvent([CALL]), "ag2.tool_calls"),
    (ModelMessage("x"), "ag2.model_message"),
    (ModelMessageChunk("x"), "ag2.model_message_chunk"),
    (UnknownEvent(type_name="shop.events.RefundEvent", data={"amount": 5}), "ag2.refund"),
    (Refund(amount=5), "ag2.refund"),
]


@pytest.mark.parametrize(("event", "expected"), PLACES, ids=[type(event).__name__ for event, _ in PLACES])
def test_an_event_has_its_place_and_a_payload_of_plain_data(event: BaseEvent, expected: str) -> None:
    assert map_event(event) == expected
    payload = normalize(event)
    assert payload["native"]["type"].endswith("." + type(event).__name__)
    msgspec.json.encode(payload)


def test_every_event_class_of_ag2_gets_a_type() -> None:
    kinds = [getattr(events, name) for name in events.__all__ if isinstance(getattr(events, name), type)]
    kinds = [kind for kind in kinds if issubclass(kind, BaseEvent)]
    assert len(kinds) > 30
    for kind in kinds:
        blank = kind.__new__(kind)  # not even filled in: a broken event has a type and a payload as well
        domain = map_event(blank).partition(".")[0]
        assert domain in {"execution", "system", "ag2"}, kind
        assert isinstance(normalize(blank), dict)


def test_a_request_is_a_user_message_with_its_parts() -> None:
    request = ModelRequest(
        [
            TextInput("look"),
            DataInput({"n": 1}),
            BinaryInput(b"\x89PNG", media_type="image/png", kind="image"),
        ]
    )
    payload = normalize(request)
    assert (payload["role"], payload["parts"]) == (
        "user",
        [
            {"type": "text", "content": "look"},
            {"type": "data", "content": {"n": 1}},
            {"type": "blob", "mime_type": "image/png", "modality": "image", "content": b"\x89PNG"},
        ],
    )


def test_a_response_is_an_assistant_message_with_text_and_tool_calls() -> None:
    calls = ToolCallsEvent([CALL, ToolCallEvent("add", id="c2", arguments="not json")])
    response = ModelResponse(
        ModelMessage("let me add"), tool_calls=calls, model="m", provider="openai", finish_reason="tool_calls"
    )
    payload = normalize(response)
    assert payload["role"] == "assistant"
    assert payload["parts"] == [
        {"type": "text", "content": "let me add"},
        {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}},
        {"type": "tool_call", "id": "c2", "name": "add", "arguments": "not json"},
    ]
    assert (payload["model"], payload["provider"], payload["finish_reason"]) == ("m", "openai", "tool_calls")


def test_a_tool_result_tells_the_value_and_whether_it_failed() -> None:
    good = normalize(ToolResultEvent.from_call(CALL, {"sum": 3}))
    assert (good["call_id"], good["name"], good["result"], good["is_error"]) == (
        "c1",
        "add",
        {"sum": 3},
        False,
    )
    assert "error" not in good
    bad = normalize(failing())
    assert (bad["call_id"], bad["is_error"]) == ("c1", True)
    assert bad["error"] == {"type": "ValueError", "module": "builtins", "message": "exploded"}
    assert "exploded" in bad["result"]


def test_a_result_that_is_no_json_holds_no_live_object() -> None:
    payload = normalize(ToolResultEvent(parent_id="c1", name="obj", result=ToolResult(DataInput(Opaque()))))
    assert payload["result"] == {"object": f"{__name__}.Opaque", "text": f"<{__name__}.Opaque object>"}
    json.dumps(payload)


def test_a_question_and_its_answer_share_an_id() -> None:
    question = ToolApprovalRequest("may I?", tool_call_id="c1", timeout=5.0)
    asked = normalize(question)
    assert (asked["kind"], asked["question"], asked["call_id"]) == ("approval", "may I?", "c1")
    assert asked["timeout_seconds"] == 5.0
    assert normalize(HumanInputRequest("colour?"))["kind"] == "question"
    answered = normalize(HumanMessage("yes", parent_id=question.id))
    assert answered["answers"] == asked["question_id"]
    assert answered["answer"] == "yes"


def test_token_counts_have_the_keys_of_all_adapters() -> None:
    usage = Usage(prompt_tokens=7.0, completion_tokens=2.0, cache_read_input_tokens=3.0, thinking_tokens=1.0)
    assert normalize(UsageEvent(usage, model="m"))["usage"] == {
        "input_tokens": 7,
        "output_tokens": 2,
        "cache_read": 3,
        "reasoning": 1,
    }


def test_the_native_form_builds_the_event_again() -> None:
    response = ModelResponse(
        ModelMessage("hi"), tool_calls=ToolCallsEvent([CALL]), usage=Usage(prompt_tokens=1.0)
    )
    native = json.loads(json.dumps(normalize(response)["native"]))
    assert native["type"] == "ag2.events.types.ModelResponse"
    assert ModelResponse.from_dict(native["data"]) == response


@pytest.mark.parametrize("thing", [None, 3, "text", object(), {"type": "text"}, [], type])
def test_anything_else_gets_a_type_and_a_payload(thing: Any) -> None:
    assert map_event(thing).startswith("ag2.")
    assert set(normalize(thing)) == {"native"}
