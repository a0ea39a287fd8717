"""Real rollouts of Codex give what an independent reader finds in their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import import_file
from chatsnapshot.importers.files import import_job, jobs
from chatsnapshot.projections.render import render_text

REAL = ("codex_session.jsonl", "codex_parent_with_spawns.jsonl", "codex_subagent_matched.jsonl")
SAMPLE = "019b04ae-b1c6-7c72-a134-a4c2de66058c"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def payloads(path: Path, kind: str, *types: str) -> list[dict[str, Any]]:
    return [
        one["payload"] for one in read(path) if one["type"] == kind and one["payload"].get("type") in types
    ]


@pytest.mark.parametrize("name", REAL)
def test_what_was_said_is_told_once_though_it_is_written_twice(
    ledger: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "codex" / name
    import_file(ledger, path, redact=None)
    expected: list[tuple[str, str]] = []
    for line in read(path):
        item = line["payload"]
        kind = item.get("type")
        if kind == "message":
            expected.append((item["role"], "".join(part["text"] for part in item["content"])))
        elif kind in ("user_message", "agent_message"):
            expected.append((kind.partition("_")[0].replace("agent", "assistant"), item["message"]))
        elif kind == "agent_reasoning":
            expected.append(("assistant", item["text"]))
    messages = list(ledger.read(event_type="execution.message"))
    found = [
        (one.payload["role"], "".join(part["content"] for part in one.payload["parts"])) for one in messages
    ]
    assert len(found) == len(set(found))
    assert set(found) == set(expected)
    said_by_people = {item["message"] for item in payloads(path, "event_msg", "user_message")}
    assert {
        one.payload["parts"][0]["content"] for one in messages if one.event.source.origin == "ui"
    } == said_by_people


def test_tools_have_their_arguments_results_and_times(ledger: Any, shared_data: Path) -> None:
    path = shared_data / "codex" / "codex_session.jsonl"
    import_file(ledger, path, redact=None)
    called = payloads(path, "response_item", "function_call", "custom_tool_call")
    answered = payloads(path, "response_item", "function_call_output", "custom_tool_call_output")
    calls = list(ledger.read(event_type="execution.tool_call"))
    results = list(ledger.read(event_type="execution.tool_result"))
    assert [(one.payload["call_id"], one.payload["name"]) for one in calls] == [
        (one["call_id"], one["name"]) for one in called
    ]
    for entry, item in zip(calls, called, strict=True):
        given = json.loads(item["arguments"]) if "arguments" in item else {"input": item["input"]}
        assert entry.payload["arguments"] == given
    by_id = {one.payload["call_id"]: one.event_id for one in calls}
    for entry, item in zip(results, answered, strict=True):
        assert entry.causation_id == by_id[item["call_id"]]
        text = item["output"]
        assert entry.payload["result"] == (json.loads(text) if text.startswith("{") else text)
        assert entry.payload.get("is_error", False) == ("Exit code: 1" in text)
    times = [line["timestamp"] for line in read(path) if line["payload"] in called]
    assert [one.event.timestamp[:23] + "Z" for one in calls] == times
    run = ledger.view("runs", SAMPLE).runs[0]
    assert (run.tool_calls, run.errors.tool, run.status) == (5, 2, "completed")


def test_tokens_add_up_to_the_last_total(ledger: Any, shared_data: Path) -> None:
    path = shared_data / "codex" / "codex_session.jsonl"
    import_file(ledger, path)
    totals = [
        one["info"]["total_token_usage"] for one in payloads(path, "event_msg", "token_count") if one["info"]
    ]
    usages = [one.payload["usage"] for one in ledger.read(event_type="execution.model_call")]
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cache_read": "cached_input_tokens",
        "reasoning": "reasoning_output_tokens",
        "total_tokens": "total_tokens",
    }
    sums = {theirs: sum(usage[ours] for usage in usages) for ours, theirs in names.items()}
    assert sums == totals[-1]
    assert {one.payload["model"] for one in ledger.read(event_type="execution.model_call")} == {
        "gpt-5.1-codex-max"
    }


@pytest.mark.parametrize("name", REAL)
def test_the_same_rollout_again_adds_nothing_and_every_payload_fits(
    ledger: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "codex" / name
    first = import_file(ledger, path)
    again = import_file(ledger, path, "codex")
    assert (again.stored, again.known, again.problems) == (0, first.stored, ())
    assert ledger.verify(schemas=True).misfits.count == 0
    (correlation,) = first.correlations
    graph = ledger.view("graph", correlation)
    assert (len(graph.roots), graph.dangling, graph.cycles) == (1, (), ())
    assert render_text(ledger.view("transcript", correlation))
    assert len(ledger.view("timeline", correlation).items) == first.stored


def test_a_review_hangs_under_the_review_that_was_begun_at_its_time(ledger: Any, shared_data: Path) -> None:
    folder = shared_data / "codex"
    (job,) = jobs([folder / "codex_subagent_matched.jsonl", folder / "codex_parent_with_spawns.jsonl"])
    report = import_job(ledger, job)
    assert report.correlations == ("parent-spawn-001", "subagent-matched-001")
    first = next(iter(ledger.read(correlation_id="subagent-matched-001")))
    cause = ledger.get(first.causation_id)
    assert (cause.payload["name"], cause.event.timestamp) == (
        "entered_review_mode",
        "2025-01-01T00:00:00.200000Z",
    )
    (run,) = ledger.view("runs", "parent-spawn-001").runs
    assert [(child.run_id, child.status) for child in run.children] == [("subagent-matched-001", "completed")]


def test_a_folder_stands_for_its_rollouts(ledger: Any, shared_data: Path) -> None:
    reports = [import_job(ledger, job) for job in jobs([shared_data / "codex"], "codex")]
    assert {name for report in reports for name in report.correlations} == {
        SAMPLE,
        "parent-spawn-001",
        "subagent-matched-001",
    }
