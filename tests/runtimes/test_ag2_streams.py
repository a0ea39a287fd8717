"""Streams, sub-agents, people, failures and channels of AG2 1.x, in every version and under every name that is here."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger, LedgerEntry
from chatsnapshot.adapters.ag2 import AG2Recorder


def _is_here(root: str) -> bool:
    try:
        return importlib.util.find_spec(f"{root}.agent") is not None
    except ModuleNotFoundError:
        return False


LINES = [root for root in ("ag2", "autogen.beta") if _is_here(root)]


class Line:
    """One AG2, by the module that it is imported as. What its version does not have yet skips the test."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.calls = 0

    def of(self, module: str, name: str) -> Any:
        return getattr(self.module(module), name)

    def module(self, name: str) -> Any:
        try:
            return importlib.import_module(f"{self.root}.{name}" if name else self.root)
        except ModuleNotFoundError:
            pytest.skip(f"{self.root} has no {name} here")

    def call(self, tool: str, **arguments: Any) -> Any:
        self.calls += 1
        events = self.module("events")
        return getattr(events, "ToolCallEvent", getattr(events, "ToolCall", None))(
            name=tool, id=f"call-{self.calls}", arguments=json.dumps(arguments)
        )

    def script(self, *turns: Any) -> Any:
        config = self.of("testing", "TestConfig")
        try:
            return config(*turns, raise_tool_errors=False)
        except TypeError:
            return config(*turns)  # AG2 1.0 and autogen.beta

    def agent(self, name: str, *turns: Any, middleware: Any = (), **options: Any) -> Any:
        return self.of("", "Agent")(name, config=self.script(*turns), middleware=list(middleware), **options)

    def ask_human(self) -> Any:
        """A tool that asks a person; made here because the context is known by its annotation."""

        async def ask_human(question: str, ctx: Any) -> str:
            """Ask a person."""
            return str(await ctx.input(question))

        ask_human.__annotations__ = {"question": str, "ctx": self.of("", "Context"), "return": str}
        return ask_human

    def hook(self, answer: str) -> Any:
        async def hook(event: Any) -> Any:
            return answer if hasattr(event, "id") else self.of("events", "HumanMessage")(content=answer)

        hook.__annotations__ = {"event": self.of("events", "HumanInputRequest")}
        return hook


@pytest.fixture(params=LINES)
def line(request: pytest.FixtureRequest) -> Line:
    return Line(request.param)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: Ledger) -> AG2Recorder:
    return AG2Recorder(ledger, correlation_id="run-1")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def explode() -> int:
    """Fail."""
    raise ValueError("the tool exploded")


def told(ledger: Ledger, event_type: str, **filters: Any) -> list[LedgerEntry]:
    return list(ledger.read(event_type=event_type, **filters))


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("explode", {}, "ValueError"),
        ("nope", {}, "ToolNotFoundError"),
        ("add", {"a": "many"}, "ValidationError"),
    ],
    ids=["failing", "unknown", "bad arguments"],
)
def test_a_tool_that_fails_leaves_a_result_with_its_error(
    line: Line, ledger: Ledger, recorder: AG2Recorder, tool: str, arguments: dict[str, Any], error: str
) -> None:
    agent = line.agent(
        "a", line.call(tool, **arguments), "sorry", tools=[add, explode], middleware=[recorder.middleware]
    )
    try:
        asyncio.run(agent.ask("go"))
    except Exception:
        # The scripted model of AG2 1.0 raises what a tool raised, after its result.
        assert "raise_tool_errors" not in line.of("testing", "TestConfig").__init__.__code__.co_varnames
    (result,) = told(ledger, "execution.tool_result")
    (call,) = told(ledger, "execution.tool_call")
    assert result.payload["error"]["type"] == error
    assert (result.causation_id, result.payload["is_error"]) == (call.event_id, True)


