"""Strands Agents as the contract of adapters drives it, with a scripted model of Strands' own kind."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from chatsnapshot.adapters.strands import StrandsRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["StrandsBench", "call", "scripted"]

_TASK = "What is 2+3 and 4+5?"


class StrandsBench(AdapterBench):
    """Agents with the recorder as a hook provider, ``as_tool``, interrupts and a swarm."""

    runtime = "strands"
    package = "strands-agents"
    title = "Strands Agents"
    usage = (5, 2)

    def recorder(self, ledger: Any) -> StrandsRecorder:
        """A recorder, which is the hook provider too."""
        return StrandsRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One story, with agents of its own."""
        hooks = self.attached(recorder)
        logging.getLogger("strands").setLevel(logging.CRITICAL)  # it logs what the stories raise
        story = {"streaming": _streamed, "interruption": _interrupted, "handoff": _handed}.get(
            scenario, _asked
        )
        return Outcome.of(lambda: story(scenario, hooks))


def _asked(scenario: str, hooks: list[Any]) -> Any:
    result = _agent(scenario, hooks)(_TASK if scenario == "parallel_tools" else "Hello")
    return [result.stop_reason, str(result).strip()]


def _streamed(scenario: str, hooks: list[Any]) -> Any:
    async def read() -> list[str]:
        words, result = [], None
        async for event in _agent("parallel_tools", hooks).stream_async(_TASK):
            words += [event["data"]] if "data" in event else []
            result = event.get("result", result)
        return [*words, str(result).strip()]

    return asyncio.run(read())


def _interrupted(scenario: str, hooks: list[Any]) -> Any:
    from strands.hooks import BeforeToolCallEvent

    def approve(event: Any) -> None:
        if event.interrupt("approval", reason="May add be called?") != "yes":
            event.cancel_tool = "refused"

    agent = _agent(scenario, hooks)
    agent.add_hook(approve, BeforeToolCallEvent)
    asked = agent("Hello")
    answers = [{"interruptResponse": {"interruptId": one.id, "response": "yes"}} for one in asked.interrupts]
    return [asked.stop_reason, len(answers), str(agent(answers)).strip()]


def _handed(scenario: str, hooks: list[Any]) -> Any:
    from strands.multiagent import Swarm

    over = call("handoff_to_agent", "call_1", agent_name="beta", message="please answer")
    alpha = _made("alpha", [[over], "handed over"], hooks)
    beta = _made("beta", ["beta here"], hooks)
    result = Swarm([alpha, beta], hooks=hooks)("Hello")
    said = {name: str(one.result).strip() for name, one in result.results.items()}
    return [result.status.value, [node.node_id for node in result.node_history], said]


def _agent(scenario: str, hooks: list[Any]) -> Any:
    from strands import tool

    @tool  # type: ignore[untyped-decorator, unused-ignore]
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        in_tool()
        return a + b

    @tool  # type: ignore[untyped-decorator, unused-ignore]
    def fail() -> int:
        """Fail."""
        raise ValueError("no such city")

    beta = _made("beta", ["child says hi"], hooks)
    answers: dict[str, list[Any]] = {
        "plain": ["Hi there"],
        "parallel_tools": [[call("add", "call_1", a=2, b=3), call("add", "call_2", a=4, b=5)], "5 and 9"],
        "sub_agent": [[call("ask_child", "call_1", input="hi?")], "done"],
        "interruption": [[call("add", "call_1", a=2, b=3)], "approved"],
        "tool_error": [[call("fail", "call_1")], "sorry"],
        "model_error": [RuntimeError("model is down")],
    }
    child = beta.as_tool(name="ask_child", description="Ask the child.")
    return _made("alpha", answers[scenario], hooks, tools=[add, fail, child])


def _made(name: str, answers: list[Any], hooks: list[Any], **options: Any) -> Any:
    from strands import Agent

    return Agent(name=name, model=scripted(*answers), hooks=list(hooks), callback_handler=None, **options)


def call(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    """What a model says to call a tool."""
    return {"name": name, "toolUseId": call_id, "input": arguments}


def scripted(*answers: Any) -> Any:
    """A model that gives these answers, one a call: a text, a list of calls and texts, or an exception to raise."""
    return _model()(list(answers))


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    from strands.models import Model

    class Scripted(Model):  # type: ignore[misc, unused-ignore]
        def __init__(self, answers: list[Any]) -> None:
            self.answers = answers

        def update_config(self, **config: Any) -> None:
            """Nothing is to be configured."""

        def get_config(self) -> dict[str, Any]:
            return {"model_id": "scripted"}

        async def structured_output(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            yield {"output": self.answers.pop(0)}

        async def stream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            blocks = answer if isinstance(answer, list) else [answer]
            yield {"messageStart": {"role": "assistant"}}
            for block in blocks:
                for piece in _pieces(block):
                    yield piece
            asks = any(isinstance(block, dict) for block in blocks)
            yield {"messageStop": {"stopReason": "tool_use" if asks else "end_turn"}}
            usage = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}
            yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}

    return Scripted


def _pieces(block: Any) -> list[dict[str, Any]]:
    """A text, word by word, or a call, as a model streams it."""
    if isinstance(block, dict):
        start = {"toolUse": {"name": block["name"], "toolUseId": block["toolUseId"]}}
        deltas: list[Any] = [{"toolUse": {"input": json.dumps(block["input"])}}]
    else:
        start = {}
        words = block.split(" ")
        deltas = [{"text": word if at == 0 else f" {word}"} for at, word in enumerate(words)]
    made: list[dict[str, Any]] = [{"contentBlockStart": {"start": start}}]
    made += [{"contentBlockDelta": {"delta": delta}} for delta in deltas]
    return [*made, {"contentBlockStop": {}}]
