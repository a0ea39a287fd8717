"""Scripted agents, their tools, and ways to run them: what the tests of AG2 1.x share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ag2 import Agent, Context, MemoryStream
from ag2.events import HumanInputRequest
from ag2.testing import TestConfig

from chatsnapshot import Ledger, LedgerEntry
from chatsnapshot.adapters.ag2 import AG2Recorder

Steps = Callable[[Any], list[tuple[str, str]]]
Call = Callable[..., Any]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def explode(x: int) -> int:
    """Fail."""
    raise ValueError("the tool exploded")


async def ask_human(question: str, ctx: Context) -> str:
    """Ask a person."""
    return await ctx.input(question)


async def answer_blue(event: HumanInputRequest) -> str:
    return "blue"


async def answer_never(event: HumanInputRequest) -> str:
    raise OSError("the terminal is gone")


def scripted(*turns: Any, **options: Any) -> TestConfig:
    return TestConfig(*turns, raise_tool_errors=False, **options)


def run_one(
    ledger: Ledger,
    config: TestConfig,
    tools: Sequence[Any] = (),
    *,
    stream: MemoryStream | None = None,
    **options: Any,
) -> tuple[Any, AG2Recorder]:
    """One turn of a recorded agent; gives its reply or what it raised."""
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent(
        "assistant", "Be kind.", config=config, tools=tools, middleware=[recorder.middleware], **options
    )

    async def turn() -> Any:
        try:
            return await agent.ask("hello", stream=stream or MemoryStream())
        except Exception as error:
            return error

    outcome = asyncio.run(turn())
    assert (recorder.safe.failures, recorder.safe.kept, recorder.safe.dropped) == (0, 0, 0)
    return outcome, recorder


def entries(
    ledger: Ledger, event_type: str | None = None, correlation_id: str | None = None
) -> list[LedgerEntry]:
    return list(ledger.read(event_type=event_type, correlation_id=correlation_id))


def run_events(ledger: Ledger) -> list[LedgerEntry]:
    return [entry for entry in ledger.read() if entry.event_type.startswith("execution.run_")]


def researcher(recorder: AG2Recorder | None, *turns: Any, tools: Sequence[Any] = (), **options: Any) -> Any:
    middleware = [recorder.middleware] if recorder else []
    agent = Agent("researcher", config=scripted(*turns), tools=tools, middleware=middleware, **options)
    return agent.as_tool(description="Find out.")


def run_pair(ledger: Ledger, call: Call, *turns: Any, recorded: bool = True, **options: Any) -> Any:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    child = researcher(recorder if recorded else None, *turns, **options)
    script = scripted(call("task_researcher", objective="find it"), "done")
    agent = Agent(
        "boss", config=script, tools=[child], hitl_hook=answer_blue, middleware=[recorder.middleware]
    )
    reply = asyncio.run(agent.ask("hello"))
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
    return reply
