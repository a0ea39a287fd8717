"""A run that waits for approval when its process is killed, and goes on in another one from ledger and state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

import chatsnapshot

PROGRAM = str(Path(__file__).with_name("booking.py"))


@pytest.mark.parametrize("name", ["runs.db", pytest.param("runs.jsonl", marks=pytest.mark.faults)])
def test_a_run_goes_on_in_a_new_process_after_a_kill_with_what_its_session_remembers(
    tmp_path: Path, name: str
) -> None:
    ledger, state = str(tmp_path / name), str(tmp_path / "state.json")
    first = subprocess.Popen(
        [sys.executable, PROGRAM, "ask", ledger, state], stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "asked\n"
    finally:
        first.kill()
        first.communicate()
    second = subprocess.run(
        [sys.executable, PROGRAM, "go", ledger, state],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 0, second.stderr
    assert second.stdout.splitlines() == [
        "Booked.",
        "['user', 'function_call', 'function_call_output', 'assistant', 'user']",
    ]
    with chatsnapshot.open(ledger, read_only=True) as snapshot:
        assert snapshot.verify().ok
        entries = {entry.event_id: entry for entry in snapshot.read(correlation_id="trip")}
        kinds = [entry.event_type.partition(".")[2] for entry in entries.values()]
        assert kinds == [
            "run_started",
            "message",
            "model_call",
            "message",
            "human_input_requested",
            "run_paused",
            "human_input_received",
            "run_resumed",
            "tool_call",
            "tool_result",
            "model_call",
            "message",
            "run_completed",
            "run_started",
            "message",
            "model_call",
            "message",
            "run_completed",
        ]
        resumed = next(one for one in entries.values() if one.event_type == "execution.run_resumed")
        answer = entries[resumed.causation_id or ""]
        assert answer.event_type == "execution.human_input_received"
        assert entries[answer.causation_id or ""].event_type == "execution.human_input_requested"
