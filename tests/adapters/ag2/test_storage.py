"""AG2 1.x: a storage records the sub-agents that carry no middleware, and nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag2 import Agent, MemoryStream
from ag2_agents import (
    Call,
    Steps,
    add,
    answer_blue,
    ask_human,
    entries,
    run_events,
    scripted,
)

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def pair(
    ledger: Ledger, call: Call, *turns: Any, boss: bool = True, child: bool = False, tools: Any = ()
) -> tuple[Any, AG2Recorder]:
    """A boss who delegates to a researcher; ``boss`` and ``child`` say who carries the middleware."""
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    researcher = Agent(
        "researcher",
        config=scripted(*turns),
        tools=tools,
        middleware=[recorder.middleware] if child else [],
    )
    agent = Agent(
        "boss",
        config=scripted(call("task_researcher", objective="find it"), "done"),
        tools=[researcher.as_tool(description="Find out.")],
        hitl_hook=answer_blue,
        middleware=[recorder.middleware] if boss else [],
    )
    reply = asyncio.run(agent.ask("hello", stream=MemoryStream(storage=recorder.storage())))
    assert reply.body == "done"
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
    return reply, recorder


def split(ledger: Ledger, parent: str = "run-1") -> tuple[list[Any], list[Any]]:
    everything = list(ledger.read())
    return (
        [entry for entry in everything if entry.correlation_id == parent],
        [entry for entry in everything if entry.correlation_id != parent],
    )


def test_a_sub_agent_without_the_middleware_is_a_child_run_caused_by_the_call(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    pair(ledger, call, call("add", a=1, b=2), "found", tools=[add])
    parent, child = split(ledger)
    (tool_call,) = [entry for entry in parent if entry.event_type == "execution.tool_call"]
    assert child[0].causation_id == tool_call.event_id
    assert child[0].payload["parent_run_id"] == parent[0].payload["run_id"]
    assert steps(child)[1:] == [
        ("message user", "run_started researcher"),
        ("message assistant", "message user"),
        ("tool_call add-1", "message assistant"),
        ("tool_result add-1", "tool_call add-1"),
        ("message assistant", "tool_result add-1"),
        ("run_completed", "message assistant"),
    ]
    (completed,) = entries(ledger, "system.task_completed")
    assert completed.payload["stream_id"] == child[0].correlation_id
    assert child[-1].payload["output"] == completed.payload["output"] == "found"


def test_the_middleware_and_the_storage_together_record_once(ledger: Ledger, call: Call) -> None:
    pair(ledger, call, call("add", a=1, b=2), "found", tools=[add], child=True)
    parent, child = split(ledger)
    assert len([entry for entry in child if entry.event_type == "execution.tool_call"]) == 1
    assert len([entry for entry in child if entry.event_type.startswith("execution.run_")]) == 2
    assert len([entry for entry in parent if entry.event_type == "execution.message"]) == 3


def test_a_failing_sub_agent_without_the_middleware_fails_its_own_run_only(
    ledger: Ledger, call: Call
) -> None:
    pair(ledger, call, ValueError("no such thing"))
    ends = {entry.correlation_id == "run-1": entry for entry in run_events(ledger)}
    assert ends[True].event_type == "execution.run_completed"
    assert ends[False].event_type == "execution.run_failed"
    assert ends[False].payload["error"]["type"] == "ValueError"


def test_the_question_of_a_sub_agent_without_the_middleware_belongs_to_its_run(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    pair(ledger, call, call("ask_human", question="colour?"), "blue", tools=[ask_human])
    _, child = split(ledger)
    (question,) = entries(ledger, "execution.human_input_requested")
    (answer,) = entries(ledger, "execution.human_input_received")
    assert {question.correlation_id, answer.correlation_id} == {child[0].correlation_id}
    assert answer.causation_id == question.event_id
    assert ("tool_result ask_human-1", "tool_call ask_human-1") in steps(child)


def test_without_any_middleware_the_storage_records_the_whole_tree(ledger: Ledger, call: Call) -> None:
    pair(ledger, call, "found", boss=False)
    parent, child = split(ledger)
    assert [entry.event_type.partition(".")[2] for entry in parent] == [
        "run_started",
        "message",
        "message",
        "tool_call",
        "task_started",
        "task_completed",
        "tool_result",
        "message",
        "run_completed",
    ]
    cause = ledger.get(child[0].causation_id)
    assert cause.event_type in ("execution.tool_call", "system.task_started")
    assert cause.correlation_id == "run-1"
    assert child[-1].event_type == "execution.run_completed"


def test_sub_agents_that_work_at_the_same_time_are_children_of_their_own_calls(
    ledger: Ledger, call: Call
) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    workers = [Agent(name, config=scripted(f"{name} is done")) for name in ("ann", "bob")]
    calls = [call("task_ann", objective="half"), call("task_bob", objective="half")]
    agent = Agent(
        "boss",
        config=scripted(calls, "done"),
        tools=[worker.as_tool(description="Work.") for worker in workers],
        middleware=[recorder.middleware],
    )
    asyncio.run(agent.ask("hello", stream=MemoryStream(storage=recorder.storage())))
    starts = [one for one in entries(ledger, "execution.run_started") if one.correlation_id != "run-1"]
    assert {one.payload["name"]: ledger.get(one.causation_id).payload["name"] for one in starts} == {
        "ann": "task_ann",
        "bob": "task_bob",
    }
    outputs = {
        one.payload["agent"]: one.payload.get("output")
        for one in entries(ledger, "execution.run_completed")
        if one.correlation_id != "run-1"
    }
    assert outputs == {"ann": "ann is done", "bob": "bob is done"}


def test_a_second_turn_on_a_stored_stream_resumes_it(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    agent = Agent("assistant", config=scripted("one", "two"))
    stream = MemoryStream(storage=recorder.storage())

    async def talk() -> None:
        reply = await agent.ask("first", stream=stream)
        await reply.ask("second")

    asyncio.run(talk())
    runs = run_events(ledger)
    assert [run.event_type.partition(".")[2] for run in runs] == [
        "run_started",
        "run_completed",
        "run_resumed",
        "run_completed",
    ]
    assert {run.correlation_id for run in runs} == {str(stream.id)}
    assert runs[2].causation_id == runs[1].event_id


def test_events_are_kept_in_the_storage_that_was_given(ledger: Ledger) -> None:
    from ag2.history import MemoryStorage

    inner = MemoryStorage()
    recorder = AG2Recorder(ledger)
    stream = MemoryStream(storage=recorder.storage(inner))

    async def talk() -> list[str]:
        await Agent("a", config=scripted("hi")).ask("hello", stream=stream)
        kept = [type(event).__name__ for event in await inner.get_history(stream.id)]
        assert kept == [type(event).__name__ for event in await stream.history.get_events()]
        await stream.history.storage.drop_history(stream.id)
        assert not list(await inner.get_history(stream.id))
        return kept

    assert asyncio.run(talk()) == ["ModelRequest", "ModelResponse"]


def test_a_history_that_is_replaced_leaves_a_trace(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    stream = MemoryStream(storage=recorder.storage())

    async def talk() -> None:
        await Agent("a", config=scripted("hi")).ask("hello", stream=stream)
        events = list(await stream.history.get_events())
        await stream.history.replace(events)
        await stream.history.replace(events[1:])

    asyncio.run(talk())
    (changed,) = entries(ledger, "execution.state_change")
    told = {
        key: changed.payload[key] for key in ("name", "events_before", "events_after", "taken_out", "put_in")
    }
    assert told == {
        "name": "history_replaced",
        "events_before": 2,
        "events_after": 1,
        "taken_out": 1,
        "put_in": 0,
    }
    assert changed.correlation_id == str(stream.id)


@pytest.mark.parametrize("ledger_is", ["closed", "nothing"])
def test_a_ledger_that_takes_nothing_changes_nothing_for_a_stored_stream(
    ledger: Ledger, ledger_is: str
) -> None:
    recorder = AG2Recorder(ledger)
    if ledger_is == "nothing":
        recorder.safe.ledger = None
    ledger.close()
    stream = MemoryStream(storage=recorder.storage())
    reply = asyncio.run(Agent("a", config=scripted("hi")).ask("hello", stream=stream))
    assert reply.body == "hi"
    assert recorder.safe.failures >= 1
