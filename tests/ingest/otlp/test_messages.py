"""Messages are read in every form in which instrumentations write them, and are the same message in each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatsnapshot.ingest.otlp.messages import identified, read_events, taken_messages

CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"city": "Oslo"}}
HISTORY = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "parts": [CALL]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "sunny"}]},
]

GENAI = [
    {"role": "system", "parts": [{"type": "text", "content": "be kind"}]},
    {"role": "user", "parts": [{"type": "text", "content": "weather?"}]},
    {"role": "assistant", "parts": [CALL], "finish_reason": "tool_call"},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "sunny"}]},
]
OPENAI = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": [{"type": "text", "text": "weather?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city":"Oslo"}'}}
        ],
    },
    {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
]
INFERENCE = {
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "be kind",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "weather?",
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c1",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "look",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"city": "Oslo"}',
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.content": "sunny",
    "llm.input_messages.3.message.tool_call_id": "c1",
}
TRACELOOP = {
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "be kind",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": "weather?",
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c1",
    "gen_ai.prompt.2.tool_calls.0.name": "look",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"city": "Oslo"}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.content": "sunny",
    "gen_ai.prompt.3.tool_call_id": "c1",
}


@pytest.mark.parametrize(
    "facts",
    [
        {"gen_ai.input.messages": json.dumps(GENAI)},
        {"gen_ai.input.messages": GENAI},
        {"gen_ai.prompt": json.dumps(OPENAI)},
        INFERENCE,
        TRACELOOP,
    ],
    ids=["json text", "structure", "older name", "OpenInference", "flattened"],
)
def test_one_history_in_each_form(facts: dict[str, Any]) -> None:
    left = {"other": 1, **facts}
    assert taken_messages(left, False) == HISTORY
    assert left == {"other": 1}


def test_events_of_older_conventions() -> None:
    given, said = read_events(
        [
            (0, "gen_ai.system.message", {"content": "be kind"}),
            (0, "gen_ai.user.message", {"content": "weather?"}),
            (0, "gen_ai.assistant.message", {"tool_calls": json.dumps(OPENAI[2]["tool_calls"])}),
            (0, "gen_ai.tool.message", {"content": "sunny", "id": "c1"}),
            (
                1,
                "gen_ai.choice",
                {"index": 0, "finish_reason": "stop", "message": '{"content": "It is sunny."}'},
            ),
        ]
    )
    assert given == HISTORY
    assert said == [{"role": "assistant", "content": "It is sunny."}]


def test_the_second_yes_is_another_message_and_another_conversation_has_its_own() -> None:
    yes = {"role": "user", "content": "yes"}
    first, second = identified("c", [yes, yes])
    assert first != second
    assert identified("c", [yes]) == [first]
    assert identified("d", [yes]) != [first]


def test_reasoning_names_and_spelling_of_arguments_make_no_other_message() -> None:
    bare = {"role": "assistant", "parts": [CALL]}
    more = {
        "role": "assistant",
        "name": "desk",
        "parts": [{"type": "reasoning", "content": "hm"}, {**CALL, "arguments": '{"city":"Oslo"}'}],
    }
    assert identified("c", [bare]) == identified("c", [more])
    assert identified("c", [bare]) != identified(
        "c", [{"role": "assistant", "parts": [{**CALL, "id": "c2"}]}]
    )


@pytest.mark.parametrize(
    "odd",
    ["plain text", "[broken", "[1, null, \"x\"]", "{}", [{"parts": [None, 3]}], [[]], 5, {"role": 3, "content": {}}],
)  # fmt: skip
def test_nothing_odd_raises(odd: Any) -> None:
    made = taken_messages({"gen_ai.input.messages": odd}, False)
    assert len(identified("c", made)) == len(made)


def test_what_has_no_index_stays_where_it_is() -> None:
    facts = {
        "llm.input_messages.x.message.content": "a",
        "llm.input_messages.99999999.message.content": "b",
        "llm.input_messages.0.message.content": "c",
    }
    assert [message["content"] for message in taken_messages(facts, False)] == ["c"]
    assert len(facts) == 2