def test_a_failing_model_fails_the_run_after_each_attempt_was_told(
    line: Line, ledger: Ledger, recorder: AG2Recorder
) -> None:
    class Down(line.of("middleware", "BaseMiddleware")):  # type: ignore[misc]
        async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
            raise ConnectionError("the provider is down")

    retry = line.of("middleware", "RetryMiddleware")(max_retries=1, retry_on=(ConnectionError,))
    down = line.of("middleware", "Middleware")(Down)
    agent = line.agent("a", "never", middleware=[retry, recorder.middleware, down])
    with pytest.raises(ConnectionError):
        asyncio.run(agent.ask("hello"))
    attempts = told(ledger, "execution.model_call")
    assert [one.payload["attempt"] for one in attempts] == [1, 2]
    assert all(one.payload["error"]["type"] == "ConnectionError" for one in attempts)
    (failed,) = told(ledger, "execution.run_failed")
    assert failed.payload["error"]["message"] == "the provider is down"


@pytest.mark.parametrize("answered", [True, False], ids=["with a hook", "without a hook"])
def test_a_question_to_a_person_is_recorded_with_and_without_a_hook(
    line: Line, ledger: Ledger, recorder: AG2Recorder, answered: bool
) -> None:
    agent = line.agent(
        "a",
        line.call("ask_human", question="colour?"),
        "done",
        tools=[line.ask_human()],
        middleware=[recorder.middleware],
        hitl_hook=line.hook("blue") if answered else None,
    )
    try:
        asyncio.run(agent.ask("paint"))
    except Exception:
        assert not answered
    (question,) = told(ledger, "execution.human_input_requested")
    (call,) = told(ledger, "execution.tool_call")
    assert question.causation_id == call.event_id
    answers = told(ledger, "execution.human_input_received")
    assert [one.causation_id for one in answers] == [question.event_id] * answered
    ends = [
        one for kind in ("completed", "failed", "paused") for one in told(ledger, f"execution.run_{kind}")
    ]
    assert len(ends) == 1


@pytest.mark.parametrize("inner", [True, False], ids=["with the middleware", "through the storage"])
def test_a_sub_agent_is_a_child_run_caused_by_the_call(
    line: Line, ledger: Ledger, recorder: AG2Recorder, inner: bool
) -> None:
    child = line.agent(
        "helper",
        line.call("add", a=1, b=2),
        "42",
        tools=[add],
        middleware=[recorder.named("helper")] if inner else [],
    )
    if not hasattr(child, "as_tool"):
        pytest.skip("agents are no tools in this version")
    boss = line.agent(
        "boss",
        line.call("task_helper", objective="think"),
        "done",
        tools=[child.as_tool(description="Think.")],
        middleware=[recorder.named("boss")],
    )
    stream = line.of("", "MemoryStream")(storage=recorder.storage())
    assert asyncio.run(boss.ask("hello", stream=stream)).body == "done"
    inside = [one for one in ledger.read() if one.correlation_id != "run-1"]
    assert ledger.get(inside[0].causation_id).payload["name"] == "task_helper"
    kinds = [one.event_type.partition(".")[2] for one in inside if one.event_type != "execution.model_call"]
    assert kinds == [
        "run_started",
        "message",
        "message",
        "tool_call",
        "tool_result",
        "message",
        "run_completed",
    ]
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)


