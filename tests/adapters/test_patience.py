"""A write that takes a moment is waited for at once; a longer one leaves the event loop free."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chatsnapshot.adapters import patience
from chatsnapshot.adapters.patience import Attempt, Writer
from chatsnapshot.adapters.policy import Event, SafeRecorder, new_event
from chatsnapshot.errors import StoreUnavailable


class Gated:
    """Takes events while its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.taken: list[Any] = []
        self.turns_of_the_loop = 0
        self.fault: Exception | None = None
        self.fail_once: threading.Event | None = None

    def record_many(self, events: Sequence[Any]) -> None:
        self.entered.set()
        assert self.gate.wait(30)
        if self.fault is not None and not (self.fail_once and self.fail_once.is_set()):
            if self.fail_once is not None:
                self.fail_once.set()
            raise self.fault
        self.taken += [event["payload"]["n"] for event in events]

    async def arecord_many(self, events: Sequence[Any]) -> None:
        self.turns_of_the_loop += 1
        self.record_many(events)


def event(n: int) -> Event:
    return new_event("execution.message", {"n": n}, correlation_id="run-1")


def test_a_quick_write_is_durable_without_a_turn_of_the_loop() -> None:
    async def run() -> list[Any]:
        ledger = Gated()
        recorder = SafeRecorder(ledger, adapter="test")
        recorder._hold_up.seconds_max = 30.0  # however long this machine takes to begin a thread
        coroutine = recorder.arecord(event(1))
        with pytest.raises(StopIteration):
            coroutine.send(None)
        return ledger.taken

    assert asyncio.run(run()) == [1]


def test_a_slow_write_leaves_the_loop_free_and_is_waited_for_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "_FREE_TIMES", 10_000)  # a while that outlasts whatever holds this test up

    async def run() -> None:
        ledger = Gated()
        ledger.gate.clear()
        recorder = SafeRecorder(ledger, adapter="test")
        recording = asyncio.ensure_future(recorder.arecord(event(1)))
        await asyncio.sleep(0)
        assert not recording.done(), "the loop goes on while the write does"
        ledger.gate.set()
        await recording
        assert ledger.taken == [1]
        await recorder.arecord(event(2))
        assert ledger.turns_of_the_loop == 1, "for a while the next ones do not hold it up"

    asyncio.run(run())


def test_runs_that_share_a_loop_are_left_to_the_group_commit() -> None:
    async def run() -> None:
        ledger = Gated()
        recorder = SafeRecorder(ledger, adapter="test")
        recorder.runs_open = 2
        await asyncio.gather(*(recorder.arecord(event(n)) for n in range(3)))
        assert ledger.turns_of_the_loop == 3

    asyncio.run(run())


@pytest.mark.parametrize("failing", [False, True], ids=["well", "failing meanwhile"])
def test_a_run_that_is_cancelled_during_a_slow_write_loses_nothing(failing: bool) -> None:
    async def run() -> list[Any]:
        ledger = Gated()
        ledger.gate.clear()
        recorder = SafeRecorder(ledger, adapter="test", retry_seconds_min=0.001)
        task = asyncio.ensure_future(recorder.arecord(event(1)))
        await asyncio.to_thread(ledger.entered.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if failing:
            ledger.fault = StoreUnavailable("the store went away meanwhile")
        ledger.gate.set()
        while failing and not recorder.failures:
            await asyncio.sleep(0.001)
        ledger.fault = None
        assert await asyncio.to_thread(recorder.flush, 10)
        while not ledger.taken:
            await asyncio.sleep(0.001)
        return ledger.taken

    assert asyncio.run(run()) == [1]


def test_a_cancelled_write_that_fails_after_its_loop_has_ended_is_tried_again() -> None:
    ledger = Gated()
    ledger.gate.clear()
    recorder = SafeRecorder(ledger, adapter="test", retry_seconds_min=0.001)

    async def run() -> None:
        task = asyncio.ensure_future(recorder.arecord(event(1)))
        await asyncio.to_thread(ledger.entered.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    failed = threading.Event()
    ledger.fault = StoreUnavailable("the store went away meanwhile")
    ledger.fail_once = failed
    ledger.gate.set()
    assert recorder.flush(10), "what is under way is waited for, and what failed is tried again"
    assert failed.is_set() and ledger.taken == [1]


def test_a_write_that_hangs_holds_a_run_up_once() -> None:
    async def run() -> None:
        ledger = Gated()
        ledger.gate.clear()
        recorder = SafeRecorder(ledger, adapter="test", wait_seconds_max=0.02)
        for n in range(5):
            await recorder.arecord(event(n))
        assert (recorder.failures, recorder.kept) == (1, 5)
        ledger.gate.set()
        assert await asyncio.to_thread(recorder.flush, 10)
        assert sorted(set(ledger.taken)) == [0, 1, 2, 3, 4]

    asyncio.run(run())


def attempts(writer: Writer, what: Callable[[Sequence[Any]], object], times: int) -> list[Attempt]:
    return [writer.start(what, [n]) for n in range(times)]


def test_one_thread_serves_all_writes_that_end() -> None:
    writer, threads = Writer(), set()
    for n in range(20):
        (attempt,) = attempts(writer, lambda _: threads.add(threading.get_ident()), 1)
        assert attempt.wait(10) and attempt.error is None, n
    assert len(threads) == 1


def test_a_write_that_hangs_does_not_stand_in_the_way_of_the_next() -> None:
    writer, gate = Writer(), threading.Event()
    stuck = writer.start(lambda _: gate.wait(30), [1])
    (free,) = attempts(writer, len, 1)
    assert free.wait(10)
    assert not stuck.wait(0)
    gate.set()
    assert stuck.wait(10)


def test_a_write_sees_the_context_of_its_caller_and_tells_its_error() -> None:
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")

    def look(events: Sequence[Any]) -> None:
        raise ValueError(place.get())

    place.set("here")
    attempt = Writer().start(look, [1])
    assert attempt.wait(10)
    assert str(attempt.error) == "here"


def test_where_no_thread_can_be_started_the_caller_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    writer, written = Writer(), []
    for n in range(2):
        assert writer.start(written.extend, [n]).wait(0)
    assert written == [0, 1]
