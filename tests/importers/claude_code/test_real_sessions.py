"""Real sessions of Claude Code give what an independent reader finds in their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.clock import parse_time
from chatsnapshot.importers import import_file
from chatsnapshot.importers.files import import_job, jobs
from chatsnapshot.projections.render import render_text

REAL = ("claude_session.jsonl", "claude_agent.jsonl", "representative_messages.jsonl", "edge_cases.jsonl")
SAMPLE = "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9"


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file that say something, each id once as it stands there first."""
    found: dict[str, dict[str, Any]] = {}
    for raw in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(raw)
        if isinstance(line, dict) and line.get("type") in ("user", "assistant"):
            found.setdefault(line["uuid"] + repr(line["message"]), line)
    return list(found.values())


def blocks(line: dict[str, Any]) -> list[dict[str, Any]]:
    message = line["message"]
    content = message.get("content", []) if isinstance(message, dict) else message
    plain = [content] if isinstance(content, str) else content
    return [{"type": "text", "text": one} if isinstance(one, str) else one for one in plain]


def by_uuid(entries: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in entries:
        if "uuid" in entry.payload.get("native", {}):
            found.setdefault(entry.payload["native"]["uuid"], []).append(entry)
    return found


@pytest.mark.parametrize("name", REAL)
def test_every_block_is_told_once_with_its_role_its_time_and_its_words(
    ledger: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "claude-code" / name
    import_file(ledger, path, redact=None)
    entries = list(ledger.read())
    said: list[tuple[str, str]] = []
    called: list[tuple[Any, ...]] = []
    answered: list[tuple[Any, ...]] = []
    for line in lines(path):
        kinds = {"text": "text", "thinking": "thinking"}
        words = [block[kinds[block["type"]]] for block in blocks(line) if block["type"] in kinds]
        if words:
            said.append((line["type"], "|".join(words)))
        for block in blocks(line):
            if block["type"] == "tool_use":
                called.append((block["id"], block["name"], block["input"]))
            elif block["type"] == "tool_result":
                answered.append((block["tool_use_id"], block["content"], bool(block.get("is_error"))))
    of = {
        kind: [one for one in entries if one.event_type == f"execution.{kind}"]
        for kind in ("message", "tool_call")
    }
    results = [one for one in entries if one.event_type == "execution.tool_result"]
    words_of = [
        (
            one.payload["role"],
            "|".join(part["content"] for part in one.payload["parts"] if part["type"] != "tool_call"),
        )
        for one in of["message"]
    ]
    assert sorted(words_of) == sorted(said)
    assert [
        (one.payload["call_id"], one.payload["name"], one.value()["arguments"]) for one in of["tool_call"]
    ] == called
    found = [(one.payload["call_id"], one.payload["result"], "is_error" in one.payload) for one in results]
    assert found == answered
    times = {line["uuid"]: line.get("timestamp") for line in reversed(lines(path))}
    for uuid, told in by_uuid(entries).items():
        for entry in told:
            moment = times.get(uuid)
            if moment is not None and len(told) == 1:
                assert parse_time(entry.event.timestamp) == parse_time(moment)


@pytest.mark.parametrize("name", REAL)
def test_tokens_are_those_of_the_last_line_of_each_answer(ledger: Any, shared_data: Path, name: str) -> None:
    path = shared_data / "claude-code" / name
    last: dict[str, dict[str, int]] = {}
    for raw in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(raw)
        if isinstance(line, dict) and line.get("type") == "assistant":
            last[line["message"]["id"]] = line["message"]["usage"]
    import_file(ledger, path)
    usages = [one.payload["usage"] for one in ledger.read(event_type="execution.model_call")]
    assert len(usages) == len(last)
    for ours, theirs in (
        ("input_tokens", "input_tokens"),
        ("output_tokens", "output_tokens"),
        ("cache_read", "cache_read_input_tokens"),
        ("cache_write", "cache_creation_input_tokens"),
    ):
        assert sum(one.get(ours, 0) for one in usages) == sum(one.get(theirs, 0) for one in last.values())


@pytest.mark.parametrize("name", REAL)
def test_every_event_follows_from_what_its_line_follows_from(
    ledger: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "claude-code" / name
    import_file(ledger, path)
    entries = {entry.event_id: entry for entry in ledger.read()}
    parents = {line["uuid"]: line.get("parentUuid") for line in lines(path)}
    calls = {
        entry.payload["call_id"]: entry.event_id
        for entry in entries.values()
        if entry.event_type == "execution.tool_call"
    }
    checked = 0
    for entry in entries.values():
        native = entry.payload.get("native", {})
        if entry.event_type == "execution.tool_result":
            assert entry.causation_id == calls[entry.payload["call_id"]]
            checked += 1
        elif parents.get(native.get("uuid")) in parents:
            cause = entries[entry.causation_id]
            while cause.event_type in ("execution.run_resumed", "execution.run_started"):
                cause = entries[cause.causation_id]
            assert cause.payload["native"]["uuid"] in (parents[native["uuid"]], native["uuid"])
            checked += 1
    assert checked or name == "edge_cases.jsonl"
    assert [entry for entry in entries.values() if entry.causation_id is None] == [
        entry for entry in entries.values() if entry.event_type == "execution.run_started"
    ]


@pytest.mark.parametrize("name", REAL)
def test_the_same_file_again_adds_nothing_and_every_payload_fits(
    ledger: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "claude-code" / name
    first = import_file(ledger, path)
    again = import_file(ledger, path, "claude-code")
    assert (again.stored, again.known, again.problems) == (0, first.stored, first.problems)
    assert ledger.verify(schemas=True).misfits.count == 0


def test_the_views_tell_the_session_as_it_went(ledger: Any, shared_data: Path) -> None:
    import_file(ledger, shared_data / "claude-code" / "claude_session.jsonl")
    (run,) = ledger.view("runs", SAMPLE).runs
    assert (run.status, run.tool_calls, run.model_calls, run.errors.tool) == ("completed", 4, 6, 1)
    assert [one.status for one in run.executions] == ["completed", "completed"]
    assert (run.name, run.agents) == (
        "add myapp directory and create myapp/hoge.py which shows result of print(1+1).",
        ("claude-code",),
    )
    graph = ledger.view("graph", SAMPLE)
    assert (len(graph.roots), graph.dangling, graph.cycles) == (1, (), ())
    shown = render_text(ledger.view("transcript", SAMPLE))
    assert "failed: error: target shim binary not found" in shown
    took = {
        item.duration_ns
        for item in ledger.view("timeline", SAMPLE).items
        if item.event_type.endswith("tool_result")
    }
    assert took == {4_192_000_000, 2_983_000_000, 4_584_000_000, 2_658_000_000}


def test_a_session_given_with_its_agent_has_that_as_a_child(ledger: Any, shared_data: Path) -> None:
    folder = shared_data / "claude-code"
    paths = [folder / "claude_agent.jsonl", folder / "claude_session.jsonl"]
    (job,) = jobs(paths, "claude-code")
    report = import_job(ledger, job)
    assert report.correlations == (SAMPLE, f"{SAMPLE}.agent-0c4c3cf8")
    (run,) = ledger.view("runs", SAMPLE).runs
    assert [child.run_id for child in run.children] == [f"{SAMPLE}.agent-0c4c3cf8"]


def test_what_is_no_object_is_told_by_its_byte_and_the_rest_is_taken(ledger: Any, shared_data: Path) -> None:
    path = shared_data / "claude-code" / "edge_cases.jsonl"
    report = import_file(ledger, path)
    data = path.read_bytes()
    broken = [data[problem.offset :].splitlines()[0] for problem in report.problems]
    assert broken == [b'"massive error"', b"42", b"[1]"]
    assert report.correlations == ("edge_cases", "todowrite_session")
    kept = [one.payload.get("value") for one in ledger.read(event_type="execution.state_change")]
    assert {"silly": "this"} in kept
