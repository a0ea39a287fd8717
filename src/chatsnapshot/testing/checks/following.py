"""Duty: a tail starts in the past, goes on live, wakes for every commit and ends when it is told to."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import expect, expect_dense, expect_equal
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events
from chatsnapshot.testing.together import in_threads, run_async

SECONDS_MAX = 20.0


@check("following")
def a_tail_gives_the_past_and_goes_on_live(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record_many(events(10))
        seen: list[int] = []
        with ledger.tail(after=4, timeout=SECONDS_MAX) as tail:
            for entry in tail:
                seen.append(entry.position)
                expect_equal(tail.position, entry.position, "position of the tail")
                if entry.position >= 10:
                    if entry.position == 20:
                        break
                    ledger.record(**event(entry.position))
        expect_dense(seen, "positions", 5)
        expect_equal(seen[-1], 20, "last position")


@check("following")
def a_tail_from_now_on_gives_only_what_comes(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record_many(events(5))
        with ledger.tail(timeout=SECONDS_MAX) as tail:
            ledger.record_many(events(3))
            seen = [next(steps).position for steps in [iter(tail)] for _ in range(3)]
        expect_equal(seen, [6, 7, 8], "positions")


@check("following")
def every_event_wakes_a_waiting_tail(bench: Bench) -> None:
    with bench.open() as ledger:
        turns = bench.rounds(60)
        ping, pong = "ping", "pong"

        def answer() -> int:
            with ledger.tail(after=0, timeout=SECONDS_MAX, correlation_id=ping) as tail:
                for count, entry in enumerate(tail, 1):
                    ledger.record(**event(count, pong, causation_id=entry))
                    if count == turns:
                        return count
            return 0

        def ask() -> int:
            with ledger.tail(after=0, timeout=SECONDS_MAX, correlation_id=pong) as tail:
                ledger.record(**event(1, ping))
                for count, _ in enumerate(tail, 1):
                    if count == turns:
                        return count
                    ledger.record(**event(count + 1, ping))
            return 0

        expect_equal(in_threads([answer, ask]), [turns, turns], "turns that each side saw")


@check("following")
def a_tail_ends_when_it_is_closed_when_the_ledger_is_closed_or_when_nothing_comes(bench: Bench) -> None:
    ledger = bench.open()
    quiet, closed, left = ledger.tail(after=0, timeout=0.01), ledger.tail(after=0), ledger.tail(after=0)
    expect_equal(list(quiet), [], "entries of a tail that saw nothing for its timeout")

    def close() -> None:
        closed.close()
        ledger.close()

    found = in_threads([lambda: list(closed), lambda: list(left), close])
    expect_equal([found[0], found[1]], [[], []], "what the waiting tails gave")


@check("following")
def an_async_tail_goes_on_live_and_leaves_no_task_behind(bench: Bench) -> None:
    async def follow() -> list[int]:
        async with bench.open() as ledger:
            await ledger.arecord_many(events(3))
            seen: list[int] = []

            async def read() -> None:
                async with ledger.tail(after=0, timeout=SECONDS_MAX) as tail:
                    async for entry in tail:
                        seen.append(entry.position)
                        if len(seen) == 40:
                            return

            reader = asyncio.ensure_future(read())
            for number in range(37):
                await ledger.arecord(**event(number))
            await reader
            return seen

    seen = run_async(follow())
    expect_dense(seen, "positions")
    expect_equal(len(seen), 40, "entries")


def answer_pings(say: Say, bench: Bench, place: str, turns: int) -> int:
    """Answer each ping of another process."""
    with (
        bench.open(place) as ledger,
        ledger.tail(after=0, timeout=SECONDS_MAX, correlation_id="ping") as tail,
    ):
        say("ready")
        for count, entry in enumerate(tail, 1):
            ledger.record(**event(count, "pong", causation_id=entry))
            if count == turns:
                return count
    return 0


@check("following", "processes")
def a_tail_wakes_for_events_of_other_processes(bench: Bench) -> None:
    place, turns = bench.place(), bench.rounds(15)
    with bench.open(place) as ledger, bench.workers(1) as (worker,):
        worker.start(answer_pings, bench, place, turns)
        worker.said()
        with ledger.tail(after=0, timeout=SECONDS_MAX, correlation_id="pong") as tail:
            answers: Any = iter(tail)
            for number in range(turns):
                ping = ledger.record(**event(number, "ping"))
                pong: Any = next(answers, None)
                expect(pong is not None, f"no answer to ping {number} within {SECONDS_MAX:g} s")
                expect_equal(pong.causation_id, ping.event_id, "cause of the answer")
        expect_equal(worker.answer(), turns, "pings that were answered")


@check("following")
def many_tails_see_the_same(bench: Bench) -> None:
    count = bench.rounds(50)
    with bench.open() as ledger:
        ready = threading.Semaphore(0)

        def follow() -> list[int]:
            seen: list[int] = []
            with ledger.tail(after=0, timeout=SECONDS_MAX) as tail:
                ready.release()
                for entry in tail:
                    seen.append(entry.position)
                    if len(seen) == count:
                        break
            return seen

        def write() -> list[int]:
            for _ in range(6):
                ready.acquire()
            return [ledger.record(**event(number)).position for number in range(count)]

        for found in in_threads([write, *[follow] * 6]):
            expect_equal(found, list(range(1, count + 1)), "positions")
