"""Auto mode records a crew in a program that knows nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot

PROGRAM = """
from crewai import Agent, BaseLLM, Crew, Task

class Model(BaseLLM):
    def call(self, *args, **options):
        return "Thought: I know\\nFinal Answer: Good morning!"

    def supports_function_calling(self):
        return False

desk = Agent(role="desk", goal="help", backstory="years of lamps", llm=Model(model="m"))
task = Task(description="Greet the customer", expected_output="a greeting", agent=desk)
print(Crew(agents=[desk], tasks=[task]).kickoff().raw)
"""


def test_a_program_that_knows_nothing_of_it_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("crewai", reason="crewai is not installed")
    (tmp_path / "program.py").write_text(PROGRAM)
    inner = [sys.executable, "-W", "ignore", "program.py"]
    command = [sys.executable, "-m", "chatsnapshot", "run", "--ledger", "runs.db", "--", *inner]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Good morning!"), done.stderr
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        process, crew = ledger.read(event_type="execution.run_started")
        assert (crew.payload["name"], crew.causation_id) == ("crew", process.event_id)
        assert len(list(ledger.read(event_type="execution.run_completed"))) == 2
