"""Chats in OpenAI's form become runs: one file a chat, a list of messages, one a line; tool calls with their results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import guess

CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}},
    {"id": "call_b", "type": "function", "function": {"name": "fail", "arguments": "{}"}},
]
MESSAGES: list[Any] = [
    {"role": "system", "content": "You add."},
    {"role": "user", "content": "What is 2+3?", "name": "ada"},
    {"role": "assistant", "content": None, "tool_calls": CALLS, "weight": 0},
    {"role": "tool", "tool_call_id": "call_b", "content": "no such city"},
    {"role": "tool", "tool_call_id": "call_a", "content": "5"},
    {"role": "assistant", "content": [{"type": "text", "text": "It is 5."}]},
]
OTHER: list[Any] = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi there"}]


def of_type(entries: list[Any], name: str) -> list[Any]:
    return [entry for entry in entries if entry.event_type == f"execution.{name}"]


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


SHAPES: dict[str, tuple[bytes, int]] = {
    "one chat": (json.dumps({"messages": MESSAGES}, indent=2).encode(), 1),
    "a list of messages": (json.dumps(MESSAGES, indent=2).encode(), 1),
    "one message a line": (lines(*MESSAGES), 1),
    "one chat a line": (lines({"messages": MESSAGES}, {"messages": OTHER, "tools": []}), 2),
    "one list a line": (lines(MESSAGES, OTHER), 2),
    "a list of chats": (json.dumps([{"messages": MESSAGES}, {"messages": OTHER}]).encode(), 2),
    "a list of lists": (json.dumps([MESSAGES, OTHER]).encode(), 2),
    "with a byte order mark": (b"\xef\xbb\xbf" + json.dumps({"messages": MESSAGES}).encode(), 1),
    "one chat a line, blank lines between": (lines({"messages": MESSAGES}).replace(b"\n", b"\r\n\r\n"), 1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_known_by_sight_and_gives_the_same_run(
    take: Any, strict: Any, write: Callable[..., Path], shape: str
) -> None:
    data, chats = SHAPES[shape]
    path = write(data, "chat.jsonl")
    assert guess(path).kind == "openai-chat"
    report, entries = take(path)
    assert (report.problems, len(report.correlations), report.stored) == ((), chats, len(entries))
    first = [entry for entry in entries if entry.correlation_id == report.correlations[0]]
    assert [entry.event_type.partition(".")[2] for entry in first] == [
        *("run_started", "message", "message", "message", "tool_call", "tool_call"),
        *("tool_result", "tool_result", "message", "run_completed"),
    ]
    assert [one.payload["role"] for one in of_type(first, "message")] == [
        "system",
        "user",
        "assistant",
        "assistant",
    ]
    calls = {one.payload["call_id"]: one for one in of_type(first, "tool_call")}
    assert calls["call_a"].payload["arguments"] == {"a": 2, "b": 3}
    for result in of_type(first, "tool_result"):
        call = calls[result.payload["call_id"]]
        assert (result.causation_id, result.payload["name"]) == (call.event_id, call.payload["name"])
    asked = of_type(first, "message")[2]
    assert {call.causation_id for call in calls.values()} == {asked.event_id}
    assert asked.payload["tool_calls"] == CALLS
    assert asked.payload["native"]["message"] == {"weight": 0}
    for correlation in report.correlations:
        (run,) = strict.view("runs", correlation).runs
        assert (run.status, run.started_at) == ("completed", None)
        assert strict.view("graph", correlation).dangling == ()


def test_a_request_with_its_completion_has_its_answer_its_time_and_its_tokens_once(
    take: Any, strict: Any, write: Callable[..., Path]
) -> None:
    chat = {
        "id": "chatcmpl-1", "created": 1_760_000_000, "model": "large-2", "messages": OTHER[:1],
        "choices": [{"index": 0, "message": OTHER[1], "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}},
    }  # fmt: skip
    report, entries = take(write(chat))
    assert [one.payload["content"] for one in of_type(entries, "message")] == ["Hello", "Hi there"]
    (call,) = of_type(entries, "model_call")
    assert call.payload["usage"] == {"input_tokens": 7, "output_tokens": 2, "reasoning": 1}
    (run,) = strict.view("runs", report.correlations[0]).runs
    assert run.started_at == "2025-10-09T08:53:20.000000Z"


def test_the_same_chat_twice_in_a_file_is_two_chats_and_twice_imported_nothing_new(
    take: Any, strict: Any, write: Callable[..., Path]
) -> None:
    path = write(lines({"messages": OTHER}, {"messages": OTHER}), "a.jsonl")
    report, entries = take(path)
    assert len(report.correlations) == 2
    assert [one.rpartition("-")[2] for one in report.correlations][1] == "2"
    assert len(entries) == 8
    again, _ = take(path)
    assert (again.stored, again.known) == (0, 8)


def test_ids_used_again_belong_to_the_call_before(take: Any, write: Callable[..., Path]) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [CALLS[0]]}
    told = {"role": "tool", "tool_call_id": "call_a", "content": "5"}
    _, entries = take(write({"messages": [call, told, call, told, told]}))
    first, second = of_type(entries, "tool_call")
    causes = [one.causation_id for one in of_type(entries, "tool_result")]
    assert causes == [first.event_id, second.event_id, second.event_id]


def test_the_older_form_of_one_function_call_is_read(take: Any, write: Callable[..., Path]) -> None:
    asked = {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": '{"a": 1}'}}
    told = {"role": "function", "name": "add", "content": "1"}
    _, entries = take(write({"messages": [*OTHER, asked, told]}))
    (call,) = of_type(entries, "tool_call")
    (result,) = of_type(entries, "tool_result")
    assert (call.payload["name"], call.payload["arguments"]) == ("add", {"a": 1})
    assert (result.causation_id, result.payload["result"]) == (call.event_id, "1")


def test_calls_and_results_in_parts_are_read(take: Any, write: Callable[..., Path]) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}
    gave = {"type": "tool_result", "tool_use_id": "t1", "content": "1", "is_error": True}
    chat = [*OTHER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [gave]}]
    _, entries = take(write({"messages": chat}))
    (call,) = of_type(entries, "tool_call")
    (result,) = of_type(entries, "tool_result")
    assert (result.causation_id, result.payload["is_error"]) == (call.event_id, True)
    assert len(of_type(entries, "message")) == 3


def test_a_line_that_is_torn_or_none_is_named_by_its_byte_and_the_others_are_taken(
    take: Any, write: Callable[..., Path]
) -> None:
    whole = lines({"messages": OTHER})
    torn = json.dumps({"messages": MESSAGES}).encode()
    torn = torn[: torn.index(b'"tool_call_id": "call_a"')]
    data = whole + b"17\n" + b'{"prompt": "x"}\n' + b'{"messages": 5}\n{oops}\n\xff\xfe{}\n' + torn
    report, entries = take(write(data, "chats.jsonl"))
    told = {data[one.offset : one.offset + 8]: one.reason for one in report.problems}
    assert told[b'17\n{"pro'] == "does not begin as a JSON object"
    assert told[b'{"prompt'] == "there are no 'messages'"
    assert told[b'{"messag'] == "a chat has a list of messages"
    assert "the line is cut off" in told[b"oops}\n\xff\xfe"]
    assert "the file is cut off in item 4 of 'messages'" in told[b'{"role":']
    assert report.problem_count == 6
    assert [one.endswith("-partial") for one in report.correlations] == [False, True]
    partial = [entry for entry in entries if entry.correlation_id == report.correlations[1]]
    assert [entry.event_type.partition(".")[2] for entry in partial][-1] == "tool_result"


def test_hostile_messages_are_kept_as_data_and_what_is_none_is_named(
    take: Any, write: Callable[..., Path]
) -> None:
    hostile: list[Any] = [
        *OTHER,
        "no object",
        {"role": "user", "content": "\ud800", "name": "\x1b[2J" * 200},
        {"role": None, "content": {"$blob": "sha256:00"}},
        {"role": "assistant", "content": 5, "tool_calls": {"a": 1}, "refusal": [1], "reasoning": [2]},
        {"role": "assistant", "tool_calls": [None, 5, {"function": {"name": ["x"], "arguments": "{"}}]},
        {"role": "tool", "tool_call_id": {"a": 1}, "content": None},
        {"role": "tool", "error": {"message": "boom"}},
        {},
    ]
    data = json.dumps({"messages": hostile, "created": "never", "usage": {"prompt_tokens": 1.5}}).encode()
    report, entries = take(write(data), "openai-chat")
    assert [one.reason for one in report.problems] == ["message 2 is no object"]
    assert data[report.problems[0].offset :].startswith(b'"no object"')
    assert not of_type(entries, "model_call")
    messages = [one.payload for one in of_type(entries, "message")]
    assert [one["role"] for one in messages] == [
        "user",
        "assistant",
        "user",
        "unknown",
        "assistant",
        "assistant",
        "unknown",
    ]
    assert messages[4]["native"]["unfit"] == {"tool_calls": {"a": 1}, "refusal": [1], "reasoning": [2]}
    assert [one.payload.get("error") for one in of_type(entries, "tool_result")] == [None, "boom"]


@pytest.mark.parametrize("document", [{"messages": "x"}, {"a": 1}, [1, 2], [[]], {"role": "user"}])
def test_what_is_no_chat_is_not_taken_for_one(write: Callable[..., Path], document: Any) -> None:
    with pytest.raises(Exception, match="looks like none of them"):
        guess(write(document))
