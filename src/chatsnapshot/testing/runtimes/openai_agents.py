"""The OpenAI Agents SDK as the contract of adapters drives it, with the SDK's own scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

from chatsnapshot.adapters.openai_agents import OpenAIAgentsRecorder
from chatsnapshot.testing.adapters import AdapterBench, Outcome, in_tool

__all__ = ["OpenAIAgentsBench"]


class OpenAIAgentsBench(AdapterBench):
    """Plays every scenario with ``Runner`` and ``agents.testing.ScriptedModel``."""

    runtime = "openai_agents"
    package = "openai-agents"
    title = "OpenAI Agents SDK"
    usage = (5, 2)

    def recorder(self, ledger: Any) -> OpenAIAgentsRecorder:
        """A recorder of this runtime."""
        return OpenAIAgentsRecorder(ledger)

    def play(self, scenario: str, recorder: Any) -> Outcome:
        """One run; ``None`` as the recorder: not recorded at all."""
        from agents import set_trace_processors

        set_trace_processors([])  # nothing of a test is uploaded
        recorders = self.attached(recorder)
        return Outcome.of(lambda: asyncio.run(_play(scenario, recorders)))


async def _play(scenario: str, recorders: list[Any]) -> Any:
    from agents import Runner

    runner: Any = recorders[0] if recorders else Runner
    options = {"hooks": recorders[1].hooks} if len(recorders) > 1 else {}
    agent, asked = _story(scenario)
    if scenario == "streaming":
        result = runner.run_streamed(agent, asked, **options)
        kinds = [event.type async for event in result.stream_events()]
        return [result.final_output, len(kinds)]
    result = await runner.run(agent, asked, **options)
    if result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item)
        result = await runner.run(agent, state, **options)
    return [result.final_output, [item.type for item in result.new_items]]


def _story(scenario: str) -> tuple[Any, str]:
    """The agent of a scenario and what it is asked."""
    from agents import Agent
    from agents.testing import ScriptedModel, function_call
    from agents.usage import Usage

    def model(*answers: Any) -> Any:
        steps = [[_said(one)] if isinstance(one, str) else one for one in answers]
        return ScriptedModel(
            steps, default_usage=Usage(requests=1, input_tokens=5, output_tokens=2, total_tokens=7)
        )

    def tool(name: str, arguments: str, call_id: str) -> Any:
        return function_call(name, arguments, call_id=call_id)

    if scenario in ("parallel_tools", "streaming"):
        both = [tool("add", '{"a": 2, "b": 3}', "call_1"), tool("add", '{"a": 4, "b": 5}', "call_2")]
        return Agent(name="alpha", tools=[_add()], model=model(both, "5 and 9")), "What is 2+3 and 4+5?"
    if scenario == "sub_agent":
        beta = Agent(name="beta", model=model("child says hi"))
        asking = [tool("ask_child", '{"input": "hi"}', "call_1")]
        tools = [beta.as_tool("ask_child", "Ask the child.")]
        return Agent(name="alpha", tools=list(tools), model=model(asking, "done")), "Ask the child"
    if scenario == "handoff":
        beta = Agent(name="beta", model=model("beta here"))
        over = [tool("transfer_to_beta", "{}", "call_1")]
        return Agent(name="alpha", handoffs=[beta], model=model(over)), "Let beta answer"
    if scenario == "interruption":
        asking = [tool("book", '{"city": "Bruges"}', "call_1")]
        return Agent(name="alpha", tools=[_book()], model=model(asking, "approved")), "Book it"
    if scenario == "tool_error":
        asking = [tool("fail", "{}", "call_1")]
        return Agent(name="alpha", tools=[_fail()], model=model(asking, "it failed")), "Try"
    if scenario == "model_error":
        return Agent(name="alpha", model=model(RuntimeError("model is down"))), "Hello"
    return Agent(name="alpha", model=model("Hi there")), "Hello"


def _said(content: str) -> Any:
    from agents.testing import assistant_message

    return assistant_message(content)


def _add() -> Any:
    from agents import function_tool

    @function_tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        in_tool()
        return a + b

    return add


def _book() -> Any:
    from agents import function_tool

    @function_tool(needs_approval=True)
    def book(city: str) -> str:
        """Book a night."""
        return f"booked {city}"

    return book


def _fail() -> Any:
    from agents import function_tool

    @function_tool
    def fail() -> str:
        """Fail."""
        raise ValueError("no such city")

    return fail
