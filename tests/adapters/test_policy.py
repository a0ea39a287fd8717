"""The recorder never harms the run: what happens when a ledger fails, hangs or is closed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.policy import SafeRecorder, new_event
from chatsnapshot.errors import CommitUncertain, InvalidEvent, LedgerClosed, StoreUnavailable


class FlakyLedger:
    """Takes events, or does what ``fault`` says; remembers every attempt."""

    def __init__(self, fault: Callable[[Sequence[Any]], None] | None = None) -> None:
        self.fault = fault
        self.stored: list[dict[str, Any]] = []
        self.attempts: list[list[str]] = []
        self.hanging = threading.Event()

    def record_many(self, events: Sequence[Any]) -> None:
        self.attempts.append([event["event_id"] for event in events])
        if self.fault is not None:
            self.fault(events)
        known = {event["event_id"] for event in self.stored}
        self.stored += [event for event in events if event["event_id"] not in known]

    async def arecord_many(self, events: Sequence[Any]) -> None:
        await asyncio.sleep(0)
        self.record_many(events)

    def texts(self) -> list[Any]:
        return [event["payload"].get("n") for event in self.stored if event["event_type"] != "ledger.gap"]

    def gaps(self) -> list[dict[str, Any]]:
        return [event["payload"] for event in self.stored if event["event_type"] == "ledger.gap"]


def event(n: int, size: int = 0) -> dict[str, Any]:
    return new_event("execution.message", {"n": n, "text": "x" * size}, correlation_id="run-1")


def unavailable(events: Sequence[Any]) -> None:
    raise StoreUnavailable("the store is away; try again later")


def safe(ledger: Any, **options: Any) -> SafeRecorder:
    return SafeRecorder(ledger, adapter="test", retry_seconds_min=0.001, **options)


def test_a_well_ledger_gets_each_batch_once_and_starts_no_thread() -> None:
    ledger = FlakyLedger()
    recorder = safe(ledger)
    asyncio.run(recorder.arecord(event(1), event(2)))
    recorder.record(event(3))
    assert ledger.texts() == [1, 2, 3]
    assert [len(ids) for ids in ledger.attempts] == [2, 1]
    assert (recorder.failures, recorder.dropped, recorder.kept) == (0, 0, 0)
    assert recorder._thread is None


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("away"),
        CommitUncertain("unclear"),
        OSError("disk"),
        RuntimeError("bug"),
        MemoryError(),
    ],
)
def test_a_failing_ledger_never_raises_and_gets_the_same_events_again_in_order(error: Exception) -> None:
    ledger = FlakyLedger()
    recorder = safe(ledger)

    def fail(events: Sequence[Any]) -> None:
        raise error

    ledger.fault = fail
    asyncio.run(recorder.arecord(event(1)))
    recorder.record(event(2))
    asyncio.run(recorder.arecord(event(3)))
    assert ledger.stored == []
    first = ledger.attempts[0]
    ledger.fault = None
    assert recorder.flush(timeout=10)
    assert ledger.texts() == [1, 2, 3]
    assert ledger.attempts[-1][:1] == first
    assert (recorder.dropped, recorder.kept) == (0, 0)


def test_recording_goes_on_directly_when_the_store_is_well_again() -> None:
    ledger = FlakyLedger(unavailable)
    recorder = safe(ledger)
    recorder.record(event(1))
    ledger.fault = None
    assert recorder.flush(timeout=10)
    before = len(ledger.attempts)
    asyncio.run(recorder.arecord(event(2)))
    assert ledger.texts() == [1, 2]
    assert len(ledger.attempts) == before + 1


def test_a_hanging_ledger_holds_the_run_up_once_and_for_a_bounded_time() -> None:
    release = threading.Event()

    class Hanging(FlakyLedger):
        waits = 0

        async def arecord_many(self, events: Sequence[Any]) -> None:
            self.waits += 1
            await asyncio.get_running_loop().run_in_executor(None, release.wait, 30)
            self.record_many(events)

        def record_many(self, events: Sequence[Any]) -> None:
            assert release.wait(30)
            super().record_many(events)

    ledger = Hanging()
    recorder = safe(ledger, wait_seconds_max=0.05)
    recorder.runs_open = 2  # several runs share the loop

    async def run() -> None:
        for n in range(1, 21):
            await recorder.arecord(event(n))
        release.set()

    asyncio.run(run())
    assert ledger.waits == 1, "only the first event waited"
    assert recorder.flush(timeout=10)
    assert ledger.texts() == list(range(1, 21))


def test_a_hanging_ledger_holds_plain_code_up_once_and_for_a_bounded_time() -> None:
    release = threading.Event()

    def hang(events: Sequence[Any]) -> None:
        assert release.wait(30)

    ledger = FlakyLedger(hang)
    recorder = safe(ledger, wait_seconds_max=0.05)
    for n in range(1, 21):
        recorder.record(event(n))
    assert (recorder.failures, recorder.kept) == (1, 20)
    release.set()
    assert recorder.flush(timeout=10)
    assert sorted(ledger.texts()) == list(range(1, 21))


def test_plain_code_records_in_its_own_context() -> None:
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")
    seen: list[str] = []
    recorder = safe(FlakyLedger(lambda _: seen.append(place.get())))
    token = place.set("here")
    recorder.record(event(1))
    place.reset(token)
    assert seen == ["here"], "the scope of the caller counts"


class Slow(FlakyLedger):
    """Answers when its gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.failing = False

    async def arecord_many(self, events: Sequence[Any]) -> None:
        self.started.set()
        await self.gate.wait()
        if self.failing:
            raise StoreUnavailable("the store went away meanwhile")
        self.record_many(events)


