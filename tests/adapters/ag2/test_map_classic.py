"""The classic line: every kind of event has its place, and its payload holds what happened and no live object."""

from __future__ import annotations

import json
from typing import Any

import autogen.agentchat.group.events.transition_events as transitions
import autogen.events.agent_events as agent_events
import pytest
from autogen import ConversableAgent
from autogen.agentchat.group import (
    AgentNameTarget,
    AgentTarget,
    ContextVariables,
    ReplyResult,
    RevertToUserTarget,
    TerminateTarget,
)
from autogen.agentchat.group.safeguards.events import SafeguardEvent
from autogen.events.base_event import get_event_classes
from autogen.events.client_events import StreamEvent
from autogen.events.print_event import PrintEvent

from chatsnapshot.adapters.ag2 import map_event, normalize

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
ADDED = {"func_name": "add", "call_id": "call_1", "arguments": {"a": 1}, "recipient": "user"}


def made(kind: str, **fields: Any) -> Any:
    return getattr(agent_events, kind)(**fields)


def handoff(kind: str, target: Any) -> Any:
    return getattr(transitions, kind)(source_agent=ConversableAgent("triage"), transition_target=target)


def text(content: Any, sender: str = "assistant") -> Any:
    # As the runtime wraps them: the wrapper's own constructor keeps the inner event's fields apart.
    inner = agent_events.TextEvent.model_fields["content"].annotation
    return agent_events.TextEvent(
        type="text", content=inner(content=content, sender=sender, recipient="user")
    )


def tool_call(content: str | None = None) -> Any:
    inner = agent_events.ToolCallEvent.model_fields["content"].annotation
    return agent_events.ToolCallEvent(
        type="tool_call",
        content=inner(
            content=content, sender="assistant", recipient="user", role="assistant", tool_calls=[CALL]
        ),
    )


def inner_of(kind: str, type_name: str, **fields: Any) -> Any:
    wrapper = getattr(agent_events, kind)
    return wrapper(type=type_name, content=wrapper.model_fields["content"].annotation(**fields))


PLACES = {
    "text": "execution.message",
    "tool_call": "execution.message",
    "function_call": "execution.message",
    "tool_response": "execution.message",
    "function_response": "execution.message",
    "execute_function": "execution.tool_call",
    "executed_function": "execution.tool_result",
    "execute_code_block": "execution.tool_call",
    "after_works_transition": "execution.handoff",
    "on_condition_l_l_m_transition": "execution.handoff",
    "on_context_condition_transition": "execution.handoff",
    "reply_result_transition": "execution.handoff",
    "input_request": "execution.human_input_requested",
    "async_input_request": "execution.human_input_requested",
    "input_response": "execution.human_input_received",
    "run_completion": "execution.run_completed",
    "error": "execution.run_failed",
    "group_chat_resume": "execution.run_resumed",
    "safeguard": "execution.guardrail",
    "group_chat_run_chat": "execution.state_change",
    "using_auto_reply": "execution.state_change",
    "termination_and_human_reply_no_input": "execution.state_change",
    "termination": "execution.state_change",
    "select_speaker": "execution.state_change",
    "select_speaker_try_count_exceeded": "execution.state_change",
    "select_speaker_invalid_input": "execution.state_change",
    "speaker_attempt_successful": "execution.state_change",
    "speaker_attempt_failed_multiple_agents": "execution.state_change",
    "speaker_attempt_failed_no_agents": "execution.state_change",
    "clear_agents_history": "execution.state_change",
    "clear_conversable_agent_history": "execution.state_change",
    "clear_conversable_agent_history_warning": "execution.state_change",
    "post_carryover_processing": "execution.state_change",
    "generate_code_execution_reply": "execution.state_change",
    "usage_summary": "execution.state_change",
    "conversable_agent_usage_summary": "execution.state_change",
    "conversable_agent_usage_summary_no_cost_incurred": "execution.state_change",
    "stream": "ag2.stream",
    "print": "ag2.print",
}


def test_every_event_class_of_the_line_is_in_the_table_or_has_a_type_of_its_own() -> None:
    known = set(get_event_classes())
    assert len(known) > 30
    for name, wrapper in get_event_classes().items():
        blank = wrapper.model_construct(type=name, content=None)  # broken on purpose: no content at all
        assert map_event(blank) == PLACES.get(name, f"ag2.{name}"), name
        payload = normalize(blank)
        assert payload["native"]["data"] is None
    assert {"text", "tool_call", "run_completion", "input_request", "error"} <= known


def test_a_text_is_a_message_of_its_sender() -> None:
    payload = normalize(text("1+2?", sender="user"))
    assert (payload["role"], payload["name"], payload["recipient"]) == ("user", "user", "user")
    assert payload["parts"] == [{"type": "text", "content": "1+2?"}]
    assert normalize(text("3"))["role"] == "assistant"


