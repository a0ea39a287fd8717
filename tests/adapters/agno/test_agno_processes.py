"""A run that waits in one process goes on in another: Agno's own storage, and the ledger's knowledge of the question."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import chatsnapshot

PROGRAM = """
import os, sys
import chatsnapshot
from agno.agent import Agent
from agno.db.json import JsonDb
from agno.tools import tool
from chatsnapshot.adapters.agno import AgnoRecorder
from chatsnapshot.testing.runtimes.agno import scripted

@tool(requires_confirmation=True)
def book(city: str) -> str:
    "Book a night."
    return f"booked {city}"

asked, given = sys.argv[1] == "ask", [("book", {"city": "Bruges"})] if sys.argv[1] == "ask" else "approved"
ledger = chatsnapshot.open("runs.db")
agent = Agent(id="desk", name="desk", model=scripted(given), tools=[book], db=JsonDb("agno"), telemetry=False)
AgnoRecorder(ledger).attach(agent)
if asked:
    agent.run("Book it", session_id="case-7", run_id="run-7")
    os._exit(9)
waiting = agent.get_run_output("run-7", session_id="case-7").requirements
waiting[0].confirm()
print(agent.continue_run(run_id="run-7", session_id="case-7", requirements=waiting).content)
"""


def test_a_run_goes_on_in_another_process(tmp_path: Path) -> None:
    def run(what: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROGRAM, what]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)

    killed, done = run("ask"), run("answer")
    assert (killed.returncode, done.returncode, done.stdout) == (9, 0, "approved\n"), (
        killed.stderr + done.stderr
    )
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        entries = {one.event_id: one for one in ledger.read(correlation_id="case-7")}
        kinds = [one.event_type.partition(".")[2] for one in entries.values()]
        at = kinds.index("run_resumed")
        assert kinds[at - 3 : at + 2] == [
            *("human_input_requested", "run_paused", "human_input_received", "run_resumed", "tool_result"),
        ]
        resumed = list(entries.values())[at]
        assert entries[str(resumed.causation_id)].event_type == "execution.human_input_received"
        assert len({one.payload["run_id"] for one in entries.values()}) == 1
        assert ledger.verify().ok
