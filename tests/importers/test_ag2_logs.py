"""A group-chat log becomes a run: agents, order, handoffs, executions, the marked step."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import Piece, import_file
from chatsnapshot.importers.ag2_logs import AG2Logs
from chatsnapshot.projections.render import render_text
from chatsnapshot.projections.shapes import Message

FILES = ("algorithm-generated_80.json", "hand-crafted_37.json")


def imported(ledger: Any, path: Path, **options: Any) -> tuple[Any, list[Any]]:
    report = import_file(ledger, path, **options)
    (correlation,) = report.correlations
    return report, list(ledger.replay(correlation))


def of_type(entries: list[Any], name: str) -> list[Any]:
    return [entry for entry in entries if entry.event_type == f"execution.{name}"]


@pytest.mark.parametrize("name", FILES)
def test_a_real_log_gives_what_an_independent_reader_finds_in_it(
    ledger: Any, shared_data: Path, name: str
) -> None:
    path = shared_data / "ag2" / name
    log = json.loads(path.read_text(encoding="utf-8"))
    report, entries = imported(ledger, path, redact=None)
    assert (report.stored, report.known, report.problems) == (len(entries), 0, ())
    speakers = [step.get("name") or step["role"].partition(" (")[0] for step in log["history"]]
    messages = of_type(entries, "message")
    assert [entry.payload["name"] for entry in messages] == speakers
    texts = [entry.payload.get("reasoning") or entry.payload["content"] for entry in messages]
    assert texts == [step["content"] for step in log["history"]]
    changes = [pair for pair in pairwise(speakers) if pair[0] != pair[1] and "human" not in pair]
    given = [(entry.payload["from"], entry.payload["to"]) for entry in of_type(entries, "handoff")]
    assert given == changes
    executed = [step["content"] for step in log["history"] if step["content"].startswith("exitcode: ")]
    codes = [int(re.findall(r"-?\d+", text)[0]) for text in executed]
    assert [entry.payload["result"]["exit_code"] for entry in of_type(entries, "tool_result")] == codes
    right, mistake = of_type(entries, "evaluation")
    assert right.payload["label"] == "false"
    assert mistake.payload["target_event_id"] == messages[int(log["mistake_step"])].event_id
    assert mistake.payload["comment"] == log["mistake_reason"]
    assert mistake.payload["native"]["mistake_agent"] == speakers[int(log["mistake_step"])]
    (run,) = ledger.view("runs", report.correlations[0]).runs
    assert (run.status, run.messages, set(run.agents)) == (
        "completed",
        len(speakers),
        {*speakers} - {"human"},
    )
    started = of_type(entries, "run_started")[0].payload
    assert (started["input"], started["native"]["ground_truth"]) == (log["question"], log["ground_truth"])
    assert [one.name for one in run.evaluations] == ["is_correct", "mistake"]
    assert ledger.verify(schemas=True).misfits.count == 0


@pytest.mark.parametrize("name", FILES)
def test_a_real_log_gives_a_transcript_and_a_graph(ledger: Any, shared_data: Path, name: str) -> None:
    report, entries = imported(ledger, shared_data / "ag2" / name)
    said = [
        item for item in ledger.view("transcript", report.correlations[0]).items if isinstance(item, Message)
    ]
    assert len(said) == len(of_type(entries, "message"))
    assert render_text(ledger.view("transcript", report.correlations[0]))
    graph = ledger.view("graph", report.correlations[0])
    assert (len(graph.nodes), graph.dangling, graph.cycles) == (len(entries), (), ())
    assert graph.roots == (entries[0].position,)


def test_a_named_log_is_a_run_in_the_order_of_its_steps(ledger: Any, write: Any, named: Any) -> None:
    _, entries = imported(ledger, write(named))
    assert [entry.event_type.partition(".")[2] for entry in entries] == [
        "run_started",
        "message",
        "handoff",
        "tool_call",
        "tool_result",
        "message",
        "handoff",
        "message",
        "message",
        "run_completed",
        "evaluation",
        "evaluation",
    ]
    causes = [entry.causation_id for entry in entries[:10]]
    assert causes == [None, *(entry.event_id for entry in entries[:9])]
    call, result = of_type(entries, "tool_call")[0].payload, of_type(entries, "tool_result")[0].payload
    assert call["arguments"] == {"blocks": [{"language": "python", "code": "print(11)"}]}
    assert (call["call_id"], result["result"]) == (result["call_id"], {"exit_code": 0})


def test_a_failed_execution_is_a_tool_error(ledger: Any, write: Any, named: Any) -> None:
    named["history"][1]["content"] = "exitcode: 1 (execution failed)\nCode output: no"
    report, _ = imported(ledger, write(named))
    (run,) = ledger.view("runs", report.correlations[0]).runs
    assert run.errors.tool == 1


def test_an_execution_without_code_before_it_has_no_call(ledger: Any, write: Any, named: Any) -> None:
    named["history"][0]["content"] = "Count them."
    _, entries = imported(ledger, write(named))
    assert not of_type(entries, "tool_call")
    assert len(of_type(entries, "tool_result")) == 1


def test_code_that_somebody_only_talks_about_is_no_execution(ledger: Any, write: Any, named: Any) -> None:
    named["history"][1]["content"] = "I would get exitcode: 0 (execution succeeded)\nCode output: 11"
    _, entries = imported(ledger, write(named))
    assert not of_type(entries, "tool_call")
    assert not of_type(entries, "tool_result")


def test_a_log_without_names_has_its_speakers_in_the_roles(ledger: Any, write: Any, unnamed: Any) -> None:
    report, entries = imported(ledger, write(unnamed))
    messages = [entry.payload for entry in of_type(entries, "message")]
    assert [(one["role"], one["name"], one.get("recipient")) for one in messages] == [
        ("user", "human", None),
        ("assistant", "Orchestrator", None),
        ("assistant", "Orchestrator", "WebSurfer"),
        ("assistant", "Orchestrator", None),
        ("assistant", "WebSurfer", None),
        ("assistant", "Orchestrator", None),
    ]
    assert messages[-1]["native"]["role"] == "Orchestrator (termination condition)"
    assert [one.get("reasoning") for one in messages][1] == "Ask the store."
    (run,) = ledger.view("runs", report.correlations[0]).runs
    assert (run.agents, run.participants[0]) == (("Orchestrator", "WebSurfer"), "human")


def test_other_marks_are_other_judgements_of_the_same_run(ledger: Any, write: Any, named: Any) -> None:
    first = import_file(ledger, write(named))
    named["mistake_step"], named["mistake_reason"] = 2, "It believed the terminal."
    again = import_file(ledger, write(named, "mended.json"))
    assert (again.correlations, again.stored) == (first.correlations, 1)


@pytest.mark.parametrize("step", ["99", "first", -1, 1.5, True])
def test_a_mark_on_a_step_that_is_not_there_marks_the_run(
    ledger: Any, write: Any, named: Any, step: Any
) -> None:
    report, entries = imported(ledger, write({**named, "mistake_step": step}))
    assert "there is no such step" in report.problems[0].reason
    assert of_type(entries, "evaluation")[-1].payload["run_id"] == report.correlations[0]


def test_a_log_without_marks_has_no_judgement(ledger: Any, write: Any, named: Any) -> None:
    bare = {"history": named["history"]}
    report, entries = imported(ledger, write(bare))
    assert report.whole
    assert not of_type(entries, "evaluation")


def test_a_name_without_a_role_is_an_assistant(ledger: Any, write: Any, named: Any) -> None:
    named["history"] = [{"content": step["content"], "name": step["name"]} for step in named["history"]]
    _, entries = imported(ledger, write(named))
    assert {entry.payload["role"] for entry in of_type(entries, "message")} == {"assistant"}


def test_no_time_is_made_up(ledger: Any, write: Any, named: Any) -> None:
    report, entries = imported(ledger, write(named))
    assert {entry.payload["native"]["time"] for entry in entries} == {"unknown"}
    pieces = AG2Logs().read(write(named).read_bytes())
    assert not any("timestamp" in piece.event for piece in pieces if isinstance(piece, Piece))
    (correlation,) = report.correlations
    (run,) = ledger.view("runs", correlation).runs
    assert (run.started_at, run.ended_at, run.duration_ns, run.first_at, run.partial) == (None,) * 4 + (
        False,
    )
    timeline = ledger.view("timeline", correlation)
    assert {(item.at, item.offset_ns, item.duration_ns) for item in timeline.items} == {(None, None, None)}
    assert {node.at for node in ledger.view("graph", correlation).nodes} == {None}
    assert {item.at for item in ledger.view("transcript", correlation).items} == {None}


def test_hostile_values_are_kept_as_data(ledger: Any, write: Any) -> None:
    hostile: list[Any] = [
        {"content": None, "role": "assistant", "name": "\x1b[2J" * 200},
        {"content": [{"type": "text", "text": "a"}], "role": 7, "name": {"$type": "decimal"}},
        {"content": {"$blob": "sha256:00"}, "role": "a" * 500, "name": ""},
        {"content": "\ud800", "role": None, "name": "\ud800"},
        "no object",
    ]
    data = json.dumps({"history": hostile, "mistake_step": "0", "question_ID": "\ud800"}).encode()
    path = write(data)
    report, entries = imported(ledger, path)
    assert [problem.reason for problem in report.problems] == ["step 4 is no object"]
    assert data[report.problems[0].offset :].startswith(b'"no object"')
    assert len(of_type(entries, "message")) == 4
    assert of_type(entries, "message")[2].payload["content"] == {"$$blob": "sha256:00"}
    assert import_file(ledger, path, "ag2-logs").stored == 0
