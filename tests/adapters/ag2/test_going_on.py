"""AG2 1.x: a conversation that goes on knows what stopped it, and what was written into its history meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag2 import Agent, KnowledgeConfig, MemoryStream
from ag2.compact import CompactTrigger, TailWindowCompact
from ag2.events import ToolCallEvent, ToolResultEvent, ToolResultsEvent
from ag2.exceptions import HumanInputNotProvidedError
from ag2.history import close_unanswered_tool_calls
from ag2.knowledge import MemoryKnowledgeStore
from ag2_agents import Call, Steps, ask_human, entries, run_events, scripted

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def stopped_by_a_question(recorder: AG2Recorder, asked: ToolCallEvent, stream: MemoryStream) -> list[Any]:
    """A recorded turn that ends at a question nobody answers; gives its history up to the call."""
    agent = Agent("assistant", config=scripted(asked), tools=[ask_human], middleware=[recorder.middleware])

    async def stop() -> list[Any]:
        with pytest.raises(HumanInputNotProvidedError):
            await agent.ask("paint", stream=stream)
        return list(await stream.history.get_events())

    history = asyncio.run(stop())
    calls = next(at for at, event in enumerate(history) if type(event).__name__ == "ToolCallsEvent")
    return history[: calls + 1]


def go_on(recorder: AG2Recorder, history: list[Any], asked: ToolCallEvent, stream: MemoryStream) -> None:
    result = ToolResultsEvent([ToolResultEvent.from_call(asked, "blue")])
    agent = Agent(
        "assistant", config=scripted("blue it is"), tools=[ask_human], middleware=[recorder.middleware]
    )
    assert asyncio.run(agent.resume(*history, result, stream=stream)).body == "blue it is"


@pytest.mark.parametrize("restarted", [False, True], ids=["same process", "another recorder"])
def test_a_turn_that_goes_on_with_the_answer_to_a_question_is_caused_by_it(
    ledger: Ledger, steps: Steps, call: Call, restarted: bool
) -> None:
    asked, stream = call("ask_human", question="colour?"), MemoryStream()
    recorder = AG2Recorder(ledger)
    history = stopped_by_a_question(recorder, asked, stream)
    go_on(AG2Recorder(ledger) if restarted else recorder, history, asked, stream)
    (question,) = entries(ledger, "execution.human_input_requested")
    (answer,) = entries(ledger, "execution.human_input_received")
    assert (answer.causation_id, answer.payload["answer"]) == (question.event_id, "blue")
    assert answer.payload["answers"] == question.payload["question_id"]
    assert answer.payload["run_id"] == question.payload["run_id"]
    paused, resumed = run_events(ledger)[-3:-1]
    assert paused.event_type == "execution.run_paused"
    assert (resumed.event_type, resumed.causation_id) == ("execution.run_resumed", answer.event_id)
    assert question.position < paused.position < answer.position < resumed.position
    assert steps(ledger.read())[-4:] == [
        ("tool_result ask_human-1", "tool_call ask_human-1"),
        ("model_call", "tool_result ask_human-1"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]


def test_a_turn_that_goes_on_after_an_answer_is_caused_by_the_answer(ledger: Ledger, call: Call) -> None:
    asked, stream = call("ask_human", question="colour?"), MemoryStream()
    recorder = AG2Recorder(ledger)
    history = stopped_by_a_question(recorder, asked, stream)
    (question,) = entries(ledger, "execution.human_input_requested")
    answer = ledger.record(
        "execution.human_input_received",
        {"answer": "blue", "answers": question.payload["question_id"]},
        correlation_id=question.correlation_id,
        causation_id=question,
    )
    go_on(recorder, history, asked, stream)
    assert run_events(ledger)[-2].causation_id == answer.event_id


def test_a_result_that_the_runtime_only_wrote_into_its_history_is_recorded(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    asked, stream = call("ask_human", question="colour?"), MemoryStream()
    recorder = AG2Recorder(ledger)
    stopped_by_a_question(recorder, asked, stream)
    agent = Agent("assistant", config=scripted("never mind"), middleware=[recorder.middleware])
    asyncio.run(agent.ask("forget it", stream=stream))
    (result,) = entries(ledger, "execution.tool_result")
    assert (result.payload["call_id"], result.payload["synthetic"]) == ("ask_human-1", True)
    assert "not completed" in result.payload["result"]
    assert ("tool_result ask_human-1", "tool_call ask_human-1") in steps(ledger.read())
    user = entries(ledger, "execution.message")[-2]
    assert user.payload["role"] == "user"


def test_a_cancelled_turn_leaves_its_call_open_until_the_history_closes_it(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    recorder, stream, started = AG2Recorder(ledger), MemoryStream(), asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    def agent(*turns: Any) -> Agent:
        return Agent("a", config=scripted(*turns), tools=[wait], middleware=[recorder.middleware])

    async def talk() -> None:
        task = asyncio.ensure_future(agent(call("wait")).ask("go", stream=stream))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(recorder.safe.flush, 10)
        assert not entries(ledger, "execution.tool_result")
        assert await close_unanswered_tool_calls(stream.history, result="it was cancelled") == 1
        await agent("well then").ask("go on", stream=stream)

    asyncio.run(talk())
    (result,) = entries(ledger, "execution.tool_result")
    assert (result.payload["result"], result.payload["synthetic"]) == ("it was cancelled", True)
    assert ("tool_result wait-1", "tool_call wait-1") in steps(ledger.read())
    cancelled, resumed = run_events(ledger)[1:3]
    assert (cancelled.event_type, resumed.event_type) == ("execution.run_cancelled", "execution.run_resumed")
    assert resumed.causation_id == cancelled.event_id


@pytest.mark.parametrize("stored", [False, True], ids=["middleware", "middleware and storage"])
def test_compaction_tells_once_how_many_events_it_replaced(ledger: Ledger, stored: bool) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    knowledge = KnowledgeConfig(
        store=MemoryKnowledgeStore(),
        compact=TailWindowCompact(2),
        compact_trigger=CompactTrigger(max_events=3),
    )
    agent = Agent("a", config=scripted("one", "two"), middleware=[recorder.middleware], knowledge=knowledge)

    async def talk() -> None:
        stream = MemoryStream(storage=recorder.storage() if stored else None)
        reply = await agent.ask("first", stream=stream)
        await reply.ask("second")

    asyncio.run(talk())
    (changed,) = entries(ledger, "execution.state_change")
    told = {key: changed.payload[key] for key in ("name", "events_before", "events_after")}
    assert told == {"name": "compaction_completed", "events_before": 4, "events_after": 2}
    assert entries(ledger)[-1].event_type == "execution.run_completed"
