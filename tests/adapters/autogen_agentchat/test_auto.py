"""Auto mode with AutoGen AgentChat: a program that knows nothing of it, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot

pytest.importorskip("autogen_agentchat")

PROGRAM = """
import asyncio
import sys
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from chatsnapshot.testing.runtimes.autogen_agentchat import scripted

team = RoundRobinGroupChat([AssistantAgent("alpha", model_client=scripted(["Hi there"]))], max_turns=1)
print(asyncio.run(team.run(task="Hello")).messages[-1].content, "autogen" in sys.modules)
"""


def test_a_program_that_knows_nothing_of_it_is_recorded_as_a_child_of_its_process(tmp_path: Path) -> None:
    program, path = tmp_path / "app.py", tmp_path / "runs.db"
    program.write_text(PROGRAM)
    command = ["-m", "chatsnapshot", "run", "--ledger", str(path), "--", sys.executable, str(program)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "Hi there False\n"), done.stderr
    with chatsnapshot.open(path) as ledger:
        (started,) = (
            entry
            for entry in ledger.read(event_type="execution.run_started")
            if entry.source.runtime == "autogen_agentchat"
        )
        assert started.payload["parent_run_id"]
        kinds = [entry.event_type for entry in ledger.read(correlation_id=started.correlation_id)]
        assert kinds[-1] == "execution.run_completed"