def test_a_text_of_several_parts_keeps_them() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    payload = normalize(text([{"type": "text", "text": "look"}, image]))
    assert payload["parts"] == [
        {"type": "text", "content": "look"},
        {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
    ]


def test_a_tool_call_is_a_message_with_tool_call_parts() -> None:
    assert map_event(tool_call()) == "execution.message"
    payload = normalize(tool_call("let me add"))
    assert payload["role"] == "assistant"
    assert payload["parts"] == [
        {"type": "text", "content": "let me add"},
        {"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": 1}},
    ]


def test_an_executed_function_tells_the_value_and_whether_it_failed() -> None:
    asked = inner_of("ExecuteFunctionEvent", "execute_function", **ADDED)
    payload = normalize(asked)
    assert (payload["name"], payload["call_id"], payload["arguments"]) == ("add", "call_1", {"a": 1})
    good = normalize(inner_of("ExecutedFunctionEvent", "executed_function", **ADDED, content="3"))
    assert (good["call_id"], good["result"], good["is_error"]) == ("call_1", "3", False)
    bad = normalize(
        inner_of(
            "ExecutedFunctionEvent",
            "executed_function",
            **ADDED,
            content="Error: exploded",
            is_exec_success=False,
        )
    )
    assert (bad["is_error"], bad["error"]) == (True, {"message": "Error: exploded"})


def test_a_result_that_names_the_next_speaker_keeps_the_name() -> None:
    reply = ReplyResult(
        message="routing", target=AgentNameTarget("specialist"), context_variables=ContextVariables({"n": 1})
    )
    payload = normalize(inner_of("ExecutedFunctionEvent", "executed_function", **ADDED, content=reply))
    assert payload["result"]["message"] == "routing"
    assert payload["result"]["target"] == {"kind": "AgentNameTarget", "name": "specialist"}


@pytest.mark.parametrize(
    ("event", "to", "kind"),
    [
        (lambda: handoff("AfterWorksTransitionEvent", TerminateTarget()), "Terminate", "after_work"),
        (
            lambda: handoff("OnConditionLLMTransitionEvent", AgentTarget(ConversableAgent("closer"))),
            "closer",
            "on_condition_llm",
        ),
        (
            lambda: handoff("OnContextConditionTransitionEvent", RevertToUserTarget()),
            "Revert to User",
            "on_context_condition",
        ),
        (
            lambda: handoff("ReplyResultTransitionEvent", AgentNameTarget("specialist")),
            "specialist",
            "reply_result",
        ),
    ],
)
def test_a_transition_is_a_handoff_between_names(event: Any, to: str, kind: str) -> None:
    one = event()
    assert map_event(one) == "execution.handoff"
    payload = normalize(one)
    assert (payload["from"], payload["to"], payload["kind"]) == ("triage", to, kind)
    json.dumps({key: value for key, value in payload.items() if key != "native"})


def test_a_question_holds_no_callable() -> None:
    question = made("InputRequestEvent", prompt="colour?")
    question.content.respond = print
    payload = normalize(question)
    assert (payload["kind"], payload["question"]) == ("question", "colour?")
    assert payload["native"]["data"]["respond"] == "builtins.print"


def test_an_error_keeps_its_type_and_module() -> None:
    payload = normalize(made("ErrorEvent", error=ConnectionError("no route")))
    assert payload["error"] == {"type": "ConnectionError", "module": "builtins", "message": "no route"}


def test_the_end_of_a_run_does_not_store_its_history_again() -> None:
    history = [{"role": "user", "content": "hi"}]
    end = made(
        "RunCompletionEvent", summary="done", history=history, cost={"total": 0}, last_speaker="closer"
    )
    payload = normalize(end)
    assert (payload["output"], payload["last_speaker"], payload["status"]) == ("done", "closer", "ok")
    assert payload["native"]["data"]["history_messages"] == 1
    assert "history" not in payload["native"]["data"]


def test_a_resumed_group_chat_keeps_the_messages_it_was_given() -> None:
    messages = [{"role": "user", "name": "alice", "content": "hi"}]
    payload = normalize(made("GroupChatResumeEvent", last_speaker_name="alice", events=messages))
    assert payload["messages_restored"] == 1
    assert payload["native"]["data"]["events"] == messages


def test_a_safeguard_is_a_guardrail() -> None:
    event = SafeguardEvent(event_type="violation", message="no", guardrail_type="regex", action="block")
    payload = normalize(event)
    assert (payload["name"], payload["action"], payload["phase"]) == ("regex", "block", "violation")


def test_what_has_no_place_still_gets_a_type() -> None:
    assert map_event(PrintEvent("a", "b")) == "ag2.print"
    inner = StreamEvent.model_fields["content"].annotation
    assert map_event(StreamEvent(type="stream", content=inner(content="chunk"))) == "ag2.stream"
