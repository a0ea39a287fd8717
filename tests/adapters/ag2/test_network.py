"""AG2 1.x: a channel of the agent network is a run, in the order of its log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ag2 import Agent
from ag2.knowledge import MemoryKnowledgeStore, SqliteKnowledgeStore
from ag2.network import (
    AgentTarget,
    FromSpeaker,
    Handoff,
    Hub,
    HubClient,
    LocalLink,
    Passport,
    Resume,
    TerminateTarget,
    Transition,
    TransitionGraph,
    WorkflowAdapter,
)
from ag2.network.hub.listener import BaseHubListener
from ag2_agents import Call, Steps, entries, scripted

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def route(q: str) -> Handoff:
    """Route a question."""
    return Handoff(target="specialist", reason="needs a specialist")


class Net:
    """A hub with a recorded team: triage hands on to the specialist, the graph goes on to the closer."""

    def __init__(self, recorder: AG2Recorder, call: Call, *, specialist: Any = "the answer") -> None:
        self.recorder = recorder
        middleware = [recorder.middleware]
        self.agents = {
            "customer": Agent("customer", config=scripted("")),
            "triage": Agent(
                "triage",
                config=scripted(call("route", q="x"), "routed"),
                tools=[route],
                middleware=middleware,
            ),
            "specialist": Agent("specialist", config=scripted(specialist), middleware=middleware),
            "closer": Agent("closer", config=scripted("bye"), middleware=middleware),
        }

    async def open(self, store: Any, *, listen: bool = True) -> None:
        self.hub = await Hub.open(store)
        if listen:
            self.listener = self.recorder.hub_listener(self.hub)
            self.hub.register_listener(self.listener)
        self.hub.register_adapter(WorkflowAdapter())
        self.client = HubClient(LocalLink(self.hub), hub=self.hub)
        await self.client.open()
        self.members = {name: await self.client.register(agent) for name, agent in self.agents.items()}

    async def channel(self, **knobs: Any) -> Any:
        ids = {name: member.agent_id for name, member in self.members.items()}
        graph = TransitionGraph(
            initial_speaker=ids["customer"],
            transitions=[
                Transition(FromSpeaker(ids["customer"]), AgentTarget(ids["triage"])),
                Transition(FromSpeaker(ids["specialist"]), AgentTarget(ids["closer"])),
            ],
            default_target=TerminateTarget(reason="all done"),
        )
        return await self.members["customer"].open(
            type="workflow",
            target=["triage", "specialist", "closer"],
            knobs={"graph": graph.to_dict(), "context_vars": {"n": 0}, **knobs},
        )

    async def until_closed(self, channel: Any) -> None:
        while not (await channel.info()).is_terminal():
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        await self.client.close()
        await self.hub.close()


def run(work: Callable[[], Any]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work(), 30)

    return asyncio.run(bounded())


@pytest.fixture
def recorder(ledger: Ledger) -> AG2Recorder:
    return AG2Recorder(ledger)


def workflow(net: Net) -> str:
    async def work() -> str:
        await net.open(MemoryKnowledgeStore())
        channel = await net.channel()
        await channel.send("help me")
        await net.until_closed(channel)
        await net.close()
        return str(channel.channel_id)

    return str(run(work))


def test_a_channel_is_a_run_told_in_the_order_of_its_log(
    ledger: Ledger, recorder: AG2Recorder, steps: Steps, call: Call
) -> None:
    channel_id = workflow(Net(recorder, call))
    told = entries(ledger, correlation_id=channel_id)
    assert [(one.event_type.partition(".")[2], one.source.name) for one in told] == [
        ("run_started", "customer"),
        ("message", "customer"),
        ("message", "triage"),
        ("handoff", "triage"),
        ("message", "specialist"),
        ("message", "closer"),
        ("run_completed", "customer"),
    ]
    assert [one.causation_id for one in told] == [None, *[one.event_id for one in told[:-1]]]
    assert told[0].payload["participants"][1]["name"] == "triage"
    assert told[0].payload["knobs"]["context_vars"] == {"n": 0}
    assert (told[-1].payload["reason"], told[-1].payload["status"]) == ("all done", "ok")
    assert {one.payload["run_id"] for one in told} == {channel_id}
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)


def test_a_handoff_names_both_agents_and_keeps_what_ag2_says_of_causes(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    channel_id = workflow(Net(recorder, call))
    (handoff,) = entries(ledger, "execution.handoff")
    told = {key: handoff.payload[key] for key in ("from", "to", "tool", "reason")}
    assert told == {"from": "triage", "to": "specialist", "tool": "route", "reason": "needs a specialist"}
    envelopes = [
        one.payload["native"]["data"]
        for one in entries(ledger, "execution.message", correlation_id=channel_id)
    ]
    assert [one["envelope_id"] for one in envelopes] == sorted(one["envelope_id"] for one in envelopes)
    assert envelopes[1]["causation_id"] == envelopes[0]["envelope_id"]


def test_the_turns_of_agents_are_child_runs_caused_by_the_packet_they_answer(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    channel_id = workflow(Net(recorder, call))
    said = {one.source.name: one for one in entries(ledger, "execution.message", correlation_id=channel_id)}
    turns = {
        one.payload["name"]: one
        for one in entries(ledger, "execution.run_started")
        if one.correlation_id != channel_id
    }
    assert {name: ledger.get(one.causation_id).source.name for name, one in turns.items()} == {
        "triage": "customer",
        "specialist": "triage",
        "closer": "specialist",
    }
    assert turns["closer"].causation_id == said["specialist"].event_id
    assert ledger.get(turns["specialist"].causation_id).event_type == "execution.handoff"
    assert {one.payload["parent_run_id"] for one in turns.values()} == {channel_id}
    assert all(ledger.get(one.causation_id).position < one.position for one in turns.values())
    whole = [one.event_id for one in ledger.replay(channel_id, children=True)]
    assert whole == [one.event_id for one in ledger.read()]


def test_reading_the_log_again_adds_nothing(ledger: Ledger, recorder: AG2Recorder, call: Call) -> None:
    net = Net(recorder, call)

    async def work() -> list[int]:
        await net.open(MemoryKnowledgeStore())
        channel = await net.channel()
        await channel.send("help me")
        await net.until_closed(channel)
        counts = [await recorder.import_channel(net.hub, channel.channel_id)]
        with chatsnapshot.open("memory:") as other:
            counts.append(await AG2Recorder(other).import_channel(net.hub, channel.channel_id))
            again = [one.event for one in other.read()]
        live = [one.event for one in ledger.read(correlation_id=channel.channel_id)]
        assert [one.to_json() for one in again] == [one.to_json() for one in live]
        await net.close()
        return counts

    assert run(work) == [0, 7]


def test_what_a_ledger_missed_is_taken_from_the_log_later(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    net = Net(recorder, call)

    async def work() -> int:
        await net.open(MemoryKnowledgeStore(), listen=False)
        channel = await net.channel()
        await channel.send("help me")
        await net.until_closed(channel)
        added = await recorder.import_channel(net.hub, channel.channel_id)
        assert await recorder.import_channel(net.hub, channel.channel_id) == 0
        await net.close()
        return added

    assert run(work) == 7


def test_a_turn_that_fails_is_an_error_of_the_channel_and_fails_its_own_run(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    net = Net(recorder, call, specialist=ConnectionError("the provider is down"))

    async def work() -> None:
        await net.open(MemoryKnowledgeStore())
        channel = await net.channel()
        await channel.send("help me")
        while not list(ledger.read(event_type="system.error")):
            await asyncio.sleep(0.005)
        await channel.close("given up")
        await net.close()

    run(work)
    (error,) = entries(ledger, "system.error")
    assert (error.payload["name"], error.payload["error"]["type"]) == ("turn_failed", "ConnectionError")
    assert error.source.name == "specialist"
    assert ledger.get(error.causation_id).source.name == "triage"
    (failed,) = entries(ledger, "execution.run_failed")
    assert failed.correlation_id != error.correlation_id
    end = entries(ledger, correlation_id=error.correlation_id)[-1]
    assert (end.event_type, end.payload["reason"]) == ("execution.run_completed", "given up")


def test_a_channel_that_expires_is_a_cancelled_run(ledger: Ledger, recorder: AG2Recorder, call: Call) -> None:
    net = Net(recorder, call)

    async def work() -> str:
        await net.open(MemoryKnowledgeStore())
        channel = await net.members["customer"].open(type="conversation", target=["closer"], ttl="1s")
        net.hub._clock = lambda: "2999-01-01T00:00:00+00:00"
        await net.hub.expire_due()
        await net.close()
        return str(channel.channel_id)

    channel_id = run(work)
    assert [one.event_type for one in entries(ledger, correlation_id=channel_id)] == [
        "execution.run_started",
        "execution.run_cancelled",
    ]


def test_context_that_an_agent_sets_is_a_change_of_state(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    net = Net(recorder, call)

    async def work() -> None:
        await net.open(MemoryKnowledgeStore())
        channel = await net.channel()
        await channel.send("", event_type="ag2.context.set", event_data={"set": {"n": 1}, "delete": ["m"]})
        await channel.send("", event_type="shop.Refund issued", event_data={"amount": 5})
        await net.close()

    run(work)
    (changed,) = entries(ledger, "execution.state_change")
    assert (changed.payload["name"], changed.payload["set"], changed.payload["delete"]) == (
        "context",
        {"n": 1},
        ["m"],
    )
    (own,) = entries(ledger, "ag2.shop.refund_issued")
    assert own.payload["data"] == {"amount": 5}


def test_an_envelope_that_is_refused_is_recorded_beside_the_log(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    net = Net(recorder, call)

    async def work() -> None:
        await net.open(MemoryKnowledgeStore())
        channel = await net.channel()
        from ag2.network.envelope import Envelope

        out_of_turn = Envelope(
            channel.channel_id, net.members["closer"].agent_id, None, "ag2.msg.text", {"text": "me"}
        )
        with pytest.raises(Exception, match="to speak"):
            await net.members["closer"].send_envelope(out_of_turn)
        await net.close()

    run(work)
    (refused,) = entries(ledger, "execution.state_change")
    assert (refused.payload["name"], refused.source.name) == ("envelope_rejected", "closer")
    assert not entries(ledger, "execution.message")


def test_a_channel_that_goes_on_after_a_restart_is_resumed_and_nothing_is_doubled(
    ledger: Ledger, call: Call, tmp_path: Any
) -> None:
    async def begin() -> str:
        net = Net(AG2Recorder(ledger), call)
        await net.open(SqliteKnowledgeStore(str(tmp_path / "hub.db")))
        channel = await net.members["customer"].open(type="conversation", target=["closer"])
        await net.close()
        return str(channel.channel_id)

    async def go_on(channel_id: str) -> None:
        recorder = AG2Recorder(ledger)
        hub = await Hub.open(SqliteKnowledgeStore(str(tmp_path / "hub.db")))
        hub.register_listener(recorder.hub_listener(hub))
        client = HubClient(LocalLink(hub), hub=hub)
        await client.open()
        closer = Agent("closer", config=scripted("here I am"), middleware=[recorder.middleware])
        customer = await client.attach(Agent("customer", config=scripted("")), "customer")
        await client.attach(closer, "closer")
        from ag2.network.envelope import Envelope

        await customer.send_envelope(
            Envelope(channel_id, customer.agent_id, None, "ag2.msg.text", {"text": "are you there?"})
        )
        while not list(ledger.read(correlation_id=channel_id, name="closer", event_type="execution.message")):
            await asyncio.sleep(0.005)
        await hub.close_channel(channel_id)
        await client.close()
        await hub.close()
        assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)

    channel_id = run(begin)
    first = entries(ledger, correlation_id=channel_id)
    run(lambda: go_on(channel_id))
    told = entries(ledger, correlation_id=channel_id)
    assert [one.event_type.partition(".")[2] for one in told] == [
        "run_started",
        "run_resumed",
        "message",
        "message",
        "run_completed",
    ]
    assert told[1].causation_id == first[-1].event_id


def test_a_channel_opened_inside_a_tool_is_a_child_run(ledger: Ledger, call: Call) -> None:
    recorder = AG2Recorder(ledger)
    net = Net(recorder, call)

    async def work() -> str:
        await net.open(MemoryKnowledgeStore())

        async def consult(question: str) -> str:
            """Open a channel."""
            channel = await net.members["customer"].open(type="conversation", target=["closer"])
            await channel.close("asked")
            return str(channel.channel_id)

        boss = Agent(
            "boss",
            config=scripted(call("consult", question="?"), "done"),
            tools=[consult],
            middleware=[recorder.middleware],
        )
        await boss.ask("hello")
        await net.close()
        return str(entries(ledger, "execution.tool_result")[0].payload["result"])

    channel_id = run(work)
    start = entries(ledger, correlation_id=channel_id)[0]
    (tool_call,) = entries(ledger, "execution.tool_call")
    assert start.causation_id == tool_call.event_id
    assert start.payload["parent_run_id"] == tool_call.payload["run_id"]


def test_a_ledger_that_fails_leaves_a_network_as_it_is(call: Call) -> None:
    ledger = chatsnapshot.open("memory:")
    ledger.close()
    recorder = AG2Recorder(ledger)
    workflow(Net(recorder, call))
    assert recorder.safe.failures >= 1
    assert recorder.safe.dropped >= 7


def test_what_a_listener_gets_wrong_is_counted(ledger: Ledger, recorder: AG2Recorder, call: Call) -> None:
    net = Net(recorder, call)

    async def work() -> None:
        await net.open(MemoryKnowledgeStore())
        await net.listener.on_channel_event("no such channel", "opened", {})
        await net.close()

    run(work)
    assert recorder.safe.failures == 1


def test_what_a_person_says_in_a_channel_is_said_by_a_user(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    net = Net(recorder, call)

    async def work() -> str:
        await net.open(MemoryKnowledgeStore())
        person = await net.client.register_human(Passport(name="maria"), resume=Resume())
        channel = await person.open(type="conversation", target=["closer"])
        await channel.send("are you there?")
        while len(entries(ledger, "execution.message", channel.channel_id)) < 2:
            await asyncio.sleep(0.005)
        await channel.close()
        await net.close()
        return str(channel.channel_id)

    said = entries(ledger, "execution.message", run(work))
    spoken = [(one.payload["role"], one.payload["name"]) for one in said]
    assert spoken == [("user", "maria"), ("assistant", "closer")]


def test_a_line_of_the_log_that_cannot_be_read_is_counted_and_the_others_are_recorded(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    net = Net(recorder, call)

    async def work() -> str:
        await net.open(MemoryKnowledgeStore())
        channel = await net.channel()
        await channel.send("", event_type="ag2.context.set", event_data={"set": {"n": 1}})
        net.hub._clock = lambda: "no time at all"
        await channel.send("", event_type="ag2.context.set", event_data={"set": {"n": 2}})
        net.hub._clock = lambda: "2999-01-01T00:00:00+00:00"
        await channel.send("", event_type="ag2.context.set", event_data={"set": {"n": 3}})
        await net.close()
        return str(channel.channel_id)

    channel_id = run(work)
    changes = entries(ledger, "execution.state_change", channel_id)
    assert [one.payload["set"]["n"] for one in changes] == [1, 3]
    assert changes[1].causation_id == changes[0].event_id
    assert recorder.safe.failures == 1


def test_only_a_hub_can_be_listened_to(recorder: AG2Recorder) -> None:
    with pytest.raises(TypeError, match="no hub of AG2"):
        recorder.hub_listener(object())


def test_a_ledger_that_hangs_holds_a_network_up_once(ledger: Ledger, call: Call) -> None:
    released = threading.Event()

    class Hanging:
        def record_many(self, events: Any) -> Any:
            assert released.wait(60)
            return ledger.record_many(events)

        async def arecord_many(self, events: Any) -> Any:
            return await asyncio.to_thread(self.record_many, events)

        async def aget(self, event_id: str) -> Any:
            return await asyncio.to_thread(released.wait, 60)

    recorder = AG2Recorder(Hanging(), wait_seconds_max=0.05)

    async def work() -> str:
        net = Net(recorder, call)
        await net.open(MemoryKnowledgeStore())
        channel = await net.channel()
        await channel.send("help me")
        await net.until_closed(channel)
        released.set()
        await net.close()
        return str(channel.channel_id)

    channel_id = run(work)
    assert recorder.safe.flush(timeout=10)
    assert [one.event_type.partition(".")[2] for one in ledger.read(correlation_id=channel_id)] == [
        "run_started",
        "message",
        "message",
        "handoff",
        "message",
        "message",
        "run_completed",
    ]


def test_the_log_gives_the_order_however_late_a_hub_tells(
    ledger: Ledger, recorder: AG2Recorder, call: Call
) -> None:
    net = Net(recorder, call)

    class Slow(BaseHubListener):
        """Stands before ours, and holds the earlier envelopes up longer."""

        left = 12

        async def on_envelope_posted(self, envelope: Any, metadata: Any) -> None:
            self.left -= 1
            for _ in range(max(self.left, 0) * 3):
                await asyncio.sleep(0)

    async def work() -> tuple[str, list[str]]:
        await net.open(MemoryKnowledgeStore(), listen=False)
        net.hub.register_listener(Slow())
        told: list[str] = []

        class Told(BaseHubListener):
            async def on_envelope_posted(self, envelope: Any, metadata: Any) -> None:
                if envelope.event_type == "ag2.context.set":
                    told.append(envelope.envelope_id)

        net.hub.register_listener(Told())
        net.hub.register_listener(recorder.hub_listener(net.hub))
        channel = await net.channel()
        sets = [
            channel.send("", event_type="ag2.context.set", event_data={"set": {"n": n}}) for n in range(10)
        ]
        await asyncio.gather(*sets)
        log = [one.envelope_id for one in await net.hub.read_wal(channel.channel_id)]
        await net.close()
        assert told != sorted(told), "the hub tells out of order here"
        return str(channel.channel_id), log

    channel_id, log = run(work)
    changes = entries(ledger, "execution.state_change", channel_id)
    assert [one.payload["native"]["data"]["envelope_id"] for one in changes] == log[-10:]
    assert len({one.causation_id for one in changes}) == 10
