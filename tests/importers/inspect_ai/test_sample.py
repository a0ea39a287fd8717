"""A sample's transcript tells times, causes, agents, models, tools and scores, and each message once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def of_type(entries: list[Any], name: str) -> list[Any]:
    return [entry for entry in entries if entry.event_type.rpartition(".")[2] == name]


def test_a_transcript_tells_times_causes_agents_and_each_message_once(
    take: Any, strict: Any, write: Callable[..., Path], sample: Any, packed: Any, header: Any
) -> None:
    report, entries = take(write(packed(header, [sample]), "log.eval"))
    assert report.problems == ()
    inside = [entry for entry in entries if entry.correlation_id == report.correlations[1]]
    assert [(one.event_type.rpartition(".")[2], one.payload.get("agent")) for one in inside] == [
        ("run_started", None),
        ("message", None),
        ("model_call", "alpha"),
        ("message", "alpha"),
        ("tool_call", "alpha"),
        ("tool_call", "alpha"),
        ("message", None),
        ("model_call", "beta"),
        ("message", "beta"),
        ("state_change", None),
        ("tool_result", "alpha"),
        ("tool_result", "alpha"),
        ("model_call", "alpha"),
        ("message", "alpha"),
        ("evaluation", None),
        ("evaluation", None),
        ("evaluation", None),
        ("run_completed", None),
    ]
    started, asked = inside[0], inside[3]
    assert started.payload["input"] == "What is 2+3?" == inside[1].payload["content"]
    first, second = of_type(inside, "tool_call")
    assert {first.causation_id, second.causation_id} == {asked.event_id}
    quick, slow = of_type(inside, "tool_result")
    assert (quick.causation_id, slow.causation_id) == (second.event_id, first.event_id)
    assert (quick.payload["duration_ns"], slow.payload["duration_ns"]) == (4_000_000_000, 5_000_000_000)
    assert slow.timestamp == "2026-01-02T02:04:08.000000Z"
    beta = inside[6]
    assert (beta.payload["content"], beta.causation_id) == ("Think", second.event_id)
    assert inside[9].causation_id != inside[8].event_id  # alpha did not wait for beta's last word
    # What came from a cache costs no tokens again.
    tokens = strict.view("metrics", report.correlations[1]).total.model.tokens
    assert (tokens.input, tokens.output) == (30, 4)
    assert [
        (one.payload["name"], one.payload.get("score"), one.payload.get("label"))
        for one in of_type(inside, "evaluation")
    ] == [
        ("match", None, "C"),
        ("style/short", 1, None),
        ("style/kind", 0.5, None),
    ]
    assert strict.view("graph", report.correlations[0]).dangling == ()


def test_a_pool_of_messages_is_looked_up(
    take: Any, write: Callable[..., Path], sample: Any, packed: Any, header: Any
) -> None:
    plain = copy.deepcopy(sample)
    pool: list[Any] = []
    for event in sample["events"]:
        if event["event"] == "model":
            event["input_refs"] = [[len(pool), len(pool) + len(event["input"])], [-1, "x"], 5]
            pool += event.pop("input")
    sample["events_data"] = {"messages": pool, "calls": []}
    first, _ = take(write(packed(header, [plain]), "plain.eval"))
    again, _ = take(write(packed(header, [sample]), "pooled.eval"))
    assert (again.stored, again.known) == (0, first.stored)


def test_errors_limits_approvals_and_inputs_of_a_sample_are_told(
    take: Any, strict: Any, write: Callable[..., Path], sample: Any, header: Any, steps: Any
) -> None:
    sample["error"] = {"message": "the lamp broke", "traceback": "…"}
    sample["events"] += [
        {
            "event": "sample_limit",
            "type": "token",
            "limit": 10,
            "message": "too many",
            "timestamp": steps.at(12),
        },
        {
            "event": "approval",
            "approver": "auto",
            "decision": "approve",
            "call": {"id": "c1"},
            "timestamp": steps.at(12),
        },
        {"event": "input", "input": "yes", "message": "Go on?", "timestamp": steps.at(12)},
        {"event": "error", "error": {"message": "the lamp broke"}, "timestamp": steps.at(12)},
        {"event": "of tomorrow", "lamp": 1, "timestamp": steps.at(12)},
        steps.model(12, [], None, error="rate limit"),
        steps.tool(13, "c3", 1, error={"type": "timeout", "message": "too slow"}, result=""),
        steps.tool(14, "c4", 1, pending=True),
    ]
    report, entries = take(write({**header, "samples": [sample]}))
    assert report.problems == ()
    kinds = {entry.event_type for entry in entries}
    assert {
        "system.limit_reached",
        "execution.guardrail",
        "execution.human_input_received",
        "system.error",
    } <= kinds
    (run,) = strict.view("runs", report.correlations[1]).runs
    assert (run.status, run.errors.tool, run.errors.model) == ("failed", 1, 1)
    assert of_type(entries, "tool_result")[-1].payload["error"] == "timeout: too slow"
    assert len(of_type(entries, "tool_call")) == 4


def test_steps_inside_of_a_tool_of_older_logs_are_in_their_place(
    take: Any, write: Callable[..., Path], sample: Any, header: Any
) -> None:
    inner = sample["events"].pop(6)
    sample["events"][4]["events"] = [inner]
    _, entries = take(write({**header, "samples": [sample]}))
    kinds = [entry.event_type.rpartition(".")[2] for entry in entries[1:]]
    assert kinds[4:9] == ["tool_call", "tool_call", "message", "model_call", "message"]


def test_hostile_samples_are_kept_as_data_and_what_is_none_is_named(
    take: Any, write: Callable[..., Path], sample: Any, header: Any
) -> None:
    sample |= {
        "id": ["x"],
        "epoch": None,
        "scores": {"match": 5, "\ud800": {"value": [1]}},
        "input": [5, {"role": "user"}],
    }
    sample["messages"] += [
        "no object",
        {"role": {}, "content": "\ud800"},
        {"role": "assistant", "content": [5, {"type": 7}]},
    ]
    sample["events"] += [
        17,
        {},
        {"event": "model"},
        {"event": "model", "output": {"choices": [5, {"message": 7}]}, "input": [None], "completed": 5},
        {
            "event": "tool",
            "id": 5,
            "function": [],
            "result": {"$type": "x"},
            "error": "boom",
            "timestamp": "never",
        },
        {"event": "span_begin", "id": "s9", "parent_id": "s9", "type": "agent", "name": ["x"]},
        {"event": "info", "span_id": "s9"},
        {"event": "score", "score": 5},
        {"event": "subtask", "events": [{"event": "subtask", "events": [3]}]},
        {"event": ["x"]},
        {"event": "error", "error": 5},
        {"event": "input", "input": ["x"]},
        {"event": "approval", "approver": {}},
        {"event": "sample_limit", "limit": [1], "type": [2], "message": None},
    ]
    report, _ = take(write(json.dumps({**header, "samples": [sample, "no sample"]}).encode()))
    told = sorted(one.reason.partition(" of ")[0] for one in report.problems)
    assert told == ["message 5", "sample 1 is no object", "step 10", "step 20"]


def test_messages_without_ids_of_older_logs_are_told_as_often_as_they_were_said(
    take: Any, write: Callable[..., Path], sample: Any, header: Any, steps: Any
) -> None:
    ask, yes = {"role": "user", "content": "Go on?"}, {"role": "assistant", "content": "yes"}
    sample |= {"messages": [ask, yes, ask, yes, ask], "attachments": {}, "input": "Go on?"}
    sample["events"] = [steps.model(1, [ask], yes), steps.model(3, [ask, yes, ask], yes)]
    _, entries = take(write({**header, "samples": [sample]}))
    messages = of_type(entries, "message")
    assert [one.payload["content"] for one in messages] == ["Go on?", "yes", "Go on?", "yes", "Go on?"]
    assert [one.timestamp[17:19] for one in messages] == ["01", "02", "03", "04", "04"]
