"""A process that lives long: opening and closing leaves nothing behind, a fast producer is held back."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.stores.base import Group, Outcome
from chatsnapshot.testing.wrappers import PassingStore

pytestmark = [pytest.mark.timeout(200)]

Event = Callable[..., dict[str, Any]]


def _descriptors() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(folder):
            return len(os.listdir(folder))
    pytest.skip("no list of descriptors here")


def test_200_opens_and_closes_leave_threads_and_descriptors_as_they_were(path: Path, event: Event) -> None:
    async def briefly(number: int) -> None:
        async with chatsnapshot.open(path) as ledger:
            await ledger.arecord(**event(number))

    def once(number: int) -> None:
        if number % 3 == 0:
            asyncio.run(briefly(number))
            return
        with chatsnapshot.open(path) as ledger:
            ledger.record(**event(number))
            ledger.record(**event(number), wait=False)
            next(ledger.read(reverse=True))
            if number % 10 == 1:
                with ledger.tail(after=0) as tail:
                    next(iter(tail))
        if number % 7 == 1:
            chatsnapshot.open(path, read_only=True).close()

    for number in range(10):
        once(number)
    gc.collect()
    threads, descriptors = threading.active_count(), _descriptors()
    for number in range(10, 210):
        once(number)
    gc.collect()
    assert (threading.active_count(), _descriptors()) == (threads, descriptors)
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert ledger.verify().ok


class SlowStore(PassingStore):
    """Takes its time for each commit; remembers what waited in the recorder when it began one."""

    def __init__(self, inner: Any, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds
        self.recorder: Any = None
        self.waiting: list[tuple[int, int]] = []

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        if self.recorder is not None:
            self.waiting.append((self.recorder._events, self.recorder._bytes))
        time.sleep(self.seconds)
        return self.inner.append(groups)


@pytest.fixture
def slow(path: Path) -> Callable[..., tuple[Ledger, SlowStore]]:
    """``slow(seconds)``: a ledger whose store takes so long for each commit, and that store."""

    def make(seconds: float, limits: Limits = DEFAULTS) -> tuple[Ledger, SlowStore]:
        plain = chatsnapshot.open(path, limits=limits)
        store = SlowStore(plain._store, seconds)
        ledger = Ledger(plain._opening, store)
        store.recorder = ledger._recorder
        return ledger, store

    return make


def test_a_producer_that_is_faster_than_the_store_is_held_to_the_limits_of_the_queue(
    slow: Any, event: Event
) -> None:
    limits = Limits(queue_events_max=50, queue_bytes_max=40_000, group_events_max=10)
    ledger, store = slow(0.002, limits)

    def produce(name: str) -> None:
        for number in range(150):
            ledger.record(
                **event(number, name, payload={"number": number, "text": "x" * (number * 17 % 3_000)}),
                wait=False,
            )

    producers = [threading.Thread(target=produce, args=(f"run-{one}",)) for one in range(4)]
    for one in producers:
        one.start()
    for one in producers:
        one.join()
    report = ledger.flush(timeout=60)
    assert report.ok and report.stored == 600
    assert max(events for events, _ in store.waiting) <= 50
    assert max(size for _, size in store.waiting) <= 40_000
    assert max(events for events, _ in store.waiting) > 10, "the queue was never used"
    for one in range(4):
        assert [entry.payload["number"] for entry in ledger.read(correlation_id=f"run-{one}")] == list(
            range(150)
        )
    ledger.close()


PRODUCER = """
import resource, sys, time
import chatsnapshot
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.testing.wrappers import PassingStore
class Slow(PassingStore):
    def append(self, groups):
        time.sleep(0.001)
        return self.inner.append(groups)
limits = Limits(queue_bytes_max=4 * 1024 * 1024)
plain = chatsnapshot.open(sys.argv[1], durability="os", limits=limits)
ledger = Ledger(plain._opening, Slow(plain._store))
def produce(count):
    for number in range(count):
        text = "%07d" % number * 9_000
        ledger.record("execution.message", {"text": text}, correlation_id="run-1", wait=False)
produce(200)
ledger.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
produce(3_000)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert ledger.flush().ok
print((after - before) // 1024 if sys.platform != "darwin" else (after - before) // 1024**2)
ledger.close()
"""


def test_memory_stays_bounded_while_190_mb_wait_for_a_slow_store(
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    pytest.importorskip("resource")
    process = program(PRODUCER, path)
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err[-3_000:]
    print(f"grown by {out.strip()} MB while 190 MB went through a queue of 4 MB")
    assert int(out) < 64


async def _ticks(until: asyncio.Future[Any]) -> list[float]:
    """Gaps between the beats of a 5 ms ticker, until something is done."""
    gaps = []
    last = time.perf_counter()
    while not until.done():
        await asyncio.sleep(0.005)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    return gaps


def _assert_free(gaps: list[float], seconds: float) -> None:
    """The loop went on: it beat often, and its usual lag is far below 20 ms, whatever else the machine did."""
    assert len(gaps) > seconds / 0.005 / 5, f"{len(gaps)} beats in {seconds} s"
    assert sorted(gaps)[len(gaps) // 2] < 0.020
    assert max(gaps) < seconds / 2, "the loop was held for as long as the store"


def test_the_event_loop_goes_on_while_a_slow_store_works(slow: Any, event: Event) -> None:
    ledger, _ = slow(0.3)

    async def record() -> None:
        for _ in range(3):
            recording = asyncio.ensure_future(ledger.arecord(**event(1)))
            _assert_free(await _ticks(recording), 0.3)
            await recording

    asyncio.run(record())
    ledger.close()


def test_closing_never_holds_the_event_loop(slow: Any, event: Event) -> None:
    async def close() -> None:
        ledger, _ = slow(0.4)
        ledger.record(**event(1), wait=False)
        closing = asyncio.ensure_future(ledger.aclose())
        _assert_free(await _ticks(closing), 0.4)
        await closing
        assert ledger.closed

    asyncio.run(close())


def test_leaving_async_with_never_holds_the_event_loop(slow: Any, event: Event) -> None:
    async def leave() -> None:
        ledger, _ = slow(0.4)

        async def inside() -> None:
            async with ledger:
                ledger.record(**event(1), wait=False)

        leaving = asyncio.ensure_future(inside())
        _assert_free(await _ticks(leaving), 0.4)
        await leaving

    asyncio.run(leave())
