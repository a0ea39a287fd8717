"""An interrupted run of ADK is resumed in a new process, from a ledger alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import chatsnapshot
from chatsnapshot.envelope import LedgerEntry

DESK = Path(__file__).with_name("desk.py")


def step(ledger: Path, *arguments: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-W", "ignore", str(DESK), str(ledger), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout.splitlines()


def story(path: Path) -> list[LedgerEntry]:
    with chatsnapshot.open(path, create=False) as ledger:
        assert ledger.verify().ok
        return list(ledger.read(correlation_id="case-7"))


def only(entries: list[LedgerEntry], kind: str) -> LedgerEntry:
    (found,) = [entry for entry in entries if entry.event_type == f"execution.{kind}"]
    return found


def test_a_run_that_waits_for_a_person_goes_on_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    assert step(path, "ask")[0] == 0
    assert [entry.event_type for entry in story(path)][-1] == "execution.run_paused"
    code, said = step(path, "approve")
    assert (code, said[-1]) == (0, "booked")

    entries = story(path)
    question, answer = only(entries, "human_input_requested"), only(entries, "human_input_received")
    resumed, result = only(entries, "run_resumed"), only(entries, "tool_result")
    assert answer.causation_id == question.event_id
    assert resumed.causation_id == answer.event_id
    assert result.causation_id == question.causation_id == only(entries, "tool_call").event_id
    assert result.payload["run_id"] == resumed.payload["run_id"] == question.payload["run_id"]
    assert only(entries, "run_completed").payload["output"] == "booked"


def test_a_run_that_was_killed_in_a_tool_goes_on_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    assert step(path, "ask", "free", "die")[0] == -signal.SIGKILL
    assert [entry.event_type for entry in story(path)][-1] == "execution.tool_call"
    code, said = step(path, "go-on", "free")
    assert (code, said) == (0, ["{'booked': 'Bruges'}", "booked"])

    entries = story(path)
    call = only(entries, "tool_call")
    assert only(entries, "tool_result").causation_id == call.event_id
    assert only(entries, "run_resumed").causation_id == call.event_id
    assert only(entries, "run_completed").payload["output"] == "booked"


def test_sessions_need_the_extra_where_adk_is_not_installed() -> None:
    code = (
        "import sys; sys.modules['google.adk'] = None\n"
        "from chatsnapshot.adapters.google_adk import GoogleADKRecorder\n"
        "assert 'google.genai' not in sys.modules\n"
        "from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert (
        "MissingExtra: recording Google ADK needs an extra: pip install 'chatsnapshot[google-adk]'"
        in done.stderr
    )


PROGRAM = """
import asyncio
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

class Model(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Good morning!")]))

async def main():
    runner = InMemoryRunner(agent=LlmAgent(name="desk", model=Model(model="m")), app_name="shop")
    session = await runner.session_service.create_session(app_name="shop", user_id="ann")
    said = types.Content(role="user", parts=[types.Part(text="Hello")])
    async for event in runner.run_async(user_id="ann", session_id=session.id, new_message=said):
        print(event.content.parts[0].text)

asyncio.run(main())
"""


def test_a_program_that_knows_nothing_of_it_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "chatsnapshot",
        "run",
        "--ledger",
        "runs.db",
        "--",
        sys.executable,
        "program.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "Good morning!\n"), done.stderr
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        process, agent = ledger.read(event_type="execution.run_started")
        assert (agent.payload["name"], agent.causation_id) == ("desk", process.event_id)
        assert len(list(ledger.read(event_type="execution.run_completed"))) == 2
