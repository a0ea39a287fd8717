"""AG2 1.x in the stories of the contract, with its own scripted test model."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from typing import Any

from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["AG2Bench"]

_USAGE = (11, 7)


class AG2Bench(AdapterBench):
    """Agents of AG2 1.x with the middleware of ``AG2Recorder``."""

    runtime = "ag2"
    title = "AG2 1.x"
    package = "ag2"
    usage = _USAGE

    def missing(self) -> str | None:
        """AG2 with a test model that can play failures; that of 1.0 cannot."""
        if self.version() is not None:
            model: Any = importlib.import_module("ag2.testing").TestConfig
            return None if "raise_tool_errors" in inspect.signature(model).parameters else "ag2>=1.2"
        return self.package

    def recorder(self, ledger: Any) -> AG2Recorder:
        """An ``AG2Recorder``."""
        return AG2Recorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """Run the story."""
        story = _Story(self.attached(recorder))
        return Outcome.of(lambda: asyncio.run(getattr(story, scenario)()))


class _Story:
    def __init__(self, recorders: list[Any]) -> None:
        self.recorders = recorders

    def agent(self, name: str, *turns: Any, tools: Any = (), **options: Any) -> Any:
        ag2: Any = importlib.import_module("ag2")
        middleware = [one.middleware for one in self.recorders]
        return ag2.Agent(name, config=_scripted(*turns), tools=tools, middleware=middleware, **options)

    async def plain(self) -> Any:
        return (await self.agent("alpha", "Hi there").ask("Hello")).body

    async def parallel_tools(self) -> Any:
        calls = [_call("add", a=2, b=3), _call("add", a=4, b=5)]
        return (await self.agent("alpha", calls, "5 and 9", tools=[add]).ask("What is 2+3 and 4+5?")).body

    async def streaming(self) -> Any:
        """A subscriber of the stream hears the chunks that a provider publishes."""
        ag2: Any = importlib.import_module("ag2")
        events: Any = importlib.import_module("ag2.events")
        stream, heard = ag2.MemoryStream(), []

        async def hear(event: Any) -> None:
            if isinstance(event, events.ModelMessageChunk):
                heard.append(event.content)

        stream.subscribe(hear)
        calls = [_call("add", a=2, b=3), _call("add", a=4, b=5)]
        chunks = [events.ModelMessageChunk(text) for text in ("5 ", "and ", "9")]
        agent = self.agent("alpha", calls, *chunks, "5 and 9", tools=[add])
        reply = await agent.ask("What is 2+3 and 4+5?", stream=stream)
        return [reply.body, heard]

    async def sub_agent(self) -> Any:
        beta = self.agent("beta", "child says hi")

        async def ask_child(question: str) -> str:
            """Ask beta."""
            return str((await beta.ask(question)).body)

        alpha = self.agent("alpha", _call("ask_child", question="Who is there?"), "done", tools=[ask_child])
        return (await alpha.ask("Go")).body

    async def handoff(self) -> Any:
        """In a channel of the agent network: a tool of alpha names who speaks next."""
        net: Any = importlib.import_module("ag2.network")

        def hand_over() -> net.Handoff:
            """Hand over to beta."""
            return net.Handoff(target="beta", reason="beta knows")

        hand_over.__annotations__["return"] = net.Handoff
        agents = [
            self.agent("user", ""),
            self.agent("alpha", _call("hand_over"), "over to beta", tools=[hand_over]),
            self.agent("beta", "beta here"),
        ]
        return await _talk_in_channel(net, agents, self.recorders)

    async def interruption(self) -> Any:
        """AG2 raises where nobody is there to answer; the caller resumes with the answer."""
        ag2: Any = importlib.import_module("ag2")
        errors: Any = importlib.import_module("ag2.exceptions")
        events: Any = importlib.import_module("ag2.events")

        async def ask_person(question: str, ctx: Any) -> str:
            """Ask a person."""
            return str(await ctx.input(question))

        ask_person.__annotations__["ctx"] = ag2.Context
        stream, asked = ag2.MemoryStream(), _call("ask_person", question="May I?")
        try:
            await self.agent("alpha", asked, tools=[ask_person]).ask("Do it", stream=stream)
            return "nobody was asked"
        except errors.HumanInputNotProvidedError:
            history = list(await stream.history.get_events())
        at = next(index for index, one in enumerate(history) if isinstance(one, events.ToolCallsEvent))
        answer = events.ToolResultsEvent([events.ToolResultEvent.from_call(asked, "yes")])
        alpha = self.agent("alpha", "approved", tools=[ask_person])
        return (await alpha.resume(*history[: at + 1], answer, stream=stream)).body

    async def tool_error(self) -> Any:
        return (await self.agent("alpha", _call("fail"), "sorry", tools=[fail]).ask("Go")).body

    async def model_error(self) -> Any:
        return (await self.agent("alpha", RuntimeError("model is down")).ask("Go")).body


async def _talk_in_channel(net: Any, agents: list[Any], recorders: list[Any]) -> Any:
    knowledge: Any = importlib.import_module("ag2.knowledge")
    hub = await net.Hub.open(knowledge.MemoryKnowledgeStore())
    for one in recorders:
        hub.register_listener(one.hub_listener(hub))
    hub.register_adapter(net.WorkflowAdapter())
    client = net.HubClient(net.LocalLink(hub), hub=hub)
    await client.open()
    members = [await client.register(agent) for agent in agents]
    graph = net.TransitionGraph(
        initial_speaker=members[0].agent_id,
        transitions=[
            net.Transition(net.FromSpeaker(members[0].agent_id), net.AgentTarget(members[1].agent_id))
        ],
        default_target=net.TerminateTarget(reason="all done"),
    )
    channel = await members[0].open(
        type="workflow", target=["alpha", "beta"], knobs={"graph": graph.to_dict(), "context_vars": {}}
    )
    await channel.send("Go")
    while not (await channel.info()).is_terminal():
        await asyncio.sleep(0.005)
    said = [text for text in map(_said, await hub.read_wal(channel.channel_id)) if text]
    await client.close()
    await hub.close()
    return said


def _said(envelope: Any) -> str | None:
    data = getattr(envelope, "event_data", None)
    body = data.get("body") if isinstance(data, dict) else None
    return body if isinstance(body, str) else None


def add(a: int, b: int) -> int:
    """Add two numbers."""
    in_tool()
    return a + b


def fail() -> str:
    """Fail."""
    raise ValueError("no such city")


def _call(name: str, **arguments: Any) -> Any:
    events: Any = importlib.import_module("ag2.events")
    return events.ToolCallEvent(name, arguments=json.dumps(arguments))


def _scripted(*turns: Any) -> Any:
    model: Any = importlib.import_module("ag2.testing").TestConfig
    return model(*map(_turn, turns), raise_tool_errors=False)


def _turn(turn: Any) -> Any:
    """One answer of the model, with the tokens that it took."""
    events: Any = importlib.import_module("ag2.events")
    usage = events.Usage(prompt_tokens=_USAGE[0], completion_tokens=_USAGE[1])
    if isinstance(turn, str):
        return events.ModelResponse(events.ModelMessage(turn), usage=usage)
    if isinstance(turn, (list, events.ToolCallEvent)):
        calls = turn if isinstance(turn, list) else [turn]
        return events.ModelResponse(tool_calls=events.ToolCallsEvent(calls), usage=usage)
    return turn
