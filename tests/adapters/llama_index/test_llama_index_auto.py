"""Auto mode records a workflow in a program that knows nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot

PROGRAM = """
import asyncio
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent

class Desk(Workflow):
    @step
    async def greet(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result="Good morning!")

async def main():
    print(await Desk().run())

asyncio.run(main())
"""


def test_a_program_that_knows_nothing_of_it_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("workflows", reason="llama-index-workflows is not installed")
    (tmp_path / "program.py").write_text(PROGRAM)
    inner = [sys.executable, "program.py"]
    command = [sys.executable, "-m", "chatsnapshot", "run", "--ledger", "runs.db", "--", *inner]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Good morning!"), done.stderr
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        process, workflow = ledger.read(event_type="execution.run_started")
        assert (workflow.payload["name"], workflow.causation_id) == ("Desk", process.event_id)
        assert [one.payload["name"] for one in ledger.read(event_type="system.task_started")] == ["greet"]
        assert len(list(ledger.read(event_type="execution.run_completed"))) == 2
