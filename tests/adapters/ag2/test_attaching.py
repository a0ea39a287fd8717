"""AG2 1.x: how the recorder sits on an agent and its stream, and what else it sees there."""

from __future__ import annotations

import asyncio
import gc

from ag2 import Agent, Context, MemoryStream
from ag2.events import ModelRequest, TextInput
from ag2.events.base import BaseEvent
from ag2_agents import (
    Call,
    entries,
    run_one,
    scripted,
)

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def test_the_middleware_given_twice_records_once(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware, recorder.middleware])
    asyncio.run(agent.ask("hello", middleware=[recorder.middleware]))
    assert len(entries(ledger)) == 5


def test_recorders_of_two_ledgers_each_record_the_turn(ledger: Ledger) -> None:
    with chatsnapshot.open("memory:") as other:
        both = [AG2Recorder(one, correlation_id="run-1").middleware for one in (ledger, other)]
        asyncio.run(Agent("a", config=scripted("hi"), middleware=both).ask("hello"))
        kinds = [entry.event_type for entry in entries(ledger)]
        assert len(kinds) == 5
        assert [entry.event_type for entry in other.read()] == kinds


def test_a_run_that_is_never_driven_leaves_nothing_on_its_stream(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware])
    stream = MemoryStream()

    async def open_only() -> None:
        async with agent.run("hello", stream=stream):
            pass
        gc.collect()
        assert not stream._interrupters
        await agent.ask("hello", stream=stream)
        assert not stream._interrupters

    asyncio.run(open_only())
    assert len(entries(ledger)) == 5


def test_an_event_of_the_applications_own_is_recorded(ledger: Ledger, call: Call) -> None:
    class RefundIssued(BaseEvent):
        amount: int

    async def refund(amount: int, ctx: Context) -> str:
        """Refund."""
        await ctx.send(RefundIssued(amount=amount))
        return "refunded"

    run_one(ledger, scripted(call("refund", amount=5), "ok"), [refund])
    (entry,) = entries(ledger, "ag2.refund_issued")
    assert entry.payload["native"]["data"]["amount"] == 5


def test_what_a_tool_records_itself_belongs_to_the_run_and_its_call(ledger: Ledger, call: Call) -> None:
    async def book(room: str) -> str:
        """Book a room; the sync and the async way to record."""
        ledger.record("integration.call", {"service": "hotel"})
        await ledger.arecord("integration.response", {"service": "hotel", "status": 200})
        return "booked"

    run_one(ledger, scripted(call("book", room="7"), "ok"), [book])
    (tool_call,) = entries(ledger, "execution.tool_call")
    own = entries(ledger, "integration.*")
    assert len(own) == 2
    assert {(entry.correlation_id, entry.causation_id) for entry in own} == {("run-1", tool_call.event_id)}


def test_a_cause_can_be_given(ledger: Ledger) -> None:
    task = ledger.record("system.task_started", {"task_id": "t1"}, correlation_id="case-7")
    recorder = AG2Recorder(ledger, correlation_id="case-7/triage", cause=task)
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware])
    asyncio.run(agent.ask("hello"))
    assert entries(ledger, correlation_id="case-7/triage")[0].causation_id == task.event_id


def test_messages_that_are_enqueued_while_the_agent_works_are_recorded(ledger: Ledger, call: Call) -> None:
    async def remind(ctx: Context) -> str:
        """Put a message into the inbox."""
        ctx.stream.enqueue(TextInput("one more thing"))
        return "ok"

    run_one(ledger, scripted(call("remind"), "noted"), [remind])
    users = [
        entry.payload for entry in entries(ledger, "execution.message") if entry.payload["role"] == "user"
    ]
    assert [user["parts"][0]["content"] for user in users] == ["hello", "one more thing"]


def test_an_interrupter_that_changes_an_event_is_still_obeyed(ledger: Ledger) -> None:
    stream = MemoryStream()

    async def shout(event: BaseEvent) -> BaseEvent:
        if isinstance(event, ModelRequest):
            return ModelRequest([TextInput("HELLO")])
        return event

    stream.subscribe(shout, interrupt=True)
    run_one(ledger, scripted("hi"), stream=stream)
    user = entries(ledger, "execution.message")[0].payload
    assert user["parts"] == [{"type": "text", "content": "HELLO"}]
