"""AG2 1.x in the stories of the contract, with its own scripted test model."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome

__all__ = ["AG2Bench"]


class AG2Bench(AdapterBench):
    """Agents of AG2 1.x with the middleware of ``AG2Recorder``."""

    runtime = "ag2"
    package = "ag2"
    usage = (11, 7)

    def recorder(self, ledger: Any) -> AG2Recorder:
        """An ``AG2Recorder``."""
        return AG2Recorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """Run the story."""
        story = _Story([one.middleware for one in self.attached(recorder)], self.attached(recorder))
        return Outcome.of(lambda: asyncio.run(getattr(story, scenario)()))


class _Story:
    def __init__(self, middleware: list[Any], recorders: list[Any]) -> None:
        self.middleware = middleware
        self.recorders = recorders

    def agent(self, name: str, *turns: Any, tools: Any = (), **options: Any) -> Any:
        ag2: Any = importlib.import_module("ag2")
        return ag2.Agent(name, config=_scripted(*turns), tools=tools, middleware=self.middleware, **options)

    async def plain(self) -> Any:
        return (await self.agent("alpha", "Hi there").ask("Hello")).body

    async def parallel_tools(self) -> Any:
        calls = [_call("add", a=2, b=3), _call("add", a=4, b=5)]
        return (await self.agent("alpha", calls, "5 and 9", tools=[add]).ask("What is 2+3 and 4+5?")).body

    async def streaming(self) -> Any:
        """The same with a subscriber of the stream, and the chunks that a provider publishes."""
        ag2, events = importlib.import_module("ag2"), importlib.import_module("ag2.events")
        stream, chunks = ag2.MemoryStream(), []

        async def hear(event: Any) -> None:
            if isinstance(event, events.ModelMessageChunk):
                chunks.append(event.content)

        stream.subscribe(hear)
        calls = [_call("add", a=2, b=3), _call("add", a=4, b=5)]
        said = [events.ModelMessageChunk(text) for text in ("5 ", "and ", "9")]
        agent = self.agent("alpha", calls, *said, "5 and 9", tools=[add])
        reply = await agent.ask("What is 2+3 and 4+5?", stream=stream)
        return [reply.body, chunks]

    async def sub_agent(self) -> Any:
        beta = self.agent("beta", "child says hi")

        async def ask_child(question: str) -> str:
            """Ask beta."""
            return str((await beta.ask(question)).body)

        return (
            await self.agent("alpha", _call("ask_child", question="hi?"), "done", tools=[ask_child]).ask("Go")
        ).body

    async def tool_error(self) -> Any:
        return (await self.agent("alpha", _call("fail"), "sorry", tools=[fail]).ask("Go")).body

    async def model_error(self) -> Any:
        return (await self.agent("alpha", RuntimeError("model is down")).ask("Go")).body


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail() -> str:
    """Fail."""
    raise ValueError("no such city")


def _call(name: str, **arguments: Any) -> Any:
    events: Any = importlib.import_module("ag2.events")
    return events.ToolCallEvent(name, arguments=json.dumps(arguments))


def _scripted(*turns: Any) -> Any:
    testing: Any = importlib.import_module("ag2.testing")
    return testing.TestConfig(*turns, raise_tool_errors=False)
