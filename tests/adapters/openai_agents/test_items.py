"""Items of the Responses API as messages, parts and tools that the provider ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chatsnapshot.adapters.openai_agents.items import (
    Hosted,
    after_the_last_answer,
    input_messages,
    output_parts,
    usage_of,
)


@pytest.mark.parametrize(
    ("item", "part"),
    [
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
            {"type": "text", "content": "Hi"},
        ),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"type": "refusal", "content": "No."},
        ),
        (
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "encrypted_content": "x",
            },
            {"type": "reasoning", "content": "hm"},
        ),
        (
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}},
        ),
        (
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": '},
            {"type": "tool_call", "id": "c1", "name": "add", "arguments": '{"a": '},
        ),
        (
            {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"},
            {"type": "tool_call", "id": "c1", "name": "sql", "arguments": "select 1"},
        ),
        (
            {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"},
            {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"action": {"commands": ["ls"]}}},
        ),
        (
            {"type": "of_tomorrow", "n": 1},
            {"type": "of_tomorrow", "content": {"type": "of_tomorrow", "n": 1}},
        ),
    ],
)
def test_an_item_of_an_answer_is_one_part(item: Any, part: Any) -> None:
    assert output_parts([item]) == ([part], [])


@pytest.mark.parametrize(
    ("item", "hosted"),
    [
        (
            {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"query": "lamp"}},
            Hosted("w1", "web_search", {"action": {"query": "lamp"}}, None, None),
        ),
        (
            {
                "type": "file_search_call",
                "id": "f1",
                "status": "completed",
                "queries": ["a"],
                "results": [{"n": 1}],
            },
            Hosted("f1", "file_search", {"queries": ["a"]}, [{"n": 1}], None),
        ),
        (
            {
                "type": "mcp_call",
                "id": "m1",
                "name": "look",
                "arguments": "{}",
                "output": None,
                "error": "gone",
            },
            Hosted("m1", "look", "{}", None, "gone"),
        ),
        (
            {"type": "code_interpreter_call", "id": "p1", "status": "failed", "code": "1/0", "outputs": None},
            Hosted("p1", "code_interpreter", {"code": "1/0"}, None, True),
        ),
    ],
)
def test_a_tool_that_the_provider_ran_is_a_part_and_a_tool(item: Any, hosted: Any) -> None:
    parts, tools = output_parts([item])
    assert [part["type"] for part in parts] == ["tool_call"]
    assert tools == [hosted]


def test_an_input_is_messages_by_role_and_one_answer_is_one_message() -> None:
    given = [
        {"role": "developer", "content": "Be kind."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is it?"},
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
                {"type": "input_file", "file_id": "file-1", "filename": "a.pdf"},
            ],
        },
        {"type": "reasoning", "id": "r1", "summary": []},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a lamp"},
    ]
    found = input_messages(given)
    assert [role for role, _ in found] == ["developer", "user", "assistant", "tool"]
    assert [part["type"] for part in found[1][1]] == ["text", "uri", "file"]
    assert [part["type"] for part in found[2][1]] == ["text", "tool_call"]
    assert found[3][1] == [{"type": "tool_call_response", "id": "c1", "result": "a lamp"}]
    assert input_messages("Hello") == [("user", [{"type": "text", "content": "Hello"}])]


def test_what_follows_the_last_answer_is_new() -> None:
    old = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
    new = [{"role": "user", "content": "3"}, {"type": "message", "role": "system", "content": "4"}]
    assert after_the_last_answer([*old, *new]) == new
    assert after_the_last_answer(old) == []
    assert after_the_last_answer("Hello") == "Hello"


def test_tokens_have_the_keys_that_all_adapters_share() -> None:
    details = {
        "input_tokens_details": SimpleNamespace(cached_tokens=3, cache_write_tokens=0),
        "output_tokens_details": SimpleNamespace(reasoning_tokens=2),
    }
    assert usage_of(SimpleNamespace(input_tokens=9, output_tokens=4, **details)) == {
        "input_tokens": 9,
        "output_tokens": 4,
        "cache_read": 3,
        "reasoning": 2,
    }
    assert usage_of(SimpleNamespace(input_tokens=0, output_tokens=0)) is None
