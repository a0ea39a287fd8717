"""Pydantic AI in the stories of the contract, with its own ``FunctionModel``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from chatsnapshot.adapters.pydantic_ai import PydanticAIRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["PydanticAIBench"]

_USAGE = (13, 4)


class PydanticAIBench(AdapterBench):
    """Agents of Pydantic AI with the capability of ``PydanticAIRecorder``."""

    runtime = "pydantic_ai"
    package = "pydantic-ai-slim"
    title = "Pydantic AI"
    usage = _USAGE
    lacks = MappingProxyType({"handoff": "an agent is a tool of another one, or the program goes on with it"})

    def recorder(self, ledger: Any) -> PydanticAIRecorder:
        """A ``PydanticAIRecorder``."""
        return PydanticAIRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """Run the story."""
        story = _Story(self.attached(recorder))
        return Outcome.of(lambda: asyncio.run(getattr(story, scenario)()))


class _Story:
    def __init__(self, recorders: list[Any]) -> None:
        self.capabilities = [one.capability for one in recorders]

    def agent(self, name: str, *answers: Any, **options: Any) -> Any:
        from pydantic_ai import Agent

        return Agent(_scripted(*answers), name=name, capabilities=self.capabilities, **options)

    async def plain(self) -> Any:
        return (await self.agent("alpha", "Hi there").run("Hello")).output

    async def parallel_tools(self) -> Any:
        return (await self._adding().run("What is 2+3 and 4+5?")).output

    async def streaming(self) -> Any:
        async with self._adding().run_stream("What is 2+3 and 4+5?") as stream:
            return [text async for text in stream.stream_text(debounce_by=None)]

    def _adding(self) -> Any:
        agent = self.agent("alpha", [("add", {"a": 2, "b": 3}), ("add", {"a": 4, "b": 5})], "5 and 9")

        @agent.tool_plain  # type: ignore[untyped-decorator]
        def add(a: int, b: int) -> int:
            in_tool()
            return a + b

        return agent

    async def sub_agent(self) -> Any:
        beta = self.agent("beta", "child says hi")
        alpha = self.agent("alpha", [("ask_child", {"question": "hi"})], "done")

        @alpha.tool_plain  # type: ignore[untyped-decorator]
        async def ask_child(question: str) -> str:
            return str((await beta.run(question)).output)

        return (await alpha.run("Ask the child")).output

    async def interruption(self) -> Any:
        from pydantic_ai import DeferredToolRequests, DeferredToolResults

        agent = self.agent(
            "alpha", [("book", {"city": "Bruges"})], "approved", output_type=[str, DeferredToolRequests]
        )

        @agent.tool_plain(requires_approval=True)  # type: ignore[untyped-decorator]
        def book(city: str) -> str:
            return f"booked {city}"

        first = await agent.run("Book it")
        answers = DeferredToolResults(approvals={one.tool_call_id: True for one in first.output.approvals})
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=answers)
        return second.output

    async def tool_error(self) -> Any:
        agent = self.agent("alpha", [("fail", {})], "it failed")

        @agent.tool_plain  # type: ignore[untyped-decorator]
        def fail() -> str:
            raise ValueError("no such city")

        return (await agent.run("Try")).output

    async def model_error(self) -> Any:
        return (await self.agent("alpha", RuntimeError("model is down")).run("Hello")).output


def _scripted(*answers: Any) -> Any:
    """A model that gives these answers in turn: a text, calls as (name, arguments), or an error that it raises."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel
    from pydantic_ai.usage import RequestUsage

    left = list(answers)

    def answer() -> Any:
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    def respond(messages: Any, info: Any) -> Any:
        given = answer()
        usage = RequestUsage(input_tokens=_USAGE[0], output_tokens=_USAGE[1])
        if isinstance(given, str):
            return ModelResponse(parts=[TextPart(given)], usage=usage)
        calls = [
            ToolCallPart(name, args, tool_call_id=f"call_{n}") for n, (name, args) in enumerate(given, 1)
        ]
        return ModelResponse(parts=calls, usage=usage)

    async def stream(messages: Any, info: Any) -> AsyncIterator[Any]:
        import json

        given = answer()
        if isinstance(given, str):
            for word in given.split(" "):
                yield word if word == given.split(" ")[0] else f" {word}"
            return
        for n, (name, args) in enumerate(given):
            yield {n: DeltaToolCall(name=name, json_args=json.dumps(args), tool_call_id=f"call_{n + 1}")}

    class Reporting(FunctionModel):
        """Reports the same tokens for a stream; by itself it would estimate them."""

        @asynccontextmanager
        async def request_stream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            async with super().request_stream(*args, **options) as streamed:
                streamed._usage = Fixed(input_tokens=_USAGE[0], output_tokens=_USAGE[1])
                yield streamed

    class Fixed(RequestUsage):
        """What is added to it changes nothing."""

        def __add__(self, other: Any) -> Any:
            return self

    return Reporting(respond, stream_function=stream)
