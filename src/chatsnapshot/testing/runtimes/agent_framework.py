"""Microsoft Agent Framework for the contract of adapters: agents and a handoff, with a scripted client."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from chatsnapshot.adapters.agent_framework import AgentFrameworkRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["AgentFrameworkBench", "call", "scripted"]

_TASKS: dict[str, str] = {
    "parallel_tools": "What is 2+3 and 4+5?",
    "streaming": "What is 2+3 and 4+5?",
}


class AgentFrameworkBench(AdapterBench):
    """Agents, ``as_tool``, approval of tools and ``HandoffBuilder``."""

    runtime = "agent_framework"
    package = "agent-framework-core"
    title = "Microsoft Agent Framework"
    usage = (5, 2)

    def recorder(self, ledger: Any) -> AgentFrameworkRecorder:
        """A recorder for the middlewares of the agents."""
        return AgentFrameworkRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One story, on an event loop of its own."""
        recorders = self.attached(recorder)
        middleware = [one for each in recorders for one in each.middleware]
        story = getattr(self, f"_{scenario}", self._asked)
        return Outcome.of(lambda: asyncio.run(story(scenario, middleware, recorders)))

    async def _asked(self, scenario: str, middleware: list[Any], recorders: list[Any]) -> Any:
        agent = self._agent(scenario, middleware)
        return (await agent.run(_TASKS.get(scenario, "Hello"))).text

    async def _streaming(self, scenario: str, middleware: list[Any], recorders: list[Any]) -> Any:
        stream = self._agent("parallel_tools", middleware).run(_TASKS[scenario], stream=True)
        updates = [update.text async for update in stream]
        return ["".join(updates), (await stream.get_final_response()).text]

    async def _interruption(self, scenario: str, middleware: list[Any], recorders: list[Any]) -> Any:
        af = importlib.import_module("agent_framework")
        agent = self._agent(scenario, middleware)
        session = agent.create_session()
        asked = await agent.run("Hello", session=session)
        answers = [one.to_function_approval_response(approved=True) for one in asked.user_input_requests]
        response = await agent.run(af.Message(role="user", contents=answers), session=session)
        return [len(answers), response.text]

    async def _handoff(self, scenario: str, middleware: list[Any], recorders: list[Any]) -> Any:
        af = importlib.import_module("agent_framework")
        builder: Any = importlib.import_module("agent_framework_orchestrations").HandoffBuilder
        # Such agents need the whole history of each call kept by the framework itself.
        options = {"require_per_service_call_history_persistence": True, "middleware": middleware}
        alpha = af.Agent(
            scripted([[call("handoff_to_beta", {}, "call_1")]]), name="alpha", id="alpha", **options
        )
        beta = af.Agent(scripted([["beta here"]]), name="beta", id="beta", **options)
        workflow = (
            builder(name="desk", participants=[alpha, beta], termination_condition=_beta_spoke)
            .with_start_agent(alpha)
            .add_handoff(alpha, [beta])
            .build()
        )
        for recorder in recorders:
            recorder.attach(workflow)
        result = await workflow.run("Hello")
        return [
            message.text for output in result.get_outputs() for message in output.messages if message.text
        ]

    def _agent(self, scenario: str, middleware: list[Any]) -> Any:
        af = importlib.import_module("agent_framework")

        def add(a: int, b: int) -> int:
            """Add two numbers."""
            in_tool()
            return a + b

        def fail() -> int:
            """Fail."""
            raise ValueError("no such city")

        beta = af.Agent(
            scripted([["child says hi"]]), name="beta", description="a child", middleware=middleware
        )
        child = beta.as_tool(name="ask_child", arg_name="question")
        wanted = "always_require" if scenario == "interruption" else "never_require"
        tools = [af.tool(tool, approval_mode=wanted) for tool in (add, fail)]
        answers: dict[str, list[Any]] = {
            "plain": [["Hi there"]],
            "parallel_tools": [
                [call("add", {"a": 2, "b": 3}, "call_1"), call("add", {"a": 4, "b": 5}, "call_2")],
                ["5 and 9"],
            ],
            "sub_agent": [[call("ask_child", {"question": "hi?"}, "call_1")], ["done"]],
            "interruption": [[call("add", {"a": 2, "b": 3}, "call_1")], ["approved"]],
            "tool_error": [[call("fail", {}, "call_1")], ["sorry"]],
            "model_error": [RuntimeError("model is down")],
        }
        client = scripted(answers[scenario])
        return af.Agent(client, name="alpha", tools=[*tools, child], middleware=middleware)


def _beta_spoke(conversation: list[Any]) -> bool:
    return any(message.text == "beta here" for message in conversation)


def call(name: str, arguments: dict[str, Any], call_id: str) -> Any:
    """What a model says to call a tool."""
    af = importlib.import_module("agent_framework")
    return af.Content.from_function_call(call_id=call_id, name=name, arguments=json.dumps(arguments))


def scripted(answers: list[Any]) -> Any:
    """A chat client that gives these answers in turn: lists of texts and calls, or an exception to raise."""
    return _client_class()(answers)


def _client_class() -> Callable[[list[Any]], Any]:
    af: Any = importlib.import_module("agent_framework")
    left: dict[int, list[Any]] = {}

    def contents(self: Any) -> list[Any]:
        answer = left[id(self)].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [af.Content.from_text(one) if isinstance(one, str) else one for one in answer]

    usage = {"input_token_count": 5, "output_token_count": 2, "total_token_count": 7}

    def respond(self: Any, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        async def whole() -> Any:
            message = af.Message(role="assistant", contents=contents(self))
            return af.ChatResponse(messages=[message], response_id="r-1", usage_details=usage)

        async def parts() -> AsyncIterator[Any]:
            for content in contents(self):
                yield af.ChatResponseUpdate(role="assistant", contents=[content], response_id="r-1")
            used = af.Content.from_usage(usage)
            yield af.ChatResponseUpdate(role="assistant", contents=[used], response_id="r-1")

        return af.ResponseStream(parts(), finalizer=af.ChatResponse.from_updates) if stream else whole()

    def make(answers: list[Any]) -> Any:
        bases = (af.FunctionInvocationLayer, af.ChatMiddlewareLayer, af.BaseChatClient)
        client: Any = type("ScriptedClient", bases, {"_inner_get_response": respond})()
        left[id(client)] = list(answers)
        return client

    return make
