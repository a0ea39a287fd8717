"""A program for the tests with processes: books a night, waits for approval, and goes on in another process.

``python booking.py ask LEDGER STATE`` runs until approval is needed, writes the state and waits to be killed;
``python booking.py go LEDGER STATE`` approves and goes on.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from agents import Agent, RunState, function_tool, set_trace_processors
from agents.testing import ScriptedModel, assistant_message, function_call

import chatsnapshot
from chatsnapshot.adapters.openai_agents import ChatSnapshotSession, OpenAIAgentsRecorder


@function_tool(needs_approval=True)
def book(city: str) -> str:
    """Book a night."""
    return f"booked {city}"


async def ask(recorder: OpenAIAgentsRecorder, session: ChatSnapshotSession, state: Path) -> None:
    """Run until a person is asked."""
    call = function_call("book", {"city": "Bruges"}, call_id="c1")
    agent = Agent(name="alpha", tools=[book], model=ScriptedModel([[call]]))
    result = await recorder.run(agent, "Book a night", session=session)
    state.write_text(json.dumps(result.to_state().to_json()))


async def go(recorder: OpenAIAgentsRecorder, session: ChatSnapshotSession, state: Path) -> None:
    """Approve, and go on; then ask something that only the session remembers."""
    model = ScriptedModel([[assistant_message("Booked.")], [assistant_message("Bruges.")]])
    agent = Agent(name="alpha", tools=[book], model=model)
    restored = await RunState.from_json(agent, json.loads(state.read_text()))
    for item in restored.get_interruptions():
        restored.approve(item)
    result = await recorder.run(agent, restored, session=session)
    print(result.final_output)
    await recorder.run(agent, "Where?", session=session)
    items = model.last_call.input if model.last_call else []
    print([item.get("role") or item.get("type") for item in items])


def main() -> None:
    """The command."""
    set_trace_processors([])
    todo, ledger, state = sys.argv[1:]
    snapshot = chatsnapshot.open(ledger)
    recorder, session = OpenAIAgentsRecorder(snapshot), ChatSnapshotSession("trip", snapshot)
    asyncio.run({"ask": ask, "go": go}[todo](recorder, session, Path(state)))
    if todo == "ask":
        print("asked", flush=True)
        signal.pause()
    snapshot.close()


if __name__ == "__main__":
    main()
