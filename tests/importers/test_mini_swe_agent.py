"""A mini-swe-agent trajectory becomes a run: messages, the commands found in them, what these gave, each model call."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import guess

NAME = "mini_github_issue.traj.json"


def of_type(entries: list[Any], name: str) -> list[Any]:
    return [entry for entry in entries if entry.event_type == f"execution.{name}"]


def answer(content: str, at: float, **extra: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}}
    response = {
        "id": f"r-{at}",
        "model": "large-2",
        "usage": usage,
        "choices": [{"message": {"content": content}}],
    }
    return {
        "role": "assistant",
        "content": content,
        "extra": {"response": response, "timestamp": at, **extra},
    }


def gave(code: int, at: float, **more: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": f"it gave {code}",
        "extra": {"returncode": code, "timestamp": at},
        **more,
    }


@pytest.fixture
def newer() -> dict[str, Any]:
    """A trajectory as newer versions write it: with times, responses, tool calls."""
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "bash", "arguments": '{"command": "make"}'},
    }
    messages = [
        {"role": "system", "content": "You run commands."},
        {"role": "user", "content": "Mend the lamp."},
        answer("Nothing to run.", 1_760_000_000.5),
        {"role": "user", "content": "Give one action.", "extra": {"interrupt_type": "FormatError"}},
        answer("```bash\nls\n```", 1_760_000_010.0, actions=[{"command": "ls"}], cost=0.01),
        gave(0, 1_760_000_011.0),
        {
            **answer("", 1_760_000_020.0, actions=[{"command": "make", "tool_call_id": "call_1"}]),
            "tool_calls": [call],
        },
        gave(2, 1_760_000_025.0, role="tool", tool_call_id="call_1"),
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}},
    ]
    config = {"model": {"model_name": "acme/large-2"}, "agent": {"step_limit": 9}}
    info = {"exit_status": "Submitted", "submission": "diff", "mini_version": "2.1.0", "config": config}
    return {
        "info": info,
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": "lamp__1",
    }


def test_a_real_trajectory_gives_what_an_independent_reader_finds_in_it(
    take: Any, strict: Any, shared_data: Path
) -> None:
    path = shared_data / "swe-agent" / NAME
    items = json.loads(path.read_text(encoding="utf-8"))
    report, entries = take(path, redact=None)
    assert (report.kind, report.stored, report.problems) == ("mini-swe-agent", len(entries), ())
    # The first two items are prompts; from there the model and the shell take turns.
    spoken, told = [*items[:2], *items[2::2]], items[3::2]
    assert [(one.payload["role"], one.payload["content"]) for one in of_type(entries, "message")] == [
        (item["role"], item["content"]) for item in spoken
    ]
    commands = [item["content"].split("```mswea_bash_command\n")[1].split("\n```")[0] for item in items[2::2]]
    calls, results = of_type(entries, "tool_call"), of_type(entries, "tool_result")
    assert [one.payload["arguments"]["command"] for one in calls] == commands
    assert [one.payload["result"] for one in results] == [item["content"] for item in told]
    assert [one.causation_id for one in results] == [one.event_id for one in calls]
    codes = [re.match(r"<returncode>(\d+)", item["content"]) for item in told]
    wanted = [None if code is None else int(code[1]) for code in codes]
    assert [one.payload.get("status") for one in results] == wanted
    assert [one.payload.get("is_error", False) for one in results] == [bool(code) for code in wanted]
    (run,) = strict.view("runs", report.correlations[0]).runs
    assert (run.status, run.messages, run.tool_calls, run.errors.tool) == (
        *("completed", len(spoken), len(told)),
        sum(bool(code) for code in wanted),
    )
    assert strict.view("graph", report.correlations[0]).dangling == ()


def test_a_newer_trajectory_has_times_models_tokens_and_its_end(
    take: Any, strict: Any, write: Any, newer: Any
) -> None:
    report, entries = take(write(newer))
    assert report.whole
    assert report.correlations[0].startswith("mini-swe-agent-lamp__1-")
    models = of_type(entries, "model_call")
    assert [one.payload["usage"] for one in models] == [
        {"input_tokens": 100, "output_tokens": 10, "cache_read": 60}
    ] * 3
    assert {one.payload["model"] for one in models} == {"large-2"}
    tokens = strict.view("metrics", report.correlations[0]).total.model.tokens
    assert (tokens.input, tokens.output, tokens.cache_read, tokens.unknown_calls) == (300, 30, 180, 0)
    ls, make = of_type(entries, "tool_call")
    first, second = of_type(entries, "tool_result")
    assert (first.causation_id, second.causation_id) == (ls.event_id, make.event_id)
    assert (second.payload["status"], second.payload["error"]) == (2, "exit code 2")
    assert second.timestamp == "2025-10-09T08:53:45.000000Z"
    assert [
        one.payload["content"] for one in of_type(entries, "message") if one.payload["role"] == "user"
    ] == [
        "Mend the lamp.",
        "Give one action.",
    ]
    (ended,) = of_type(entries, "run_completed")
    assert (ended.payload["output"], ended.payload["status"]) == ("diff", "Submitted")


def test_limits_and_errors_are_failures(take: Any, write: Any, newer: Any) -> None:
    newer["info"] |= {"exit_status": "LimitsExceeded", "submission": ""}
    _, entries = take(write(newer))
    assert entries[-1].event_type == "execution.run_failed"
    assert entries[-1].payload["error"] == {"type": "LimitsExceeded", "message": "ended with LimitsExceeded"}


def test_a_command_that_ran_too_long_is_a_tool_error(take: Any, write: Any) -> None:
    told = "The last command <command>sleep 90</command> timed out and has been killed.\nThe output was: x"
    messages = [
        {"role": "user", "content": "Wait."},
        {"role": "assistant", "content": "```mswea_bash_command\nsleep 90\n```"},
        {"role": "user", "content": told},
    ]
    _, entries = take(write(messages, "t.traj.json"))
    assert of_type(entries, "tool_result")[0].payload["error"] == "timed out"


def test_several_commands_in_one_message_were_not_run(take: Any, write: Any) -> None:
    two = "```mswea_bash_command\na\n```\n```mswea_bash_command\nb\n```"
    messages = [{"role": "assistant", "content": two}, {"role": "user", "content": "EXACTLY ONE"}]
    _, entries = take(write(messages))
    assert not of_type(entries, "tool_call")
    assert [one.payload["role"] for one in of_type(entries, "message")] == ["assistant", "user"]


def test_hostile_values_are_kept_as_data_and_what_is_none_is_named(take: Any, write: Any, newer: Any) -> None:
    newer["messages"] += [
        17,
        {"role": "assistant", "content": {"$type": "x"}, "extra": {"actions": [5, None], "timestamp": 1e300}},
        {
            "role": "tool",
            "content": "\ud800",
            "tool_call_id": "no such",
            "extra": {"exception_info": "boom \x00"},
        },
        {
            "role": "assistant",
            "content": None,
            "extra": "none",
            "tool_calls": [{"id": "x", "function": None}],
        },
    ]
    data = json.dumps(newer).encode()
    report, entries = take(write(data))
    assert [one.reason for one in report.problems] == ["message 9 is no object"]
    assert data[report.problems[0].offset :].startswith(b"17")
    assert len(of_type(entries, "tool_result")) == 3


def test_a_torn_list_gives_its_whole_messages(take: Any, shared_data: Path, write: Any) -> None:
    data = (shared_data / "swe-agent" / NAME).read_bytes()
    report, entries = take(write(data[:6000], "torn.traj.json"))
    (problem,) = report.problems
    assert "the file is cut off in item 10 of 'items'" in problem.reason
    assert json.loads(b"[" + data[: problem.offset].rstrip().rstrip(b",").lstrip(b"[ \n") + b"]")
    assert len(of_type(entries, "message")) + len(of_type(entries, "tool_result")) == 10
    assert not of_type(entries, "run_completed")


def test_a_list_of_messages_of_others_is_a_chat(write: Any) -> None:
    assert guess(write([{"role": "user", "content": "Hello"}])).kind == "openai-chat"
