"""The OpenAI Agents SDK as the contract of adapters drives it, with the SDK's own scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

from chatsnapshot.adapters.openai_agents import OpenAIAgentsRecorder
from chatsnapshot.testing.adapters import AdapterBench, Outcome, in_tool

__all__ = ["OpenAIAgentsBench"]

_USAGE = (5, 2)


class OpenAIAgentsBench(AdapterBench):
    """Plays every scenario with ``Runner`` and ``agents.testing.ScriptedModel``."""

    runtime = "openai_agents"
    package = "openai-agents"
    title = "OpenAI Agents SDK"
    usage = _USAGE

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

    if scenario in ("parallel_tools", "streaming"):
        both = [_call("add", '{"a": 2, "b": 3}', "call_1"), _call("add", '{"a": 4, "b": 5}', "call_2")]
        return Agent(name="alpha", tools=[_add()], model=_model(both, "5 and 9")), "What is 2+3 and 4+5?"
    if scenario == "sub_agent":
        beta = Agent(name="beta", model=_model("child says hi"))
        asking = [_call("ask_child", '{"input": "hi"}', "call_1")]
        tools = [beta.as_tool("ask_child", "Ask the child.")]
        return Agent(name="alpha", tools=list(tools), model=_model(asking, "done")), "Ask the child"
    if scenario == "handoff":
        beta = Agent(name="beta", model=_model("beta here"))
        over = [_call("transfer_to_beta", "{}", "call_1")]
        return Agent(name="alpha", handoffs=[beta], model=_model(over)), "Let beta answer"
    if scenario == "interruption":
        asking = [_call("book", '{"city": "Bruges"}', "call_1")]
        return Agent(name="alpha", tools=[_book()], model=_model(asking, "approved")), "Book it"
    if scenario == "tool_error":
        asking = [_call("fail", "{}", "call_1")]
        return Agent(name="alpha", tools=[_fail()], model=_model(asking, "it failed")), "Try"
    if scenario == "model_error":
        return Agent(name="alpha", model=_model(RuntimeError("model is down"))), "Hello"
    return Agent(name="alpha", model=_model("Hi there")), "Hello"


def _model(*answers: Any) -> Any:
    """The SDK's own scripted model; for versions without one, the least that is a model to them."""
    from agents.usage import Usage

    steps = [[_said(one)] if isinstance(one, str) else one for one in answers]
    usage = Usage(requests=1, input_tokens=_USAGE[0], output_tokens=_USAGE[1], total_tokens=sum(_USAGE))
    try:
        from agents.testing import ScriptedModel
    except ImportError:
        return _least_model(steps, usage)
    return ScriptedModel(steps, default_usage=usage)


def _least_model(steps: list[Any], usage: Any) -> Any:
    from agents import Model, ModelResponse
    from openai.types.responses import Response, ResponseCompletedEvent, ResponseUsage

    class Scripted(Model):
        async def get_response(self, *args: Any, **options: Any) -> Any:
            given = steps.pop(0)
            if isinstance(given, Exception):
                raise given
            return ModelResponse(output=given, usage=usage, response_id="resp_1")

        async def stream_response(self, *args: Any, **options: Any) -> Any:
            facts = {name: getattr(usage, name) for name in ResponseUsage.model_fields}
            response = Response.model_construct(
                id="resp_1",
                created_at=0,
                model="scripted",
                object="response",
                output=steps.pop(0),
                tool_choice="auto",
                tools=[],
                parallel_tool_calls=True,
                usage=ResponseUsage.model_construct(**facts),
            )
            yield ResponseCompletedEvent.model_construct(
                type="response.completed", response=response, sequence_number=0
            )

    return Scripted()


def _said(content: str) -> Any:
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    part = ResponseOutputText(type="output_text", text=content, annotations=[], logprobs=[])
    return ResponseOutputMessage(
        id="msg_1", type="message", role="assistant", status="completed", content=[part]
    )


def _call(name: str, arguments: str, call_id: str) -> Any:
    from openai.types.responses import ResponseFunctionToolCall

    return ResponseFunctionToolCall(type="function_call", name=name, arguments=arguments, call_id=call_id)


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
