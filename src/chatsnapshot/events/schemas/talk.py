"""Payloads of what is said: messages, questions to people and their answers, handoffs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import (
    Agent,
    Id,
    Items,
    Name,
    Native,
    Number,
    Parts,
    RunId,
    Tag,
    Text,
    ToolRef,
)

__all__ = ["SCHEMAS", "Handoff", "HumanInputReceived", "HumanInputRequested", "Message"]


class Message(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message in any plain form: role and content, OpenAI with tool calls, Anthropic content lists, GenAI parts."""

    role: Annotated[Id | None, Meta(description="system, user, assistant, tool, or the provider's word")] = (
        None
    )
    content: Annotated[Any, Meta(description="the text, or a list of parts")] = None
    name: Annotated[Name | None, Meta(description="who speaks: the agent, user or tool")] = None
    parts: Annotated[
        Parts | None, Meta(description="parts by their OpenTelemetry GenAI names, each with a `type`")
    ] = None
    text: Annotated[Any, Meta(description="as `content`")] = None
    tool_calls: Annotated[list[ToolRef] | None, Meta(description="the tools that the message asks for")] = (
        None
    )
    tool_call_id: Annotated[Id | None, Meta(description="id of the call that a tool message answers")] = None
    function_call: Annotated[ToolRef | None, Meta(description="the older form of one tool call")] = None
    tool_responses: Annotated[list[Any] | None, Meta(description="results that a tool message holds")] = None
    reasoning: Annotated[Text | None, Meta(description="what the model thought")] = None
    refusal: Annotated[Text | None, Meta(description="why the model would not answer")] = None
    recipient: Annotated[Name | None, Meta(description="who is spoken to")] = None
    model: Annotated[Name | None, Meta(description="the model that wrote it")] = None
    finish_reason: Annotated[Text | None, Meta(description="why the model stopped")] = None
    messages: Annotated[
        list[Any] | Tag | None, Meta(description="several messages, where an event holds more than one")
    ] = None
    message: Annotated[Any, Meta(description="the message as an object of its own, or its text")] = None
    output: Annotated[Any, Meta(description="as `content`")] = None
    value: Annotated[Any, Meta(description="as `content`: what was given instead of an object")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class HumanInputRequested(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A person is asked: a question, for an approval of a tool call, or to edit something."""

    question: Annotated[Any, Meta(description="what is asked, as the person reads it")] = None
    question_id: Annotated[Id | None, Meta(description="id that the answer will name in `answers`")] = None
    id: Annotated[Id | None, Meta(description="as `question_id`")] = None
    request_id: Annotated[Id | None, Meta(description="as `question_id`")] = None
    kind: Annotated[
        Literal["question", "approval", "edit"] | Tag | None,
        Meta(description="what is wanted: an answer, a yes or no, a changed value; default `question`"),
    ] = None
    choices: Annotated[Items | None, Meta(description="the answers to choose from")] = None
    schema: Annotated[Any, Meta(description="JSON Schema that the answer must fit")] = None
    name: Annotated[Name | None, Meta(description="name of the tool that is to be approved")] = None
    arguments: Annotated[Any, Meta(description="arguments of the tool that is to be approved")] = None
    call_id: Annotated[Id | None, Meta(description="id of the tool call that asks")] = None
    tool: Annotated[
        ToolRef | str | None, Meta(description="the tool that is to be approved, as an object")
    ] = None
    tool_name: Annotated[Name | None, Meta(description="as `name`")] = None
    assignee: Annotated[Name | None, Meta(description="who is asked")] = None
    timeout_seconds: Annotated[
        Number | None, Meta(description="how long the answer is waited for", extra={"unit": "s"})
    ] = None
    prompt: Annotated[Any, Meta(description="as `question`")] = None
    text: Annotated[Any, Meta(description="as `question`")] = None
    content: Annotated[Any, Meta(description="as `question`")] = None
    message: Annotated[Any, Meta(description="as `question`")] = None
    title: Annotated[Any, Meta(description="as `question`")] = None
    value: Annotated[Any, Meta(description="as `question`: what was given instead of an object")] = None
    interrupt: Annotated[Any, Meta(description="the question as an object of its own")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class HumanInputReceived(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A person answered."""

    answers: Annotated[Id | None, Meta(description="id of the question")] = None
    answer: Annotated[Any, Meta(description="the answer: a text, a choice or the edited value")] = None
    decision: Annotated[
        Literal["approved", "rejected", "edited"] | Tag | None,
        Meta(description="what became of the question"),
    ] = None
    approved: Annotated[bool | None, Meta(description="as `decision`: true approved, false rejected")] = None
    comment: Annotated[Any, Meta(description="what the person said about it")] = None
    user: Annotated[Name | None, Meta(description="who answered")] = None
    name: Annotated[Name | None, Meta(description="who answered, where no user is known")] = None
    edited: Annotated[Any, Meta(description="as `answer`, the edited value")] = None
    question_id: Annotated[Id | None, Meta(description="as `answers`")] = None
    request_id: Annotated[Id | None, Meta(description="as `answers`")] = None
    response: Annotated[Any, Meta(description="as `answer`")] = None
    value: Annotated[Any, Meta(description="as `answer`")] = None
    text: Annotated[Any, Meta(description="as `answer`")] = None
    content: Annotated[Any, Meta(description="as `answer`")] = None
    result: Annotated[Any, Meta(description="as `answer`")] = None
    message: Annotated[Any, Meta(description="as `answer`")] = None
    interrupt: Annotated[Any, Meta(description="the answer as an object of its own")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class Handoff(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The work goes from one agent to another."""

    from_: Annotated[Name | None, Meta(description="who gives the work away")] = msgspec.field(
        default=None, name="from"
    )
    to: Annotated[Name | None, Meta(description="who gets it")] = None
    reason: Annotated[Any, Meta(description="why")] = None
    message: Annotated[Any, Meta(description="what is said with it")] = None
    kind: Annotated[Text | None, Meta(description="by what rule, in the runtime's words")] = None
    context: Annotated[Any, Meta(description="what goes with it")] = None
    source: Annotated[Name | None, Meta(description="as `from`")] = None
    from_agent: Annotated[Name | None, Meta(description="as `from`")] = None
    source_agent: Annotated[Name | None, Meta(description="as `from`")] = None
    target: Annotated[Name | None, Meta(description="as `to`")] = None
    to_agent: Annotated[Name | None, Meta(description="as `to`")] = None
    target_agent: Annotated[Name | None, Meta(description="as `to`")] = None
    recipient: Annotated[Name | None, Meta(description="as `to`")] = None
    run_id: RunId = None
    agent: Annotated[
        Name | None, Meta(description="name of the agent that acted; as `to` where no other key is")
    ] = None
    native: Native = None


SCHEMAS: tuple[Schema, ...] = (
    schema(
        "execution.message",
        Message,
        {
            "role": "assistant",
            "name": "desk",
            "parts": [
                {"type": "text", "content": "I look at the order."},
                {
                    "type": "tool_call",
                    "id": "call-1",
                    "name": "look_up_order",
                    "arguments": {"order": "WW-1042"},
                },
            ],
        },
        (
            "role",
            "content",
            "parts",
            "text",
            "value",
            "message",
            "output",
            "messages",
            "tool_calls",
            "function_call",
            "tool_responses",
            "reasoning",
            "refusal",
        ),
    ),
    schema(
        "execution.human_input_requested",
        HumanInputRequested,
        {
            "question_id": "q-1",
            "kind": "approval",
            "question": "May we pay 12.00 EUR back?",
            "name": "refund",
            "arguments": {"order": "WW-1042", "amount": "12.00 EUR"},
            "call_id": "call-2",
        },
        (
            "question",
            "prompt",
            "text",
            "content",
            "message",
            "title",
            "value",
            "interrupt",
            "name",
            "tool",
            "tool_name",
        ),
    ),
    schema(
        "execution.human_input_received",
        HumanInputReceived,
        {"answers": "q-1", "decision": "approved", "answer": "Yes, and put wicks in.", "user": "manager"},
        (
            "answer",
            "decision",
            "approved",
            "answers",
            "question_id",
            "request_id",
            "response",
            "value",
            "text",
            "content",
            "edited",
            "result",
            "comment",
            "message",
            "interrupt",
        ),
    ),
    schema(
        "execution.handoff",
        Handoff,
        {"from": "desk", "to": "scribe", "reason": "a letter is to be written"},
        ("to", "target", "to_agent", "target_agent", "recipient", "agent"),
    ),
)
