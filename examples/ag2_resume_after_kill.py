"""Kill an AG2 agent with SIGKILL in the middle of a run, and go on from the ledger alone.

Nothing was saved: the ledger holds what the recorder wrote while the run went on. Runs offline (the model follows a
script), on Linux and macOS:

    python examples/ag2_resume_after_kill.py
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder

FIRST = len(sys.argv) > 1
FOLDER = Path(sys.argv[1] if FIRST else tempfile.mkdtemp(prefix="resume-"))
LEDGER, EXECUTED = str(FOLDER / "runs.db"), FOLDER / "executed.txt"


async def book(trip: str) -> str:
    """Book a trip."""
    with EXECUTED.open("a") as file:
        file.write("book\n")
    return f"{trip} is booked"


async def pay(trip: str) -> str:
    """Pay for a trip."""
    with EXECUTED.open("a") as file:
        file.write("pay\n")
    if FIRST:
        print("paying", flush=True)
        await asyncio.Event().wait()  # the process is killed here: before the result
    return f"{trip} is paid"


def agent(recorder: AG2Recorder, *script: object) -> Agent:
    """The agent; the same in both processes but for what is left of the model's script."""
    return Agent("desk", config=TestConfig(*script), tools=[book, pay], middleware=[recorder.middleware])


async def first_process() -> None:
    """Ask the agent; never comes to its end."""
    recorder = AG2Recorder(chatsnapshot.open(LEDGER), correlation_id="case-7")
    trip = '{"trip": "Bergen"}'
    script = [ToolCallEvent("book", arguments=trip), ToolCallEvent("pay", arguments=trip)]
    await agent(recorder, *script).ask("Bergen, please.")


async def second_process() -> None:
    """Go on from the ledger, and show what came of it."""
    with chatsnapshot.open(LEDGER) as ledger:
        print("killed at position", ledger.head)
        recorder = AG2Recorder(ledger)
        resumed = await recorder.aresume("case-7", agent(recorder, "Bergen is booked and paid."))
        print("without a result:", [call.name for call in resumed.open_calls])
        await resumed.go_on()

        print("executed:", dict(Counter(EXECUTED.read_text().split())))
        for item in ledger.view("transcript", "case-7").items:
            told = [getattr(item, name, None) for name in ("event", "name", "status", "text")]
            print(item.position, type(item).__name__.lower(), *(word for word in told if word))
        (run,) = ledger.view("runs", "case-7").runs
        print("run", run.run_id, run.status, [execution.status for execution in run.executions])
        print("verified:", ledger.verify().ok)


if FIRST:
    asyncio.run(first_process())
else:
    command = [sys.executable, __file__, str(FOLDER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "paying\n"
        os.kill(process.pid, signal.SIGKILL)
    asyncio.run(second_process())
