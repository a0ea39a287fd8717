"""Promises 1, 8 and 9 when the server is killed and comes back: nothing acknowledged is lost, nothing hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from chatsnapshot.errors import CommitUncertain, StorePoisoned, StoreUnavailable
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.checks.harmless import adapter_event, expect_taken, gaps, listening, safe
from chatsnapshot.testing.checks.network import network, record_when_away
from chatsnapshot.testing.expecting import Failed, expect, expect_equal, expect_sound
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, new_id
from chatsnapshot.testing.together import in_threads

OUTAGE_SECONDS_MAX = 30.0
"""An event that is tried again and again is stored within this time after its server was killed."""


def record_stubbornly(ledger: Ledger, given: dict[str, Any]) -> Any:
    """Record one event, again and again while its server is away; an uncertain one by what the error holds."""
    deadline = time.monotonic() + OUTAGE_SECONDS_MAX
    uncertain: CommitUncertain | None = None
    while True:
        try:
            if uncertain is not None:
                return ledger.record_many(uncertain.events)[0]
            return ledger.record(**given)
        except CommitUncertain as error:
            uncertain = error
            expect_equal(len(error.events), 1, "events that an error of one event holds")
            failed: Exception = error
        except (StoreUnavailable, StorePoisoned) as error:
            failed = error
        if time.monotonic() > deadline:
            raise Failed(f"{OUTAGE_SECONDS_MAX:g} s after its server was killed: {failed!r}") from failed
        time.sleep(0.02)


def record_without_end(say: Say, bench: Bench, place: str, name: str) -> None:
    """Record through every outage; say each acknowledgement."""
    ledger = bench.open(place)
    number = 0
    while True:
        entry = record_stubbornly(ledger, event(number, name))
        say((entry.event_id, entry.position))
        number += 1


@check(1, "durable", "processes", "server")
def a_server_that_is_killed_and_comes_back_has_lost_nothing_acknowledged(bench: Bench) -> None:
    assert bench.server is not None
    chance, place = bench.chance("outages"), bench.place()
    over, some = threading.Event(), threading.Semaphore(0)
    with bench.open(place) as ledger, bench.workers(1) as (worker,):
        worker.start(record_without_end, bench, place, "process")
        acknowledged = [worker.said()]

        def write(name: str) -> list[tuple[str, int]]:
            acknowledged: list[tuple[str, int]] = []
            while not over.is_set():
                given = event(len(acknowledged), name, event_id=new_id(ids[name]))
                entry = record_stubbornly(ledger, given)
                acknowledged.append((entry.event_id, entry.position))
                some.release()
            return acknowledged

        def kill() -> list[tuple[str, int]]:
            assert bench.server is not None
            try:
                for _ in range(1 + bench.rounds(2)):
                    for _ in range(chance.randint(5, 40)):
                        expect(some.acquire(timeout=OUTAGE_SECONDS_MAX), "recording goes on after an outage")
                    bench.server.kill()
                    bench.server.start()
                for _ in range(10):
                    expect(
                        some.acquire(timeout=OUTAGE_SECONDS_MAX), "recording goes on after the last outage"
                    )
            finally:
                over.set()
            return []

        ids = {name: bench.chance(name) for name in ("thread-0", "thread-1")}
        found = in_threads([kill, *[lambda name=name: write(name) for name in ids]])
        acknowledged += [worker.said() for _ in range(3)] + worker.kill()
        told = len(acknowledged)
        for one in found:
            if isinstance(one, Exception):
                raise one if isinstance(one, Failed) else Failed(f"{one!r}") from one
            acknowledged += one
        _settle(ledger)  # what the process had sent when it was killed may still arrive
        stored = {entry.event_id: entry for entry in ledger.read()}
        for event_id, position in acknowledged:
            expect(event_id in stored, f"event {event_id}, acknowledged at position {position}, is lost")
            expect_equal(stored[event_id].position, position, "position, and the one acknowledged")
        counts: dict[str, list[int]] = {}
        for entry in stored.values():
            counts.setdefault(entry.correlation_id, []).append(entry.payload["number"])
        for name, numbers in counts.items():
            expect_equal(numbers, list(range(len(numbers))), f"numbers of {name}: each once, in order")
        expect(len(counts["process"]) <= told + 1, "what the process has stored and not been told of")
        expect_sound(ledger)
    with bench.open(place, create=False) as ledger:
        expect(ledger.head >= len(stored), "everything is there after opening again")
        expect_sound(ledger)


def _settle(ledger: Ledger) -> None:
    """Wait until the ledger grows no more, for as long as an outage may take."""
    end = time.monotonic() + OUTAGE_SECONDS_MAX
    seen = -1
    while (head := ledger.head) != seen and time.monotonic() < end:
        seen = head
        time.sleep(1.0)


@check(8, "server")
def while_a_server_is_away_errors_are_definite_and_it_is_found_again_by_itself(bench: Bench) -> None:
    assert bench.server is not None
    place = bench.place()
    with bench.open(place) as ledger:
        ledger.record(**event(0))
        bench.server.kill()
        try:
            record_when_away(ledger)
            calls: dict[str, Callable[[], object]] = {
                "record": lambda: ledger.record(**event(9, "away")),
                "head": lambda: ledger.head,
                "open": lambda: bench.open(place),
            }
            for name, error in zip(calls, in_threads(list(calls.values())), strict=True):
                expect(
                    isinstance(error, StoreUnavailable), f"{name}: wanted StoreUnavailable, found {error!r}"
                )
        finally:
            bench.server.start()
        expect_equal(ledger.record(**event(1)).position, 2, "position once the server is back")
        expect_sound(ledger, 2)


@check("following", "server")
def a_tail_can_be_taken_up_again_after_its_server_was_killed_and_misses_nothing(bench: Bench) -> None:
    assert bench.server is not None
    turns, each = bench.rounds(2), 10
    with bench.open() as ledger:
        seen: list[int] = []

        def follow() -> None:
            deadline = time.monotonic() + OUTAGE_SECONDS_MAX
            with ledger.tail(after=0, timeout=OUTAGE_SECONDS_MAX) as tail:
                while True:
                    try:
                        for entry in tail:
                            seen.append(entry.position)
                            if entry.position == (turns + 1) * each:
                                return
                        raise Failed("the tail has ended")
                    except StoreUnavailable:
                        expect(time.monotonic() < deadline, "the server is back")
                        time.sleep(0.02)

        def write() -> None:
            assert bench.server is not None
            for turn in range(turns + 1):
                for number in range(each):
                    record_stubbornly(ledger, event(number, f"turn-{turn}", idempotency_key=str(number)))
                if turn < turns:
                    bench.server.kill()
                    bench.server.start()

        for error in in_threads([follow, write]):
            if error is not None:
                raise error if isinstance(error, Failed) else Failed(f"{error!r}") from error
        expect_equal(seen, list(range(1, (turns + 1) * each + 1)), "positions that the tail gave")


@check(9, "server")
def an_adapter_keeps_its_events_while_the_server_is_away_and_tells_of_the_rest(bench: Bench) -> None:
    with listening(), network(bench) as (proxy, _, way), bench.open(way) as ledger:
        recorder = safe(ledger, kept_events_max=20, wait_seconds_max=1.0)
        made = [adapter_event(number) for number in range(50)]
        recorder.record(made[0])
        proxy.refuse()
        begun = time.monotonic()
        for one in made[1:40]:
            recorder.record(one)
        took = time.monotonic() - begun
        expect(took < 5.0, f"39 recordings with the server away held up the run for {took:.1f} s")
        expect_equal((recorder.kept, recorder.dropped), (20, 19), "kept and dropped")
        record_when_away(ledger)  # the user's own record raises meanwhile
        proxy.heal()
        expect_taken(recorder, made[:21])
        (gap,) = gaps(ledger)
        expect_equal(gap["events"], 19, "events that the gap counts")
        proxy.lose_answer()
        for one in made[40:]:
            recorder.record(one)
        proxy.heal()
        expect_taken(recorder, [*made[:21], *made[40:]])
        expect_equal(recorder.dropped, 19, "events dropped")
        expect_sound(ledger)
