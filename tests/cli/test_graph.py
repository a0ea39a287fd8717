"""``chatsnapshot graph``: what led to what, readable at 80 columns, whatever agents said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.cli.width import columns


@pytest.fixture
def odd(path: Path) -> Path:
    """A run with everything that a graph has to tell."""
    with chatsnapshot.open(path) as ledger:

        def record(event_type: str, payload: Any, **options: Any) -> Any:
            return ledger.record(event_type, payload, correlation_id="run-1", **options)

        early, late = "0199c0de-0000-7000-8000-000000000001", "0199c0de-0000-7000-8000-000000000002"
        start = record("execution.run_started", {"name": "\x1b[31mtriage\x1b[2J " + "漢字" * 60})
        calls = [
            record("execution.tool_call", {"name": "f", "call_id": str(n)}, causation_id=start)
            for n in (1, 2)
        ]
        results = [record("execution.tool_result", {"call_id": str(n), "result": "ok"}) for n in (1, 2)]
        record(
            "execution.model_call", {}, causation_id=results[0], attributes={"links": [results[1].event_id]}
        )
        record("execution.message", {"content": "too early"}, causation_id=late, event_id=early)
        record("execution.message", {"content": "its cause"}, causation_id=start, event_id=late)
        record("execution.message", {"content": "lost"}, causation_id="0199c0de-0000-7000-8000-000000000009")
        record("system.task_scheduled", {"task_id": "a\x07b", "depends_on": ["c"]})
        ledger.record(
            "execution.run_started", {"name": "child"}, correlation_id="child-1", causation_id=calls[0]
        )
    return path


def test_the_tree_tells_joins_shared_ids_late_and_missing_causes_and_tasks(run: Any, odd: Path) -> None:
    result = run("graph", "run-1", "--ledger", str(odd), env={"COLUMNS": "80"})
    assert result.exit_code == 0
    for note in (
        "11 events, 9 edges, 1 link, 2 derived, 1 join",
        "joins 5 (link)",
        "after 2 by call_id",
        "recorded before what led to it (8)",
        "its cause 0199c0de-0000-7000-8000-000000000009 is not in the ledger",
        "in child-1",
        "c (unknown)",
    ):
        assert note in result.stdout
    assert max(columns(line) for line in result.stdout.splitlines()) <= 80
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout


def test_a_very_deep_tree_leaves_room_for_its_text(run: Any, path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        cause = None
        for number in range(60):
            call = ledger.record(
                "execution.tool_call", {"name": "ask"}, correlation_id=f"run-{number}", causation_id=cause
            )
            ledger.record(
                "execution.tool_result", {"name": "ask"}, correlation_id=f"run-{number}", causation_id=call
            )
            cause = call
    lines = run("graph", "run-0", "--ledger", str(path), env={"COLUMNS": "80"}).stdout.splitlines()
    assert max(columns(line) for line in lines) <= 80
    assert any("│ 59│ calls ask()" in line for line in lines)


def test_an_encoding_without_box_characters_gets_plain_ones(run: Any, odd: Path) -> None:
    shown = run("graph", "run-1", "--ledger", str(odd), charset="ascii").stdout
    assert "|-" in shown
    assert "\\u251c" not in shown


def test_json_is_the_view(run: Any, odd: Path) -> None:
    document = json.loads(run("graph", "run-1", "--json", "--ledger", str(odd)).stdout)
    assert len(document["nodes"]) == 11
    assert [edge["kind"] for edge in document["edges"]].count("derived") == 2
    early = json.loads(run("graph", "run-1", "--json", "--until", "3", "--ledger", str(odd)).stdout)
    assert early["last_position"] == 3


@pytest.mark.parametrize(("form", "first"), [("mermaid", "flowchart TD"), ("dot", 'digraph "run-1" {')])
def test_diagrams_are_written_as_they_are(run: Any, odd: Path, form: str, first: str) -> None:
    shown = run("graph", "run-1", "--format", form, "--ledger", str(odd)).stdout
    assert shown.splitlines()[0] == first
    assert "\x1b" not in shown


def test_child_runs_may_be_left_out(run: Any, odd: Path) -> None:
    assert "child-1" not in run("graph", "run-1", "--no-children", "--ledger", str(odd)).stdout
