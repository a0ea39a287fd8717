"""AG2 1.x: every turn is a run with one start and exactly one end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ag2 import Agent, MemoryStream
from ag2.events import ToolResultEvent, ToolResultsEvent
from ag2.events.base import BaseEvent
from ag2.exceptions import HumanInputNotProvidedError
from ag2.middleware import BaseMiddleware, Middleware, RetryMiddleware
from ag2_agents import (
    Call,
    Steps,
    ask_human,
    entries,
    run_events,
    run_one,
    scripted,
)

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder


def test_a_second_turn_on_the_same_stream_resumes_the_conversation(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    agent = Agent("assistant", config=scripted("one", "two"), middleware=[recorder.middleware])
    stream = MemoryStream()

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
    assert runs[0].payload["run_id"] == runs[1].payload["run_id"] != runs[2].payload["run_id"]


def test_turns_without_a_stream_are_conversations_of_their_own(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    agent = Agent("assistant", config=scripted("one"), middleware=[recorder.middleware])

    async def talk() -> None:
        await asyncio.gather(*(agent.ask("hello") for _ in range(5)))

    asyncio.run(talk())
    assert len({entry.correlation_id for entry in ledger.read()}) == 5
    for correlation_id in {entry.correlation_id for entry in ledger.read()}:
        assert len(entries(ledger, correlation_id=correlation_id)) == 5


def test_a_failing_model_fails_the_run_with_type_module_and_message(ledger: Ledger, steps: Steps) -> None:
    raised, _ = run_one(ledger, scripted(ConnectionError("the provider is down")))
    assert type(raised) is ConnectionError
    assert steps(ledger.read())[1:] == [
        ("message user", "run_started assistant"),
        ("model_call", "message user"),
        ("run_failed", "model_call"),
    ]
    error = {"type": "ConnectionError", "module": "builtins", "message": "the provider is down"}
    assert entries(ledger, "execution.model_call")[0].payload["error"] == error
    assert entries(ledger)[-1].payload["error"] == error


def test_each_attempt_of_a_retried_model_call_is_recorded(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    retry = RetryMiddleware(max_retries=2, retry_on=(ConnectionError,))
    script = scripted(ConnectionError("down"), "up again")
    agent = Agent("assistant", config=script, middleware=[retry, recorder.middleware])
    assert asyncio.run(agent.ask("hello")).body == "up again"
    calls = entries(ledger, "execution.model_call")
    assert [one.payload["attempt"] for one in calls] == [1, 2]
    assert ["error" in one.payload for one in calls] == [True, False]
    assert entries(ledger)[-1].event_type == "execution.run_completed"


def test_a_cancelled_turn_is_a_cancelled_run(ledger: Ledger, call: Call) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    started = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent("a", config=scripted(call("wait"), "-"), tools=[wait], middleware=[recorder.middleware])

    async def cancel() -> None:
        task = asyncio.ensure_future(agent.ask("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert recorder.safe.flush(timeout=10)
    types = [entry.event_type for entry in ledger.read()]
    assert types[-2:] == ["execution.tool_call", "execution.run_cancelled"]
    assert entries(ledger)[-1].payload["reason"] == "CancelledError"


def test_a_turn_that_runs_out_of_time_ends_its_run_once(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")

    class Slow(BaseMiddleware):
        async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
            await asyncio.Event().wait()

    agent = Agent("a", config=scripted("-"), middleware=[recorder.middleware, Middleware(Slow)])

    async def run() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(agent.ask("go"), 0.05)

    asyncio.run(run())
    assert recorder.safe.flush(timeout=10)
    ends = [entry.event_type for entry in run_events(ledger)]
    assert ends == ["execution.run_started", "execution.run_cancelled"]


def test_a_turn_resumed_with_a_tool_result_is_a_resumed_run(ledger: Ledger, steps: Steps, call: Call) -> None:
    asked = call("ask_human", question="colour?")
    stream = MemoryStream()

    async def stop() -> list[BaseEvent]:
        with pytest.raises(HumanInputNotProvidedError):
            await Agent("assistant", config=scripted(asked), tools=[ask_human]).ask("paint", stream=stream)
        return list(await stream.history.get_events())

    history = asyncio.run(stop())
    calls = next(at for at, event in enumerate(history) if type(event).__name__ == "ToolCallsEvent")
    result = ToolResultsEvent([ToolResultEvent.from_call(asked, "blue")])
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent(
        "assistant", config=scripted("blue it is"), tools=[ask_human], middleware=[recorder.middleware]
    )
    reply = asyncio.run(agent.resume(*history[: calls + 1], result))
    assert reply.body == "blue it is"
    assert steps(ledger.read()) == [
        ("run_resumed assistant", ""),
        ("message tool", "run_resumed assistant"),
        ("model_call", "message tool"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]


def test_the_first_run_of_a_conversation_carries_its_name(ledger: Ledger) -> None:
    recorders = [AG2Recorder(ledger, correlation_id="case-7") for _ in range(2)]

    async def talk() -> None:
        for recorder in recorders:
            await Agent("a", config=scripted("hi"), middleware=[recorder.middleware]).ask("hello")

    asyncio.run(talk())
    first, second = [entry.payload["run_id"] for entry in entries(ledger, "execution.run_started")]
    assert first == "case-7"
    assert second not in ("case-7", None)
