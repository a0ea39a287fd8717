"""The same recorder serves ``autogen.beta``, the name under which AG2 1.x began; nothing has to be said about it."""

from __future__ import annotations

import asyncio
from typing import Any

from ag2_agents import Steps
from autogen.beta import Agent, MemoryStream
from autogen.beta.events import HumanInputRequest, ToolCallEvent
from autogen.beta.testing import TestConfig

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def answer(event: HumanInputRequest) -> str:
    return "blue"


def test_a_turn_with_a_tool_a_question_and_a_sub_agent_is_recorded(ledger: Ledger, steps: Steps) -> None:
    from autogen.beta import Context

    async def ask_human(question: str, ctx: Any) -> str:
        """Ask a person."""
        return await ctx.input(question)

    ask_human.__annotations__["question"] = str
    ask_human.__annotations__["ctx"] = Context
    ask_human.__annotations__["return"] = str

    recorder = AG2Recorder(ledger, correlation_id="run-1")
    child = Agent("helper", config=TestConfig("42"), middleware=[recorder.middleware])
    script = TestConfig(
        ToolCallEvent("add", id="add-1", arguments='{"a": 1, "b": 2}'),
        ToolCallEvent("ask_human", id="ask-1", arguments='{"question": "colour?"}'),
        ToolCallEvent("task_helper", id="task-1", arguments='{"objective": "think"}'),
        "done",
    )
    tools = [add, ask_human, child.as_tool(description="Think.")]
    agent = Agent("boss", config=script, tools=tools, hitl_hook=answer, middleware=[recorder.named("boss")])
    reply = asyncio.run(agent.ask("hello", stream=MemoryStream()))
    assert reply.body == "done"
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
    told = steps(ledger.replay("run-1"))
    assert told[0] == ("run_started boss", "")
    assert ("tool_result add-1", "tool_call add-1") in told
    assert ("tool_result ask-1", "tool_call ask-1") in told
    question, answered = (
        next(ledger.read(event_type=f"execution.human_input_{what}")) for what in ("requested", "received")
    )
    assert answered.causation_id == question.event_id
    assert told[-1][0] == "run_completed"
    first = next(entry for entry in ledger.read() if entry.correlation_id != "run-1")
    assert ledger.get(first.causation_id).payload["call_id"] == "task-1"
    assert first.payload["runtime_version"].startswith("0.")
