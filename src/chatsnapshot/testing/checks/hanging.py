"""Promise 9, a store that hangs: the run goes on after a limit, cancelled or not, also after a fork."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.checks.forks import Child, can_fork
from chatsnapshot.testing.checks.harmless import (
    FLUSH_SECONDS_MAX,
    adapter_event,
    expect_taken,
    listening,
    safe,
)
from chatsnapshot.testing.checks.running import LAG_SECONDS_MAX, complaints_of, lag_while, nothing_left
from chatsnapshot.testing.expecting import expect, expect_equal, expect_sound
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.together import run_async
from chatsnapshot.testing.wrappers import FaultyStore, HangingStore

WAIT_SECONDS = 0.15
"""The limit that an adapter is given here for one recording."""

RELEASE_SECONDS = 5.0
"""After this the store goes on all the same, so that who waits for it comes back and can be told."""

BEYOND_SECONDS_MAX = 1.0
"""More than this above the limit is beyond it, on a machine that has other things to do."""


async def _all_over(before: set[asyncio.Task[Any]]) -> None:
    """Wait for the recordings that are still under way, which nobody else waits for."""
    if others := asyncio.all_tasks() - before:
        await asyncio.wait(others, timeout=10)


def _expect_bounded(seconds: float, limit: float, what: str) -> None:
    expect(seconds < limit + BEYOND_SECONDS_MAX, f"{what} held up the run for {seconds:.2f} s of {limit:g} s")


@check(9)
def a_store_that_hangs_holds_up_tasks_once_and_no_longer_than_the_limit(bench: Bench) -> None:
    made = [adapter_event(number) for number in range(20)]
    ledger, hanging = bench.open_with(HangingStore)
    recorder = safe(ledger, wait_seconds_max=WAIT_SECONDS)

    async def run() -> None:
        before = asyncio.all_tasks()
        complaints = complaints_of(asyncio.get_running_loop())
        hanging.hold()
        begun = time.monotonic()

        async def record() -> None:
            for one in made:
                await recorder.arecord(one)

        lag = await lag_while(record())
        _expect_bounded(time.monotonic() - begun, WAIT_SECONDS, "an adapter in 20 recordings")
        expect(lag < LAG_SECONDS_MAX, f"the event loop stood still for {lag * 1000:.0f} ms")
        hanging.release()
        await asyncio.to_thread(recorder.flush, FLUSH_SECONDS_MAX)
        await _all_over(before)
        expect(not complaints, f"the event loop complains: {complaints}")

    release = threading.Timer(RELEASE_SECONDS, hanging.release)
    release.start()
    with listening(), nothing_left():
        run_async(run())
    release.cancel()
    expect_taken(recorder, made, ordered=False)
    expect_sound(ledger, len(made))


@check(9)
def a_store_that_hangs_holds_up_plain_code_once_and_no_longer_than_the_limit(bench: Bench) -> None:
    made = [adapter_event(number) for number in range(20)]
    ledger, hanging = bench.open_with(HangingStore)
    recorder = safe(ledger, wait_seconds_max=WAIT_SECONDS)
    hanging.hold()
    release = threading.Timer(RELEASE_SECONDS, hanging.release)
    release.start()
    with listening():
        begun = time.monotonic()
        for one in made:
            recorder.record(one)
        took = time.monotonic() - begun
        begun = time.monotonic()
        recorder.hand_over(adapter_event(99))
        expect(time.monotonic() - begun < BEYOND_SECONDS_MAX, "handing over never waits")
        release.cancel()
        hanging.release()
        expect(recorder.flush(FLUSH_SECONDS_MAX), "everything is taken")
    _expect_bounded(took, WAIT_SECONDS, "an adapter in 20 recordings")
    numbers = sorted(entry.payload["number"] for entry in ledger.read())
    expect_equal(numbers, [*range(20), 99], "events stored, once each")
    expect_sound(ledger, 21)


@check(9)
def a_run_that_is_cancelled_while_it_records_is_cancelled_and_its_event_is_stored(bench: Bench) -> None:
    made = [adapter_event(number) for number in range(6)]
    ledger, hanging = bench.open_with(HangingStore)
    recorder = safe(ledger)

    async def run() -> None:
        before = asyncio.all_tasks()
        complaints = complaints_of(asyncio.get_running_loop())
        hanging.hold()
        tasks = [asyncio.ensure_future(recorder.arecord(one)) for one in made]
        await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        expect(
            all(isinstance(result, asyncio.CancelledError) for result in found),
            f"a run that was cancelled is told something else: {found}",
        )
        hanging.release()
        await _all_over(before)
        expect(not complaints, f"the event loop complains: {complaints}")

    with listening(), nothing_left():
        run_async(run())
    expect_taken(recorder, made, ordered=False)
    expect_sound(ledger, len(made))


def fork_with_kept_events(say: Say, bench: Bench, place: str) -> None:
    """A recorder that keeps events is used on both sides of a fork."""
    ledger, faulty = bench.open_with(FaultyStore, place)
    recorder = safe(ledger)
    faulty.fail(StoreUnavailable("away"), times=None)
    made = [adapter_event(number) for number in range(10)]
    for one in made:
        recorder.record(one)

    def work(first: str) -> None:
        faulty.heal()
        begin: dict[str, Callable[[], object]] = {
            "record": lambda: recorder.record(adapter_event(100)),
            "hand_over": lambda: recorder.hand_over(adapter_event(101)),
            "flush": lambda: None,
        }
        begin[first]()
        expect(recorder.flush(5), f"flush in a forked child that began with {first}")
        recorder.record(adapter_event(102))
        expect(recorder.flush(5), "flush in a forked child")

    before = 0
    for first, count in {"record": 2, "hand_over": 2, "flush": 1}.items():
        Child(partial(work, first)).joined()
        before += count
        expect_equal(ledger.head, before, f"events that a child stored which began with {first}")
    faulty.heal()
    expect(recorder.flush(FLUSH_SECONDS_MAX), "flush in the parent")
    expect_equal(recorder.dropped, 0, "events dropped")
    expect_sound(ledger, before + 10)
    ledger.close()


@check(9, "processes")
def what_an_adapter_keeps_at_a_fork_is_stored_by_the_parent_alone(bench: Bench) -> None:
    can_fork()
    with bench.workers(1) as (worker,):
        worker.run(fork_with_kept_events, bench, bench.place())
