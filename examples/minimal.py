"""Record an AG2 agent with one line, then read back what it did. Runs offline: the model follows a script."""

import asyncio

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


with chatsnapshot.open("minimal.db") as ledger:
    recorder = AG2Recorder(ledger)
    model = TestConfig(ToolCallEvent("add", arguments='{"a": 1, "b": 2}'), "1 and 2 make 3.")
    agent = Agent("assistant", config=model, tools=[add], middleware=[recorder.middleware])  # the one line
    asyncio.run(agent.ask("What do 1 and 2 make?"))

    for entry in ledger.read():
        print(entry.position, entry.event_type, entry.payload.get("parts") or entry.payload.get("result", ""))
    print(ledger.verify().ok)
