"""A SWE-agent trajectory becomes a run: messages, the tools they call, what these gave and how long they took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import guess

SIMPLE, MARSHMALLOW = "function_calling_simple.traj", "marshmallow-1867_function_calling.traj"


def of_type(entries: list[Any], name: str) -> list[Any]:
    return [entry for entry in entries if entry.event_type == f"execution.{name}"]


def step(action: str, gave: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "observation": gave, "response": f"I do {action}", "thought": "", **more}


@pytest.fixture
def plain() -> dict[str, Any]:
    """A trajectory of a model that writes its actions as text."""
    said = [
        {"role": "system", "content": "You fix lamps.", "agent": "main"},
        {"role": "user", "content": "An example", "agent": "main", "is_demo": True},
        {"role": "user", "content": "The lamp is dark.", "agent": "main"},
        {
            "role": "assistant",
            "content": "I look.\n```\nls\n```",
            "thought": "I look.",
            "action": "ls",
            "agent": "main",
        },
        {"role": "user", "content": "lamp.py", "agent": "main"},
        {
            "role": "assistant",
            "content": "Done.\n```\nsubmit\n```",
            "thought": "Done.",
            "action": "submit",
            "agent": "main",
        },
    ]
    steps = [step("ls", "lamp.py", execution_time=0.25, state={"open_file": "n/a"}), step("submit", "diff")]
    stats = {"tokens_sent": 900, "tokens_received": 70, "api_calls": 2, "instance_cost": 0.1}
    info = {"exit_status": "submitted", "submission": "diff --git", "model_stats": stats}
    config = json.dumps(
        {"agent": {"model": {"name": "large-2"}}, "problem_statement": {"id": "lamp-1", "text": "Dark."}}
    )
    return {
        "environment": "main",
        "trajectory": steps,
        "history": said,
        "info": info,
        "replay_config": config,
    }


@pytest.mark.parametrize("name", [SIMPLE, MARSHMALLOW])
def test_a_real_trajectory_gives_what_an_independent_reader_finds_in_it(
    take: Any, strict: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "swe-agent" / name
    history = json.loads(path.read_text(encoding="utf-8"))["history"]
    report, entries = take(path, redact=None)
    assert (report.kind, report.stored, report.problems) == ("swe-agent", len(entries), ())
    spoken = [item for item in history if item["role"] != "tool"]
    messages = of_type(entries, "message")
    assert [(one.payload["role"], one.payload["content"]) for one in messages] == [
        (item["role"], item["content"]) for item in spoken
    ]
    wanted = [
        (call["function"]["name"], call["id"], json.loads(call["function"]["arguments"]))
        for item in history
        for call in item.get("tool_calls", [])
    ]
    calls, results = of_type(entries, "tool_call"), of_type(entries, "tool_result")
    assert [
        (one.payload["name"], one.payload["call_id"], one.payload["arguments"]) for one in calls
    ] == wanted
    told = [item for item in history if item["role"] == "tool"]
    assert [one.payload["result"] for one in results] == [item["content"] for item in told]
    # Calls of these files use ids again: each result belongs to the call just before it.
    assert [one.causation_id for one in results] == [one.event_id for one in calls]
    assert [one.payload["name"] for one in results] == [name for name, *_ in wanted]
    asking = {item["content"]: item for item in history if item.get("tool_calls")}
    by_id = {one.event_id: one for one in messages}
    assert all(by_id[one.causation_id].payload["content"] in asking for one in calls)
    (run,) = strict.view("runs", report.correlations[0]).runs
    assert (run.status, run.messages, run.tool_calls, run.agents) == (
        "completed",
        len(spoken),
        len(told),
        ("main",),
    )
    assert {entry.payload["native"]["time"] for entry in entries} == {"unknown"}


def test_a_real_trajectory_tells_its_steps_its_end_and_its_tokens_once(
    take: Any, strict: Any, shared_data: Path
) -> None:
    path = shared_data / "swe-agent" / MARSHMALLOW
    log = json.loads(path.read_text(encoding="utf-8"))
    report, entries = take(path, redact=None)
    results = of_type(entries, "tool_result")
    seconds = [one["execution_time"] for one in log["trajectory"]]
    assert [one.payload["duration_ns"] for one in results] == [round(one * 1e9) for one in seconds]
    assert [one.payload["native"]["state"] for one in results] == [one["state"] for one in log["trajectory"]]
    (ended,) = of_type(entries, "run_completed")
    assert (ended.payload["output"], ended.payload["status"]) == (log["info"]["submission"], "submitted")
    (model,) = of_type(entries, "model_call")
    stats = log["info"]["model_stats"]
    assert model.payload["usage"] == {
        "input_tokens": stats["tokens_sent"],
        "output_tokens": stats["tokens_received"],
    }
    assert model.payload["model"] == log["replay_config"]["agent"]["model"]["name"]
    (started,) = of_type(entries, "run_started")
    assert started.payload["input"] == log["replay_config"]["problem_statement"]["text"]
    assert strict.view("graph", report.correlations[0]).dangling == ()


def test_actions_written_as_text_are_calls_of_the_shell(take: Any, write: Any, plain: Any) -> None:
    report, entries = take(write(plain, "plain.traj"))
    assert [entry.event_type.partition(".")[2] for entry in entries] == [
        *("run_started", "message", "message", "message", "message", "tool_call", "tool_result"),
        *("message", "tool_call", "model_call", "run_completed"),
    ]
    call, submit = of_type(entries, "tool_call")
    (result,) = of_type(entries, "tool_result")
    assert call.payload["arguments"] == {"command": "ls"}
    assert (result.causation_id, result.payload["result"]) == (call.event_id, "lamp.py")
    assert result.payload["duration_ns"] == 250_000_000
    assert submit.payload["arguments"] == {"command": "submit"}
    assert report.correlations[0].startswith("swe-agent-lamp-1-")
    assert of_type(entries, "model_call")[0].payload["usage"] == {"input_tokens": 900, "output_tokens": 70}


def test_a_trajectory_without_a_history_is_told_by_its_steps(take: Any, write: Any, plain: Any) -> None:
    del plain["history"]
    _, entries = take(write(plain))
    assert [one.payload["content"] for one in of_type(entries, "message")] == ["I do ls", "I do submit"]
    calls = of_type(entries, "tool_call")
    assert [one.causation_id for one in of_type(entries, "tool_result")] == [one.event_id for one in calls]


@pytest.mark.parametrize(
    ("status", "event"),
    [
        ("submitted", "run_completed"),
        ("submitted (exit_cost)", "run_completed"),
        ("exit_cost", "run_failed"),
        ("exit_error", "run_failed"),
        ("early_exit", "run_cancelled"),
        (None, "run_completed"),
    ],
)
def test_how_it_ended_is_how_the_run_ended(
    take: Any, write: Any, plain: Any, status: Any, event: str
) -> None:
    plain["info"]["exit_status"] = status
    _, entries = take(write(plain))
    assert entries[-1].event_type == f"execution.{event}"


def test_hostile_values_are_kept_as_data_and_what_is_none_is_named(take: Any, write: Any, plain: Any) -> None:
    plain["history"] += [
        "no object",
        {
            "role": ["x"],
            "content": {"$blob": "sha256:00"},
            "agent": 7,
            "tool_calls": "none",
            "message_type": "action",
        },
        {
            "role": "assistant",
            "content": "\ud800",
            "agent": "\ud800",
            "tool_calls": [{"id": [1], "function": 7}, 3],
        },
        {"role": "tool", "content": None, "agent": "main", "tool_call_ids": ["a", "b"]},
    ]
    plain["trajectory"] += [17, {"action": 5, "observation": None}]
    plain["info"] |= {"exit_status": 5, "model_stats": {"tokens_sent": -1, "tokens_received": "many"}}
    data = json.dumps(plain).encode()
    report, entries = take(write(data))
    assert [one.reason for one in report.problems] == ["step 2 is no object", "message 6 is no object"]
    assert data[report.problems[1].offset :].startswith(b'"no object"')
    assert (
        len(of_type(entries, "tool_result")) == 4
    )  # of ls, of two calls at once, of a step that no message tells of
    assert not of_type(entries, "model_call")


def test_a_torn_trajectory_is_a_partial_run_without_an_end(take: Any, write: Any, plain: Any) -> None:
    data = json.dumps(plain).encode()
    cut = data.index(b"Done.")
    report, entries = take(write(data[:cut]))
    (problem,) = report.problems
    assert "the file is cut off in item 5 of 'history'" in problem.reason
    assert data[problem.offset :].startswith(b'{"role": "assistant", "content": "Done.')
    assert report.correlations[0].endswith("-partial")
    assert not [one for one in entries if one.event_type == "execution.run_completed"]


def test_another_kind_given_is_refused_with_the_name_of_this_one(write: Any, plain: Any) -> None:
    with pytest.raises(Exception, match=r"looks like a SWE-agent trajectory .*: give swe-agent"):
        guess(write(plain), "ag2-logs")
    assert guess(write({**plain, "trajectory": [], "history": plain["history"]})).kind == "swe-agent"
