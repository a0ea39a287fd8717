"""Sessions in which any value may be anything: nothing raises, what is taken fits, and again is the same."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.importers.claude_code import ClaudeCode
from chatsnapshot.importers.codex import Codex
from chatsnapshot.importers.recording import Recording

ODD: list[Any] = [
    None, 5, "x", "", [], {}, [None], {"type": []}, {"a": {"b": 1}}, True, "\ud800", -1, 2**70, 1.5, ["a", {}],
    "2026-13-01T00:00:00Z", [["x"]], "\x1b[2J\x00",
]  # fmt: skip


def claude() -> list[dict[str, Any]]:
    def line(kind: str, number: int, **more: Any) -> dict[str, Any]:
        base = {"type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}", "sessionId": "s"}
        return {**base, "timestamp": f"2026-11-30T10:00:{number:02d}Z", **more}

    def answer(number: int, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
        usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3}
        message = {
            "id": f"m{number}",
            "role": "assistant",
            "model": "c",
            "usage": usage,
            "content": list(blocks),
        }
        return line("assistant", number, message={**message, "stop_reason": None}, **more)

    def call(call_id: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        return {"type": "tool_use", "id": call_id, "name": name, "input": given}

    def result(number: int, call_id: str, **more: Any) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": "r"}]}
        return line("user", number, message={"role": "user", "content": [block]}, **more)

    return [
        line("user", 1, message={"role": "user", "content": "Go."}),
        answer(2, {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I ask."}),
        answer(3, call("t1", "Task", {"prompt": "Look.", "subagent_type": "Explore", "description": "d"})),
        line("progress", 4, data={"type": "agent_progress", "agentId": "a"}, parentToolUseID="t1"),
        line("user", 5, agentId="a", isSidechain=True, parentUuid=None, message={"content": "Look."}),
        answer(6, {"type": "text", "text": "12."}, agentId="a", isSidechain=True),
        result(7, "t1", toolUseResult={"agentId": "a", "status": "completed"}),
        answer(
            8, call("t2", "AskUserQuestion", {"questions": [{"question": "q", "options": [{"label": "o"}]}]})
        ),
        result(9, "t2", toolUseResult={"answers": {"q": "o"}}),
        line(
            "system",
            10,
            subtype="compact_boundary",
            logicalParentUuid="u9",
            compactMetadata={"trigger": "auto"},
        ),
        line("system", 11, subtype="api_error", error={"status": 529}, retryAttempt=1),
        line("system", 12, subtype="turn_duration", durationMs=5),
        line(
            "user",
            13,
            parentUuid="u2",
            message={"content": [{"type": "image", "source": {"type": "base64"}}]},
        ),
        {"type": "queue-operation", "operation": "enqueue", "content": "z", "sessionId": "s"},
        {"type": "summary", "summary": "s", "leafUuid": "u2"},
        {
            "type": "file-history-snapshot",
            "messageId": "m",
            "snapshot": {"timestamp": "2026-11-30T10:00:00Z"},
        },
    ]


def codex() -> list[dict[str, Any]]:
    said = [{"type": "input_text", "text": "Go."}]
    counts = {"input_tokens": 1, "output_tokens": 2}
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
    items: list[tuple[str, dict[str, Any]]] = [
        ("session_meta", {"id": "t", "timestamp": "2026-11-30T10:00:00Z", "source": source, "cwd": "/"}),
        ("event_msg", {"type": "task_started", "turn_id": "1"}),
        ("response_item", {"type": "message", "role": "user", "content": said}),
        ("event_msg", {"type": "user_message", "message": "Go.", "images": ["data:image/png;base64,AA=="]}),
        ("turn_context", {"model": "m", "cwd": "/"}),
        ("event_msg", {"type": "agent_reasoning", "text": "hm"}),
        ("response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
        (
            "response_item",
            {"type": "function_call", "name": "spawn_agent", "arguments": "{}", "call_id": "c1"},
        ),
        ("response_item", {"type": "function_call_output", "call_id": "c1", "output": '{"agent_id": "k"}'}),
        ("response_item", {"type": "custom_tool_call", "name": "apply_patch", "input": "p", "call_id": "c2"}),
        ("response_item", {"type": "custom_tool_call_output", "call_id": "c2", "output": "Exit code: 1"}),
        (
            "response_item",
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "q"}},
        ),
        (
            "event_msg",
            {"type": "token_count", "info": {"total_token_usage": counts, "last_token_usage": counts}},
        ),
        ("event_msg", {"type": "agent_message", "message": "Done."}),
        ("event_msg", {"type": "entered_review_mode", "prompt": "p"}),
        ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        ("compacted", {"message": "short", "replacement_history": []}),
        ("event_msg", {"type": "sub_agent_activity", "agent_thread_id": "k", "event_id": "c1"}),
        ("event_msg", {"type": "task_complete", "last_agent_message": "Done."}),
        ("event_msg", {"type": "turn_aborted", "reason": "interrupted"}),
    ]
    return [
        {"timestamp": f"2026-11-30T10:00:{number:02d}Z", "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate(items)
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def spoiled(lines: list[dict[str, Any]], chance: random.Random) -> bytes:
    found = copy.deepcopy(lines)
    for _ in range(chance.randint(1, 8)):
        line = chance.choice(found)
        *above, last = chance.choice(list(places(line)) or [(None,)])
        if last is None:
            continue
        target: Any = line
        for key in above:
            target = target[key]
        target[last] = copy.deepcopy(chance.choice(ODD))
    if chance.random() < 0.3:
        chance.shuffle(found)
    return b"".join(json.dumps(line).encode() + b"\n" for line in found)


@pytest.mark.parametrize(
    ("importer", "lines"), [(ClaudeCode(), claude()), (Codex(), codex())], ids=["claude", "codex"]
)
def test_a_session_with_odd_values_is_taken_and_the_same_again(
    importer: Any, lines: list[dict[str, Any]], seeded: random.Random
) -> None:
    for _ in range(60):
        data = spoiled(lines, seeded)
        with chatsnapshot.open("memory:", validation="strict") as ledger:
            first, again = Recording(ledger, "secrets"), Recording(ledger, "secrets")
            first.take(importer.read(data))
            again.take(importer.read(data))
            assert (first.problems, again.problems, again.stored, again.known) == ([], [], 0, first.stored), (
                data
            )
            assert first.stored >= 2
            for correlation in first.correlations:
                ledger.view("runs", correlation)
                ledger.view("graph", correlation)


@pytest.mark.parametrize(
    ("importer", "lines"), [(ClaudeCode(), claude()), (Codex(), codex())], ids=["claude", "codex"]
)
def test_the_lines_as_they_are_make_what_they_stand_for(importer: Any, lines: list[dict[str, Any]]) -> None:
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    types = {piece.event["event_type"].partition(".")[2] for piece in importer.read(data)}
    assert types >= {"run_started", "message", "tool_call", "tool_result", "model_call", "state_change"}