def test_a_cancelled_turn_is_a_cancelled_run_with_an_open_call(
    line: Line, ledger: Ledger, recorder: AG2Recorder
) -> None:
    started = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = line.agent("a", line.call("wait"), "-", tools=[wait], middleware=[recorder.middleware])

    async def cancel() -> None:
        task = asyncio.ensure_future(agent.ask("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert recorder.safe.flush(timeout=10)
    assert [one.event_type for one in ledger.read()][-2:] == [
        "execution.tool_call",
        "execution.run_cancelled",
    ]


def test_compaction_tells_how_many_events_it_replaced(
    line: Line, ledger: Ledger, recorder: AG2Recorder
) -> None:
    knowledge = (
        line.of("knowledge", "KnowledgeConfig")
        if hasattr(line.module("knowledge"), "KnowledgeConfig")
        else line.of("", "KnowledgeConfig")
    )
    agent = line.agent(
        "a",
        "one",
        "two",
        middleware=[recorder.middleware],
        knowledge=knowledge(
            store=line.of("knowledge", "MemoryKnowledgeStore")(),
            compact=line.of("compact", "TailWindowCompact")(2),
            compact_trigger=line.of("compact", "CompactTrigger")(max_events=3),
        ),
    )

    async def talk() -> None:
        reply = await agent.ask("first", stream=line.of("", "MemoryStream")())
        await reply.ask("second")

    asyncio.run(talk())
    (changed,) = told(ledger, "execution.state_change")
    assert (changed.payload["events_before"], changed.payload["events_after"]) == (4, 2)


def test_a_workflow_is_a_run_with_a_handoff_and_child_runs(line: Line, ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    network = line.module("network")

    def route(q: str) -> Any:
        """Route a question."""
        return network.Handoff(target="specialist", reason="needs a specialist")

    route.__annotations__ = {"q": str, "return": network.Handoff}
    agents = [
        line.agent("customer", ""),
        line.agent(
            "triage",
            line.call("route", q="x"),
            "routed",
            tools=[route],
            middleware=[recorder.named("triage")],
        ),
        line.agent("specialist", "the answer", middleware=[recorder.named("specialist")]),
    ]

    async def work() -> str:
        hub = await network.Hub.open(line.of("knowledge", "MemoryKnowledgeStore")())
        hub.register_listener(recorder.hub_listener(hub))
        hub.register_adapter(network.WorkflowAdapter())
        client = network.HubClient(network.LocalLink(hub), hub=hub)
        await client.open()
        customer, triage, _ = [await register(line, network, client, agent) for agent in agents]
        graph = network.TransitionGraph(
            initial_speaker=customer.agent_id,
            transitions=[
                network.Transition(
                    network.FromSpeaker(customer.agent_id), network.AgentTarget(triage.agent_id)
                )
            ],
            default_target=network.TerminateTarget(reason="all done"),
        )
        channel = await customer.open(
            type="workflow", target=["triage", "specialist"], knobs={"graph": graph.to_dict()}
        )
        await channel.send("help me")
        while not (await channel.info()).is_terminal():
            await asyncio.sleep(0.005)
        assert await recorder.import_channel(hub, channel.channel_id) == 0
        await client.close()
        await hub.close()
        return str(channel.channel_id)

    channel_id = asyncio.run(asyncio.wait_for(work(), 30))
    inside = [one.event_type.partition(".")[2] for one in ledger.read(correlation_id=channel_id)]
    assert inside == ["run_started", "message", "message", "handoff", "message", "run_completed"]
    (handoff,) = told(ledger, "execution.handoff")
    assert (handoff.payload["from"], handoff.payload["to"]) == ("triage", "specialist")
    turns = [one for one in told(ledger, "execution.run_started") if one.correlation_id != channel_id]
    assert {one.payload["name"]: ledger.get(one.causation_id).source.name for one in turns} == {
        "triage": "customer",
        "specialist": "triage",
    }
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)


async def register(line: Line, network: Any, client: Any, agent: Any) -> Any:
    try:
        return await client.register(agent)
    except TypeError:
        # Before AG2 1.2 who an agent is has to be said.
        return await client.register(agent, network.Passport(name=agent.name), network.Resume())


def test_a_stream_that_stores_everything_is_recorded_by_its_storage(line: Line, ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    options = (
        {"persist_all": True} if "persist_all" in str(inspect.signature(line.of("", "MemoryStream"))) else {}
    )
    stream = line.of("", "MemoryStream")(storage=recorder.storage(), **options)
    asyncio.run(line.agent("a", "hi").ask("hello", stream=stream))
    assert [one.event_type.partition(".")[2] for one in ledger.read()] == [
        "run_started",
        "message",
        "message",
        "run_completed",
    ]
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
