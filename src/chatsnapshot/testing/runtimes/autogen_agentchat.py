"""AutoGen AgentChat for the contract of adapters: agents, a team and a handoff, with a scripted model client."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from typing import Any

from chatsnapshot.adapters.autogen_agentchat import AgentChatRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["AutogenAgentchatBench", "call", "scripted"]

_TASKS: dict[str, str] = {
    "parallel_tools": "What is 2+3 and 4+5?",
    "streaming": "What is 2+3 and 4+5?",
}


class AutogenAgentchatBench(AdapterBench):
    """``AssistantAgent``, ``AgentTool``, ``Swarm`` and a team that stops with a handoff to the user."""

    runtime = "autogen_agentchat"
    package = "autogen-agentchat"
    title = "AutoGen AgentChat"
    usage = (5, 2)

    def recorder(self, ledger: Any) -> AgentChatRecorder:
        """A recorder for the streams."""
        return AgentChatRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One story, on an event loop of its own."""
        recorders = self.attached(recorder)
        story = getattr(self, f"_{scenario}", self._asked)
        return Outcome.of(lambda: asyncio.run(story(scenario, recorders)))

    async def _asked(self, scenario: str, recorders: list[Any]) -> Any:
        agent = self._agent(scenario)
        for recorder in recorders:
            recorder.attach(agent)
        return _texts(await agent.run(task=_TASKS.get(scenario, "Hello")))

    async def _streaming(self, scenario: str, recorders: list[Any]) -> Any:
        stream = self._agent("parallel_tools", stream=True).run_stream(task=_TASKS[scenario])
        chunks, result = await _read(stream, recorders)
        return [chunks, _texts(result)]

    async def _handoff(self, scenario: str, recorders: list[Any]) -> Any:
        teams: Any = importlib.import_module("autogen_agentchat.teams")
        conditions: Any = importlib.import_module("autogen_agentchat.conditions")
        alpha = assistant("alpha", [[call("transfer_to_beta", {}, "call_1")]], handoffs=["beta"])
        team = teams.Swarm(
            [alpha, assistant("beta", ["beta here"])],
            termination_condition=conditions.TextMentionTermination("beta here"),
        )
        return _texts((await _read(team.run_stream(task="Hello"), recorders))[1])

    async def _interruption(self, scenario: str, recorders: list[Any]) -> Any:
        messages: Any = importlib.import_module("autogen_agentchat.messages")
        teams: Any = importlib.import_module("autogen_agentchat.teams")
        conditions: Any = importlib.import_module("autogen_agentchat.conditions")
        alpha = assistant("alpha", [[call("transfer_to_user", {}, "call_1")], "approved"], handoffs=["user"])
        team = teams.RoundRobinGroupChat(
            [alpha], max_turns=1, termination_condition=conditions.HandoffTermination(target="user")
        )
        asked = (await _read(team.run_stream(task="Hello"), recorders))[1]
        answer = messages.HandoffMessage(source="user", target="alpha", content="yes")
        given = (await _read(team.run_stream(task=answer), recorders))[1]
        return [asked.stop_reason, _texts(given)]

    def _agent(self, scenario: str, *, stream: bool = False) -> Any:
        tools: Any = importlib.import_module("autogen_agentchat.tools")

        def add(a: int, b: int) -> int:
            """Add two numbers."""
            in_tool()
            return a + b

        def fail() -> int:
            """Fail."""
            raise ValueError("no such city")

        beta = assistant("beta", ["child says hi"], description="a child")
        answers: dict[str, list[Any]] = {
            "plain": ["Hi there"],
            "parallel_tools": [
                [call("add", {"a": 2, "b": 3}, "call_1"), call("add", {"a": 4, "b": 5}, "call_2")],
                "5 and 9",
            ],
            "sub_agent": [[call("beta", {"task": "hi?"}, "call_1")], "done"],
            "tool_error": [[call("fail", {}, "call_1")], "sorry"],
            "model_error": [RuntimeError("model is down")],
        }
        return assistant(
            "alpha",
            answers[scenario],
            tools=[add, fail, tools.AgentTool(beta)],
            max_tool_iterations=3,
            model_client_stream=stream,
        )


async def _read(stream: Any, recorders: list[Any]) -> tuple[list[str], Any]:
    """The pieces of text in a stream, and its result."""
    for recorder in recorders:
        stream = recorder.tee(stream)
    chunks, item = [], None
    async for item in stream:
        if type(item).__name__ == "ModelClientStreamingChunkEvent":
            chunks.append(str(item.content))
    return chunks, item


def _texts(result: Any) -> list[str]:
    return [message.to_text() for message in result.messages]


def assistant(name: str, answers: list[Any], **options: Any) -> Any:
    """An agent whose model gives these answers in turn."""
    agents: Any = importlib.import_module("autogen_agentchat.agents")
    return agents.AssistantAgent(name, model_client=scripted(answers), **options)


def call(name: str, arguments: dict[str, Any], call_id: str) -> Any:
    """What a model says to call a tool."""
    core: Any = importlib.import_module("autogen_core")
    return core.FunctionCall(id=call_id, name=name, arguments=json.dumps(arguments))


def scripted(answers: list[Any]) -> Any:
    """A model client that gives these answers in turn: texts, lists of calls, or an exception to raise."""
    models: Any = importlib.import_module("autogen_core.models")
    left = list(answers)
    usage = models.RequestUsage(prompt_tokens=5, completion_tokens=2)

    def given() -> Any:
        content = left.pop(0)
        if isinstance(content, Exception):
            raise content
        reason = "stop" if isinstance(content, str) else "function_calls"
        return models.CreateResult(finish_reason=reason, content=content, usage=usage, cached=False)

    async def create(self: Any, messages: Any, **options: Any) -> Any:
        return given()

    async def create_stream(self: Any, messages: Any, **options: Any) -> AsyncIterator[Any]:
        result = given()
        if isinstance(result.content, str):
            for piece in result.content.split():
                yield piece
        yield result

    async def close(self: Any) -> None:
        return None

    info = models.ModelInfo(
        vision=False, function_calling=True, json_output=False, family="scripted", structured_output=False
    )
    members = {
        "create": create,
        "create_stream": create_stream,
        "close": close,
        "actual_usage": lambda self: usage,
        "total_usage": lambda self: usage,
        "count_tokens": lambda self, messages, **options: 0,
        "remaining_tokens": lambda self, messages, **options: 0,
        "capabilities": property(lambda self: info),
        "model_info": property(lambda self: info),
    }
    return type("ScriptedClient", (models.ChatCompletionClient,), members)()
