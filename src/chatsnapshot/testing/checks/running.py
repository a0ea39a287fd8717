"""Promise 10, threads, asyncio and spawn: nothing is held up, nothing is left behind, closing stores or refuses."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

from chatsnapshot.errors import LedgerClosed, LedgerError
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import Limits
from chatsnapshot.stores.open import open_store
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Skipped, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.leftovers import left_behind, threads_at_rest
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events, new_id
from chatsnapshot.testing.together import in_threads, run_async
from chatsnapshot.testing.wrappers import HangingStore

LAG_SECONDS_MAX = 0.2
"""Longer than this no step of an event loop may take while a store works (20 ms on a machine that is at rest)."""

_BEAT_SECONDS = 0.002

HELD_SECONDS = 0.4
"""So long the store is held in those checks, by a thread: a loop that waits for it shows a lag of that size."""


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail when the block leaves a warning: a coroutine that was never awaited, a file that was not closed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    told = [str(one.message) for one in caught if issubclass(one.category, (RuntimeWarning, ResourceWarning))]
    expect(not told, f"warnings: {told}")


def complaints_of(loop: asyncio.AbstractEventLoop) -> list[str]:
    """What the loop reports from now on about tasks and callbacks that nobody looked at."""
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
    return complaints


async def lag_while(work: Awaitable[Any]) -> float:
    """The longest that the loop was away from its heartbeat, in seconds, until ``work`` was done.

    How long a thread beside it had to wait for its turn meanwhile is taken off: that was the machine, not the work.
    """
    task = asyncio.ensure_future(work)
    longest = 0.0
    with _beats() as beats:
        while not task.done():
            before = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)
            after = time.monotonic()
            lag = after - before - _BEAT_SECONDS
            if lag > longest:
                times = [before, *(one for one in beats[:] if before < one < after), after]
                starved = max(later - earlier for earlier, later in pairwise(times)) - _BEAT_SECONDS
                longest = max(longest, lag - max(starved, 0.0))
    await task
    return longest


@contextmanager
def _beats() -> Iterator[list[float]]:
    """The times at which a thread of its own had its turn."""
    beats: list[float] = []
    over = threading.Event()

    def beat() -> None:
        while not over.wait(_BEAT_SECONDS):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield beats
    finally:
        over.set()
        thread.join()


def _expect_free(bench: Bench, what: str, work: Callable[[Ledger], Awaitable[Any]]) -> Ledger:
    """Fail unless the loop runs on while ``work`` waits for a store that takes its time."""
    ledger, hanging = bench.open_with(HangingStore)
    hanging.hold()
    for one in events(5):
        ledger.record(**one, wait=False)
    expect(hanging.waiting.wait(20), "the writer has begun")
    release = threading.Timer(HELD_SECONDS, hanging.release)
    started = time.monotonic()
    release.start()
    lag = run_async(lag_while(work(ledger)))
    took = time.monotonic() - started
    release.join()
    expect(lag < LAG_SECONDS_MAX, f"{what}: the event loop stood still for {lag * 1000:.0f} ms")
    expect(took > HELD_SECONDS / 2, f"{what} was over after {took:.2f} s, though the store had taken nothing")
    return ledger


@check(10)
def aclose_never_holds_the_event_loop_while_the_store_takes_its_time(bench: Bench) -> None:
    ledger = _expect_free(bench, "aclose", lambda ledger: ledger.aclose())
    with expecting(LedgerClosed, "record after aclose"):
        ledger.record(**event(9))


@check(10)
def arecord_and_aflush_never_hold_the_event_loop_while_the_store_takes_its_time(bench: Bench) -> None:
    async def record(ledger: Ledger) -> None:
        tasks = [asyncio.ensure_future(ledger.arecord(**event(5 + number))) for number in range(10)]
        await ledger.aflush()
        await ledger.arecord_many(events(5, first=15))
        await asyncio.gather(*tasks)

    with _expect_free(bench, "arecord and aflush", record) as ledger:
        expect_sound(ledger, 20)


@check(10)
def a_full_queue_holds_tasks_and_not_the_event_loop(bench: Bench) -> None:
    limits = Limits(queue_events_max=8, group_events_max=4)
    ledger, hanging = bench.open_with(HangingStore, limits=limits)
    hanging.hold()
    release = threading.Timer(HELD_SECONDS, hanging.release)

    async def main() -> float:
        release.start()
        return await lag_while(asyncio.gather(*[ledger.arecord(**event(number)) for number in range(100)]))

    lag = run_async(main())
    expect(lag < LAG_SECONDS_MAX, f"with a full queue the event loop stood still for {lag * 1000:.0f} ms")
    expect_sound(ledger, 100)


@check(10)
def a_cancelled_arecord_leaves_nothing_behind_and_is_stored_once_or_not_at_all(bench: Bench) -> None:
    chance = bench.chance("cancelled")
    rounds, each = bench.rounds(4), 12
    given = [event(number, event_id=new_id(chance)) for number in range(rounds * each)]
    ledger, hanging = bench.open_with(HangingStore, limits=Limits(queue_events_max=6))
    cancelled: set[str] = set()

    async def main() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        for first in range(0, len(given), each):
            hanging.hold()
            batch = given[first : first + each]
            tasks = [asyncio.ensure_future(ledger.arecord(**one)) for one in batch]
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            chosen = chance.sample(range(each), each // 2)
            for at in chosen:
                tasks[at].cancel()
            hanging.release()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            for at, result in enumerate(found):
                if isinstance(result, asyncio.CancelledError):
                    expect(at in chosen, "a task that nobody cancelled was cancelled")
                    cancelled.add(batch[at]["event_id"])
                elif isinstance(result, BaseException):
                    raise result
        gc.collect()
        expect(not complaints, f"the event loop complains: {complaints}")

    with nothing_left():
        run_async(main())
    expect(cancelled, "some were cancelled")
    ledger.flush(20)
    stored = [entry.event_id for entry in ledger.read()]
    expect_equal(len(stored), len(set(stored)), "entries and their different ids")
    missing = {one["event_id"] for one in given} - set(stored) - cancelled
    expect(not missing, f"{len(missing)} events that were not cancelled are missing")
    for one in given:
        ledger.record(**one)  # what the caller of a cancelled arecord does to be sure
    expect_sound(ledger, len(given))


@check(10)
def an_arecord_whose_time_is_over_can_be_repeated_and_is_stored_once(bench: Bench) -> None:
    ledger, hanging = bench.open_with(HangingStore)
    given = event(1, event_id=new_id(bench.chance("timeout")))

    async def main() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        hanging.hold()
        with expecting(asyncio.TimeoutError, "arecord of a store that takes its time"):
            await asyncio.wait_for(ledger.arecord(**given), 0.05)
        hanging.release()
        expect_equal((await ledger.arecord(**given)).position, 1, "position of the repeated event")
        expect(not complaints, f"the event loop complains: {complaints}")

    with nothing_left():
        run_async(main())
    expect_sound(ledger, 1)


@check(10)
def event_loops_in_several_threads_and_plain_threads_record_side_by_side(bench: Bench) -> None:
    each = bench.rounds(30)
    with bench.open() as ledger:

        async def tasks(name: str) -> list[int]:
            made = await asyncio.gather(*[ledger.arecord(**event(at, name)) for at in range(each)])
            return [entry.sequence for entry in made]

        def plain(name: str) -> list[int]:
            return [ledger.record(**event(at, name)).sequence for at in range(each)]

        work: list[Callable[[], list[int]]] = []
        for at in range(4):
            work.append(lambda at=at: run_async(tasks(f"loop-{at}")))  # type: ignore[misc]
        for at in range(2):
            work.append(partial(plain, f"thread-{at}"))
        for sequences in in_threads(work):
            if isinstance(sequences, Exception):
                raise sequences
            expect_equal(sorted(sequences), list(range(1, each + 1)), "sequences of one loop or thread")
        expect_sound(ledger, 6 * each)


@check(10)
def an_event_loop_that_is_closed_before_the_answer_harms_nobody(bench: Bench) -> None:
    ledger, hanging = bench.open_with(HangingStore)
    hanging.hold()
    loop = asyncio.new_event_loop()
    task = loop.create_task(ledger.arecord(**event(0)))
    loop.run_until_complete(asyncio.sleep(0))
    expect(hanging.waiting.wait(20), "the writer has begun")
    task.cancel()
    with expecting(asyncio.CancelledError, "the cancelled task"):
        loop.run_until_complete(task)
    loop.close()
    pending = ledger.record(**event(1), wait=False)
    hanging.release()
    expect_equal(pending.result(20).position, 2, "position of the next event")
    expect_sound(ledger, 2)


def _close_beside(bench: Bench, ledger: Ledger, close: Callable[[], object]) -> int:
    """Close while threads and tasks record; gives how many events were taken, the others were refused."""
    each = bench.rounds(300)
    begun = threading.Event()

    def record(thread: int) -> int:
        taken = 0
        try:
            for number in range(each):
                ledger.record(**event(number, f"thread-{thread}"), wait=thread % 2 == 0)  # type: ignore[call-overload]
                taken += 1
                if number == 5:
                    begun.set()
        except LedgerClosed:
            pass
        return taken

    async def arecord() -> int:
        tasks = [asyncio.ensure_future(ledger.arecord(**event(number, "tasks"))) for number in range(each)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException) and not isinstance(error, LedgerClosed):
                raise error
        return sum(not isinstance(error, LedgerClosed) for error in found)

    def end() -> int:
        begun.wait(20)
        close()
        return 0

    work: list[Callable[[], int]] = [lambda at=at: record(at) for at in range(3)]  # type: ignore[misc]
    taken = in_threads([*work, lambda: run_async(arecord()), end])
    for found in taken:
        if isinstance(found, Exception):
            raise found
    return sum(taken)  # type: ignore[arg-type]


@check(10, "processes")
def closing_beside_threads_and_tasks_stores_or_refuses_each_event(bench: Bench) -> None:
    for asynchronous in (False, True):
        place = bench.place()
        ledger = bench.open(place)
        close = (lambda ledger=ledger: run_async(ledger.aclose())) if asynchronous else ledger.close
        taken = _close_beside(bench, ledger, close)
        with bench.open(place) as again:
            expect_sound(again, taken)


def open_and_close(say: Say, bench: Bench, places: list[str]) -> list[tuple[list[str], int | None]]:
    """Threads and descriptors after four lives of a ledger and after all; every second one is in an event loop."""

    def live(place: str) -> None:
        with bench.open(place) as ledger:
            ledger.record(**event(1))
            ledger.record(**event(2), wait=False)
            list(ledger.read())
            with ledger.tail(after=0, timeout=5) as tail:
                next(iter(tail))
            ledger.view("timeline", "run-1")

    async def alive(place: str) -> None:
        async with bench.open(place) as ledger:
            await ledger.arecord(**event(1))
            async for _ in ledger.tail(after=0, timeout=5):
                break

    own = threads_at_rest()
    seen: list[tuple[list[str], int | None]] = []
    for number, place in enumerate(places, 1):
        live(place) if number % 2 else asyncio.run(alive(place))
        if number in (4, len(places)):
            seen.append(left_behind(own))
    return seen


@check(10)
def many_openings_and_closings_leave_no_threads_and_no_descriptors(bench: Bench) -> None:
    places = [bench.place() for _ in range(4 + bench.rounds(20))]
    with bench.workers(1) as (worker,):
        seen = worker.run(open_and_close, bench, places)
    (threads, descriptors), (threads_last, descriptors_last) = seen
    expect_equal(threads_last, threads, "threads after many ledgers were closed")
    if descriptors is not None and descriptors_last is not None:
        expect(
            descriptors_last <= descriptors,
            f"file descriptors after many ledgers were closed: {descriptors_last}, before {descriptors}",
        )


def use_what_arrived(say: Say, data: bytes) -> int:
    """Record through a ledger that came here by pickle."""
    with pickle.loads(data) as ledger:
        for number in range(20):
            ledger.record(**event(number, "child"), wait=False)
        return int(ledger.flush(20).stored)


@check(10)
def a_ledger_goes_to_a_spawned_process_or_says_that_it_cannot(bench: Bench) -> None:
    place = bench.place()
    with bench.open(place) as ledger:
        if not bench.traits.processes:
            with expecting(LedgerError, "a ledger that lives in one process is pickled"):
                pickle.dumps(ledger)
            return
        if bench.opener is not open_store:
            raise Skipped("a ledger is pickled as its URL, and chatsnapshot.open() does not know this store")
        ledger.record(**event(0, "parent"))
        with bench.workers(2) as crew:
            for worker in crew:
                worker.start(use_what_arrived, pickle.dumps(ledger))
            for number in range(1, 20):
                ledger.record(**event(number, "parent"))
            for worker in crew:
                expect_equal(worker.answer(), 20, "events stored by a spawned process")
        expect_sound(ledger, 60)
