"""Promise 1: acknowledged means durable."""

from __future__ import annotations

from typing import Any

from chatsnapshot.errors import EventConflict
from chatsnapshot.pending import Pending
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Skipped, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events, new_id
from chatsnapshot.testing.together import run_async


@check(1, "durable")
def what_record_returned_is_there_when_the_ledger_is_opened_again(bench: Bench) -> None:
    place = bench.place()
    with bench.open(place) as ledger:
        entries = [ledger.record(**one) for one in events(5)]
        entries += ledger.record_many(events(5, "run-2"))
    with bench.open(place, create=False) as ledger:
        expect_equal(list(ledger.read()), entries, "entries after opening again")
        expect_sound(ledger, 10)


@check(1, "durable")
def every_reopening_finds_the_last_event(bench: Bench) -> None:
    place = bench.place()
    last = None
    for number in range(6):
        with bench.open(place) as ledger:
            expect_equal(ledger.head, number, "head after opening again")
            if last is not None:
                expect_equal(ledger.get(last.event_id), last, "the last event")
            last = ledger.record(**event(number))
            expect_equal(last.position, number + 1, "the next position")


@check(1, "durable")
def what_arecord_resolved_is_there_when_the_ledger_is_opened_again(bench: Bench) -> None:
    place = bench.place()

    async def record() -> list[Any]:
        async with bench.open(place) as ledger:
            return [await ledger.arecord(**event(1)), *await ledger.arecord_many(events(3, "run-2"))]

    entries = run_async(record())
    with bench.open(place, create=False) as ledger:
        expect_equal(list(ledger.read()), entries, "entries after opening again")


@check(1, "durable", "processes")
def an_acknowledged_event_is_seen_at_once_through_every_handle(bench: Bench) -> None:
    place = bench.place()
    with bench.open(place) as one, bench.open(place) as other:
        for number in range(10):
            writer, reader = (one, other) if number % 2 else (other, one)
            entry = writer.record(**event(number))
            expect_equal(reader.head, number + 1, "head seen by another handle")
            expect_equal(reader.get(entry.event_id), entry, "the event seen by another handle")


@check(1)
def a_pending_event_becomes_the_entry_that_was_stored(bench: Bench) -> None:
    with bench.open() as ledger:
        made = [ledger.record(**one, wait=False) for one in events(200)]
        expect(all(isinstance(pending, Pending) for pending in made), "record(wait=False) gives a Pending")
        report = ledger.flush(timeout=30)
        expect(report.ok, f"flush reports failures: {report.failures}")
        expect_equal(report.stored, 200, "events that flush reports as stored")
        for pending in made:
            expect_equal(pending.result(1), ledger.get(pending.event_id), "entry of a Pending")
        expect_equal([entry.payload["number"] for entry in ledger.read()], list(range(200)), "order")


@check(1)
def flush_reports_each_event_that_failed_and_stores_the_others(bench: Bench) -> None:
    chance = bench.chance("flush")
    with bench.open() as ledger:
        known = new_id(chance)
        ledger.record(**event(0, event_id=known))
        pendings = [ledger.record(**one, wait=False) for one in events(20, first=1)]
        bad = ledger.record(**event(99, event_id=known), wait=False)
        pendings += [ledger.record(**one, wait=False) for one in events(20, first=21)]
        report = ledger.flush(timeout=30)
        expect_equal(report.stored, 40, "events stored")
        expect_equal([failure.event.event_id for failure in report.failures], [known], "events that failed")
        expect(isinstance(report.failures[0].error, EventConflict), "the failure is the conflict")
        with expecting(EventConflict, "result of the event that failed"):
            bad.result(1)
        expect(ledger.flush(timeout=30).ok, "a second flush reports nothing twice")
        expect_sound(ledger, 41)


def record_and_tell(say: Say, bench: Bench, place: str, batch: int) -> None:
    """Record without end; every acknowledgement is said after it came."""
    ledger = bench.open(place)
    number = 0
    while True:
        if batch == 1:
            say([ledger.record(**event(number)).event_id])
        else:
            say([entry.event_id for entry in ledger.record_many(events(batch, first=number))])
        number += batch


def flush_and_tell(say: Say, bench: Bench, place: str) -> None:
    """Accept in the background; say what a flush has acknowledged."""
    ledger = bench.open(place)
    number = 0
    while True:
        pendings = [ledger.record(**one, wait=False) for one in events(25, first=number)]
        if not ledger.flush(timeout=30).ok:
            raise RuntimeError("an accepted event failed")
        say([pending.event_id for pending in pendings])
        number += 25


def _kill(bench: Bench, place: str, job: Any, *arguments: Any, after: int) -> list[str]:
    """Let a worker record, kill it after so many acknowledgements; gives every id that was acknowledged."""
    with bench.workers(1) as (worker,):
        worker.start(job, bench, place, *arguments)
        acknowledged = [worker.said() for _ in range(after)]
        acknowledged += worker.kill()
    return [event_id for ids in acknowledged for event_id in ids]


@check(1, "durable", "processes")
def acknowledged_events_survive_kill_9(bench: Bench) -> None:
    place, chance = bench.place(), bench.chance("kill")
    known: list[str] = []
    for _ in range(bench.rounds(3)):
        known += _kill(bench, place, record_and_tell, 1, after=chance.randint(1, 40))
        with bench.open(place) as ledger:
            for event_id in known:
                ledger.get(event_id)
            expect_sound(ledger)
            known.append(ledger.record(**event(-1)).event_id)


@check(1, "durable", "processes")
def flushed_events_survive_kill_9(bench: Bench) -> None:
    place, chance = bench.place(), bench.chance("kill flushed")
    for _ in range(bench.rounds(2)):
        known = _kill(bench, place, flush_and_tell, after=chance.randint(1, 6))
        with bench.open(place) as ledger:
            for event_id in known:
                ledger.get(event_id)
            expect_sound(ledger)


@check(4, "durable", "processes")
def a_batch_survives_kill_9_whole_or_not_at_all(bench: Bench) -> None:
    place, chance = bench.place(), bench.chance("kill batches")
    for _ in range(bench.rounds(2)):
        known = _kill(bench, place, record_and_tell, 7, after=chance.randint(1, 15))
        with bench.open(place) as ledger:
            expect_equal(ledger.head % 7, 0, "events beyond whole batches of 7")
            for event_id in known:
                ledger.get(event_id)
            expect_sound(ledger)


@check(1, "durable")
def weaker_durability_is_a_named_choice_and_never_claimed_as_full(bench: Bench) -> None:
    place = bench.place()
    if not bench.path(place) and bench.traits.processes:
        raise Skipped("a ledger on a server is durable whatever was asked for")
    with bench.open(place, durability="os") as ledger:
        expect(not ledger._store.traits.durable, "durability='os' does not claim to survive power loss")
        ledger.record(**event(1))
    with bench.open(place) as ledger:
        expect(ledger._store.traits.durable, "the default claims it")
        expect_sound(ledger, 1)
