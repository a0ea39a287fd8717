"""An AG2 agent that reads its own past through a tool, and begins with the past of another run. Runs offline."""

import asyncio

from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.stream import MemoryStream
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder


def look_up(topic: str) -> str:
    """Look something up in the handbook."""
    return f"Handbook on {topic}: money is paid back within 30 days."


with chatsnapshot.open("own-past-ag2.db") as ledger:

    def recall(words: str) -> str:
        """Find what was recorded about some words, in this run and in earlier ones."""
        return ledger.context(search=words, budget_tokens=600, format="markdown").text

    async def main() -> None:
        """Two runs: one that looks something up, one that remembers it."""
        first = TestConfig(ToolCallEvent("look_up", arguments='{"topic": "refunds"}'), "Within 30 days.")
        recorder = AG2Recorder(ledger, correlation_id="monday")
        agent = Agent("desk", config=first, tools=[look_up], middleware=[recorder.middleware])
        await agent.ask("How long do refunds take?")

        # The next day: the past of the first run is the history of a new stream, and recall reads more of it.
        past = await ledger.acontext("monday", budget_tokens=800, format="ag2")
        stream = MemoryStream()
        await stream.history.replace(past.messages)
        second = TestConfig(ToolCallEvent("recall", arguments='{"words": "refunds handbook"}'), "30 days.")
        recorder = AG2Recorder(ledger, correlation_id="tuesday")
        agent = Agent("desk", config=second, tools=[recall], middleware=[recorder.middleware])
        reply = await agent.ask("And what did we tell people about refunds?", stream=stream)
        print(f"began with {len(past.messages)} events of AG2 ({past.tokens} tokens); answered: {reply.body}")

    asyncio.run(main())

    recalled = next(
        entry for entry in ledger.replay("tuesday") if entry.event_type == "execution.tool_result"
    )
    print(recalled.payload["result"])
    print(ledger.verify().ok)
