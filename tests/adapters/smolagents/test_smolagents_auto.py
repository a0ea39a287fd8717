"""Auto mode records an agent in a program that knows nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import chatsnapshot

PROGRAM = """
from smolagents import ChatMessage, CodeAgent, LogLevel, MessageRole, Model

class Scripted(Model):
    def generate(self, messages, **options):
        return ChatMessage(MessageRole.ASSISTANT, "<code>final_answer('Good morning!')</code>")

desk = CodeAgent(tools=[], model=Scripted(), name="desk", verbosity_level=LogLevel.OFF)
print(desk.run("Greet the customer"))
"""


def test_a_program_that_knows_nothing_of_it_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    inner = [sys.executable, "-W", "ignore", "program.py"]
    command = [sys.executable, "-m", "chatsnapshot", "run", "--ledger", "runs.db", "--", *inner]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Good morning!"), done.stderr
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        process, desk = ledger.read(event_type="execution.run_started")
        assert (desk.payload["name"], desk.causation_id) == ("desk", process.event_id)
        assert len(list(ledger.read(event_type="execution.run_completed"))) == 2