@pytest.mark.parametrize("failing", [False, True], ids=["well", "failing meanwhile"])
def test_a_cancelled_run_is_cancelled_and_its_event_is_recorded(failing: bool) -> None:
    async def run() -> list[Any]:
        ledger = Slow()
        ledger.failing = failing
        recorder = safe(ledger)
        recorder.runs_open = 2
        task = asyncio.ensure_future(recorder.arecord(event(1)))
        await ledger.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ledger.gate.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others)
        assert recorder.failures == failing
        assert await asyncio.to_thread(recorder.flush, 10)
        return ledger.texts()

    assert asyncio.run(run()) == [1]


def test_a_recording_that_fails_after_its_time_leaves_no_complaint(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[Any]:
        ledger = Slow()
        ledger.failing = True
        recorder = safe(ledger, wait_seconds_max=0.01)
        recorder.runs_open = 2
        await recorder.arecord(event(1))
        ledger.gate.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        assert await asyncio.to_thread(recorder.flush, 10)
        return ledger.texts()

    assert asyncio.run(run()) == [1]
    gc.collect()
    assert [record.name for record in caplog.records] == ["chatsnapshot.adapters"]


def test_what_does_not_fit_is_dropped_and_told_as_a_gap_when_the_store_is_back() -> None:
    ledger = FlakyLedger(unavailable)
    recorder = safe(ledger, kept_events_max=3)
    made = [event(n) for n in range(1, 6)]
    for one in made:
        recorder.record(one)
    assert (recorder.kept, recorder.dropped) == (3, 2)
    ledger.fault = None
    assert recorder.flush(timeout=10)
    assert ledger.texts() == [1, 2, 3]
    (gap,) = ledger.gaps()
    assert (gap["events"], gap["adapter"], gap["correlations"]) == (2, "test", ["run-1"])
    assert (gap["from"], gap["to"]) == (made[3]["timestamp"], made[4]["timestamp"])
    assert gap["bytes"] > 0
    assert ledger.stored[-1]["correlation_id"] == "ledger"
    recorder.record(event(6))
    assert ledger.texts() == [1, 2, 3, 6]


def test_the_bytes_that_are_kept_are_bounded() -> None:
    ledger = FlakyLedger(unavailable)
    recorder = safe(ledger, kept_bytes_max=10_000)
    for n in range(5):
        recorder.record(event(n, size=4_000))
    assert (recorder.kept, recorder.dropped) == (2, 3)
    ledger.fault = None
    assert recorder.flush(timeout=10)
    assert ledger.gaps()[0]["events"] == 3


def test_the_limits_are_those_of_the_design() -> None:
    recorder = SafeRecorder(FlakyLedger(), adapter="test")
    assert (recorder.kept_events_max, recorder.kept_bytes_max) == (10_000, 64 * 1024 * 1024)


def test_an_event_that_is_refused_for_good_is_told_as_a_gap_and_holds_up_no_other() -> None:
    def refuse_two(events: Sequence[Any]) -> None:
        if any(one["payload"].get("n") == 2 for one in events):
            raise InvalidEvent("n must not be 2")

    ledger = FlakyLedger(unavailable)
    recorder = safe(ledger)
    for n in (1, 2, 3):
        recorder.record(event(n))
    ledger.fault = refuse_two
    assert recorder.flush(timeout=10)
    assert ledger.texts() == [1, 3]
    (gap,) = ledger.gaps()
    assert (gap["events"], gap["reason"]) == (1, "n must not be 2")


def test_a_refused_event_in_a_batch_does_not_take_the_others_with_it() -> None:
    def refuse_two(events: Sequence[Any]) -> None:
        if any(one["payload"].get("n") == 2 for one in events):
            raise InvalidEvent("n must not be 2")

    ledger = FlakyLedger(refuse_two)
    recorder = safe(ledger)
    asyncio.run(recorder.arecord(event(1), event(2), event(3)))
    assert recorder.flush(timeout=10)
    assert ledger.texts() == [1, 3]
    assert recorder.dropped == 1


def test_a_closed_ledger_ends_recording_without_keeping_anything() -> None:
    def closed(events: Sequence[Any]) -> None:
        raise LedgerClosed("the ledger was closed")

    ledger = FlakyLedger(closed)
    recorder = safe(ledger)
    asyncio.run(recorder.arecord(event(1)))
    recorder.record(event(2))
    assert recorder.flush(timeout=10)
    assert (recorder.kept, recorder.dropped, len(ledger.stored)) == (0, 2, 0)


def test_a_ledger_that_is_closed_while_events_are_kept_ends_the_retries() -> None:
    ledger = FlakyLedger(unavailable)
    recorder = safe(ledger)
    recorder.record(event(1))

    def closed(events: Sequence[Any]) -> None:
        raise LedgerClosed("the ledger was closed")

    ledger.fault = closed
    assert recorder.flush(timeout=10)
    assert (recorder.kept, recorder.dropped) == (0, 1)
    assert recorder._thread is None


def test_each_kind_of_trouble_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ledger = FlakyLedger(unavailable)
    recorder = safe(ledger, kept_events_max=1)
    with caplog.at_level(logging.WARNING, logger="chatsnapshot.adapters"):
        for n in range(20):
            recorder.record(event(n, size=100))
        recorder.note(ValueError("adapter"))
        recorder.note(ValueError("adapter"))
    assert len(caplog.records) == 3
    assert not any("x" * 100 in record.getMessage() for record in caplog.records)
    ledger.fault = None
    assert recorder.flush(timeout=10)


def test_handing_over_never_waits() -> None:
    ledger = FlakyLedger()
    recorder = safe(ledger)
    recorder.hand_over(event(1))
    assert recorder.flush(timeout=10)
    assert ledger.texts() == [1]


def test_flush_says_when_it_could_not_wait_long_enough() -> None:
    ledger = FlakyLedger(unavailable)
    recorder = safe(ledger)
    recorder.record(event(1))
    assert recorder.flush(timeout=0.05) is False
    ledger.fault = None
    assert recorder.flush(timeout=10)


def test_a_ledger_that_is_none_changes_nothing_for_the_run() -> None:
    recorder = safe(FlakyLedger())
    recorder.ledger = object()
    asyncio.run(recorder.arecord(event(1)))
    recorder.record(event(2))
    assert (recorder.failures, recorder.kept) == (1, 2)
    recorder.ledger = FlakyLedger()
    assert recorder.flush(timeout=10)


@pytest.mark.parametrize("ledger", ["runs.db", None, Path("runs.db")])
def test_what_is_no_ledger_is_refused_when_the_recorder_is_made(ledger: Any) -> None:
    with pytest.raises(TypeError, match=r"my-runtime is recorded into what open\(\) gives, not"):
        RuntimeRecorder(ledger, runtime="my-runtime")
    with pytest.raises(TypeError, match="ag2 is recorded into"):
        AG2Recorder(ledger)
