"""Whatever the ledger does, the agents' result stays the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ag2 import Agent, MemoryStream
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot import CommitUncertain, Ledger, StoreUnavailable
from chatsnapshot.adapters.ag2 import AG2Recorder

Call = Callable[..., Any]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Broken:
    """Stands before a ledger and fails in one way, until ``well`` is set."""

    def __init__(self, ledger: Ledger, error: BaseException) -> None:
        self.ledger = ledger
        self.error = error
        self.well = False

    def record_many(self, events: Sequence[Any]) -> Any:
        if not self.well:
            raise self.error
        return self.ledger.record_many(events)

    async def arecord_many(self, events: Sequence[Any]) -> Any:
        return self.record_many(events)


class Hanging:
    """Never answers until it is released."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.released = threading.Event()

    def record_many(self, events: Sequence[Any]) -> Any:
        assert self.released.wait(60)
        return self.ledger.record_many(events)

    async def arecord_many(self, events: Sequence[Any]) -> Any:
        while not self.released.is_set():
            await asyncio.sleep(0.01)
        return await self.ledger.arecord_many(events)


def conversation(recorder: AG2Recorder, call: Call) -> list[Any]:
    """A turn with a tool and a second turn on the same stream: the replies and the runtime's own history."""
    config = TestConfig(call("add", a=1, b=2), "It is 3.", "Bye.", raise_tool_errors=False)
    agent = Agent("assistant", config=config, tools=[add], middleware=[recorder.middleware])

    async def talk() -> list[Any]:
        stream = MemoryStream()
        first = await agent.ask("1+2?", stream=stream)
        second = await first.ask("thanks")
        return [
            first.body,
            second.body,
            [type(event).__name__ for event in await stream.history.get_events()],
        ]

    return asyncio.run(talk())


@pytest.fixture
def undisturbed(call: Call) -> list[Any]:
    with chatsnapshot.open("memory:") as ledger:
        return conversation(AG2Recorder(ledger), call)


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("the store is away"),
        CommitUncertain("the commit failed"),
        OSError(28, "No space left on device"),
        RuntimeError("a bug in the ledger"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_ledger_that_raises_changes_nothing_and_gets_everything_when_it_is_well(
    ledger: Ledger, call: Call, undisturbed: list[Any], error: BaseException
) -> None:
    broken = Broken(ledger, error)
    recorder = AG2Recorder(broken)
    assert conversation(recorder, call) == undisturbed
    assert ledger.head == 0
    assert recorder.safe.failures >= 1
    broken.well = True
    assert recorder.safe.flush(timeout=10)
    types = [entry.event_type for entry in ledger.read()]
    assert len(types) == 14
    assert (types[0], types[-1]) == ("execution.run_started", "execution.run_completed")
    assert [entry.position for entry in ledger.read()] == list(range(1, 15))


def test_a_closed_ledger_changes_nothing(call: Call, undisturbed: list[Any]) -> None:
    ledger = chatsnapshot.open("memory:")
    ledger.close()
    recorder = AG2Recorder(ledger)
    assert conversation(recorder, call) == undisturbed
    assert recorder.safe.dropped == 14
    assert recorder.safe.kept == 0


def test_a_ledger_that_hangs_changes_nothing_and_holds_the_run_up_once(
    ledger: Ledger, call: Call, undisturbed: list[Any]
) -> None:
    hanging = Hanging(ledger)
    recorder = AG2Recorder(hanging, wait_seconds_max=0.05)
    assert conversation(recorder, call) == undisturbed
    assert recorder.safe.failures == 1
    hanging.released.set()
    assert recorder.safe.flush(timeout=10)
    assert ledger.head == 14


def test_something_that_is_no_ledger_changes_nothing(call: Call, undisturbed: list[Any]) -> None:
    with pytest.raises(TypeError, match="what open\\(\\) gives, not NoneType"):
        AG2Recorder(None)
    recorder = AG2Recorder(Hanging(chatsnapshot.open("memory:")))
    recorder.safe.ledger = None
    assert conversation(recorder, call) == undisturbed
    assert recorder.safe.kept == 14
    recorder.safe.ledger = Broken(chatsnapshot.open("memory:"), OSError())
    recorder.safe.ledger.well = True
    assert recorder.safe.flush(timeout=10)


@pytest.mark.parametrize("place", ["steps.normalize", "steps.model_call", "streamed.only_asks_for_tools"])
def test_a_mistake_of_the_adapter_itself_changes_nothing(
    ledger: Ledger, call: Call, undisturbed: list[Any], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def mistaken(*values: Any, **more: Any) -> Any:
        raise KeyError("a new kind of event")

    monkeypatch.setattr(f"chatsnapshot.adapters.ag2.{place}", mistaken)
    recorder = AG2Recorder(ledger)
    assert conversation(recorder, call) == undisturbed
    assert recorder.safe.failures > 0
    runs = [entry.event_type for entry in ledger.read() if entry.event_type.startswith("execution.run_")]
    assert len(runs) == 4, "the runs themselves are still there"
    assert runs.count("execution.run_completed") == 2


def test_a_stream_that_cannot_be_tapped_changes_nothing(
    ledger: Ledger, call: Call, undisturbed: list[Any]
) -> None:
    recorder = AG2Recorder(ledger)
    recorder.new_run = None  # type: ignore[assignment,method-assign]
    assert conversation(recorder, call) == undisturbed
    assert ledger.head == 0
    assert recorder.safe.failures == 2


def test_a_tool_that_fails_in_a_recorded_agent_raises_what_it_raised_before(
    ledger: Ledger, call: Call
) -> None:
    error = ValueError("the tool exploded")

    def explode() -> str:
        """Fail."""
        raise error

    recorder = AG2Recorder(ledger)
    config = TestConfig(call("explode"), "-")  # this model raises the tool's error out of the turn
    agent = Agent("a", config=config, tools=[explode], middleware=[recorder.middleware])
    with pytest.raises(ValueError) as raised:
        asyncio.run(agent.ask("go"))
    assert raised.value is error
    assert next(ledger.read(reverse=True)).event_type == "execution.run_failed"
