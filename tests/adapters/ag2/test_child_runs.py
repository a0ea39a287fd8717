"""AG2 1.x: agents that other agents and applications ask are runs below theirs."""

from __future__ import annotations

import asyncio

import pytest
from ag2 import Agent
from ag2_agents import (
    Call,
    Steps,
    add,
    ask_human,
    entries,
    run_events,
    run_pair,
    scripted,
)

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def test_a_sub_agent_is_a_child_run_caused_by_the_tool_call(ledger: Ledger, steps: Steps, call: Call) -> None:
    run_pair(ledger, call, call("add", a=1, b=2), "found", tools=[add])
    parent = entries(ledger, correlation_id="run-1")
    (tool_call,) = [entry for entry in parent if entry.event_type == "execution.tool_call"]
    child = [entry for entry in ledger.read() if entry.correlation_id != "run-1"]
    assert len({entry.correlation_id for entry in child}) == 1
    assert child[0].event_type == "execution.run_started"
    assert child[0].causation_id == tool_call.event_id
    assert child[0].payload["parent_run_id"] == parent[0].payload["run_id"]
    assert steps(child)[1:] == [
        ("message user", "run_started researcher"),
        ("model_call", "message user"),
        ("message assistant", "model_call"),
        ("tool_call add-1", "message assistant"),
        ("tool_result add-1", "tool_call add-1"),
        ("model_call", "tool_result add-1"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]
    assert [entry.event_id for entry in ledger.replay("run-1", children=True)] == [
        e.event_id for e in ledger.read()
    ]


def test_a_delegation_is_a_task_of_the_parent(ledger: Ledger, call: Call) -> None:
    run_pair(ledger, call, "found")
    (tool_call,) = entries(ledger, "execution.tool_call")
    started, completed = entries(ledger, "system.*")
    assert started.causation_id == tool_call.event_id
    assert (started.payload["name"], started.payload["objective"]) == ("researcher", "find it")
    assert completed.causation_id == started.event_id
    assert completed.payload["output"] == "found"
    (child,) = {entry.correlation_id for entry in ledger.read()} - {"run-1"}
    assert completed.payload["stream_id"] == child


def test_a_failing_sub_agent_fails_its_own_run_only(ledger: Ledger, call: Call) -> None:
    reply = run_pair(ledger, call, ValueError("no such thing"))
    assert reply.body == "done"
    ends = {entry.correlation_id == "run-1": entry.event_type for entry in run_events(ledger)}
    assert ends == {True: "execution.run_completed", False: "execution.run_failed"}
    assert entries(ledger, "system.task_failed")[0].payload["error"]["type"] == "ValueError"


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "without the middleware"])
def test_the_question_of_a_sub_agent_is_asked_and_answered_once(
    ledger: Ledger, call: Call, recorded: bool
) -> None:
    run_pair(
        ledger, call, call("ask_human", question="colour?"), "blue", recorded=recorded, tools=[ask_human]
    )
    (question,) = entries(ledger, "execution.human_input_requested")
    (answer,) = entries(ledger, "execution.human_input_received")
    assert answer.causation_id == question.event_id
    assert (question.correlation_id == "run-1") is not recorded
    cause = ledger.get(question.causation_id)
    assert cause.payload["name"] == ("ask_human" if recorded else "task_researcher")


def test_an_agent_that_a_tool_asks_by_itself_is_a_child_run(ledger: Ledger, call: Call) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    helper = Agent("helper", config=scripted("42"), middleware=[recorder.middleware])

    async def consult(question: str) -> str:
        """Ask another agent."""
        return (await helper.ask(question)).body or ""

    script = scripted(call("consult", question="?"), "done")
    agent = Agent("boss", config=script, tools=[consult], middleware=[recorder.middleware])
    asyncio.run(agent.ask("hello"))
    (tool_call,) = entries(ledger, "execution.tool_call")
    child = next(entry for entry in ledger.read() if entry.correlation_id != "run-1")
    assert child.causation_id == tool_call.event_id


def test_what_others_say_to_an_agent_is_not_said_by_it(ledger: Ledger, call: Call) -> None:
    run_pair(ledger, call, call("ask_human", question="colour?"), "blue", tools=[ask_human])
    asked, delegated = [
        (entry.source.name, entry.payload.get("name"), entry.payload["recipient"])
        for entry in entries(ledger, "execution.message")
        if entry.payload["role"] == "user"
    ]
    assert asked == (None, None, "boss")
    assert delegated == ("boss", "boss", "researcher")
    (answer,) = entries(ledger, "execution.human_input_received")
    assert (answer.source.name, answer.payload["recipient"]) == (None, "researcher")
    assert "agent" not in answer.payload


def test_an_agent_asked_inside_a_run_of_the_application_is_its_child(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware])

    async def work() -> None:
        async with ledger.run(correlation_id="case-7", name="case"):
            await agent.ask("hello")

    asyncio.run(work())
    outer = entries(ledger, correlation_id="case-7")
    child = next(entry for entry in ledger.read() if entry.correlation_id != "case-7")
    assert child.event_type == "execution.run_started"
    assert child.causation_id == outer[0].event_id
    assert child.payload["parent_run_id"] == "case-7"
