"""Promise 8: an error says whether the events are stored, and a retry is safe; by a store that fails on command."""

from __future__ import annotations

from typing import Any

from chatsnapshot.errors import (
    CommitUncertain,
    LedgerError,
    StoreFull,
    StorePoisoned,
    StoreUnavailable,
)
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.samples import event, events, new_id
from chatsnapshot.testing.together import in_tasks, in_threads, run_async
from chatsnapshot.testing.wrappers import FaultyStore, HangingStore


@check(8)
def a_definite_error_stores_nothing_and_the_same_call_works_when_the_cause_is_gone(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    with ledger:
        for stored, kind in enumerate((StoreFull, StoreUnavailable, StorePoisoned)):
            given = event(stored, event_id=new_id(bench.chance(kind.__name__)))
            faulty.fail(kind("the store takes nothing"), times=2)
            for _ in range(2):
                with expecting(kind, "record while the store takes nothing"):
                    ledger.record(**given)
            expect_equal(ledger.head, stored, "head while the store takes nothing")
            expect_equal(ledger.record(**given).position, stored + 1, "position once it works again")
            faulty.fail(kind("the store takes nothing"))
            with expecting(kind, "record_many while the store takes nothing"):
                ledger.record_many(events(3))
            expect_equal(ledger.head, stored + 1, "head after a batch failed")
        expect_sound(ledger, 3)


def _recover(ledger: Ledger, error: CommitUncertain, given: list[dict[str, Any]]) -> None:
    """The envelopes in the error are complete, and recording them stores each event exactly once."""
    expect_equal(len(error.events), len(given), "events that the error holds")
    entries = ledger.record_many(error.events)
    for entry, one in zip(entries, given, strict=True):
        expect_equal(entry.payload, one["payload"], "payload of a retried event")
        expect_equal(entry.correlation_id, one["correlation_id"], "correlation of a retried event")
    expect_equal(ledger.record_many(error.events), entries, "a second retry")
    expect_equal(ledger.head, len(given), "head: every event is stored once")
    expect_sound(ledger, len(given))


@check(8)
def after_an_uncertain_commit_that_was_stored_the_retry_finds_the_events(bench: Bench) -> None:
    for given in (events(1), events(5)):
        ledger, faulty = bench.open_with(FaultyStore)
        with ledger:
            faulty.lose_answer()
            with expecting(CommitUncertain, "the answer was lost") as caught:
                ledger.record_many(given) if len(given) > 1 else ledger.record(**given[0])
            _recover(ledger, caught.error, given)


@check(8)
def after_an_uncertain_commit_that_was_not_stored_the_retry_stores_the_events(bench: Bench) -> None:
    for given in (events(1), events(5)):
        ledger, faulty = bench.open_with(FaultyStore)
        with ledger:
            faulty.lose_commit()
            with expecting(CommitUncertain, "the commit was lost") as caught:
                ledger.record_many(given) if len(given) > 1 else ledger.record(**given[0])
            expect_equal(ledger.head, 0, "head before the retry")
            _recover(ledger, caught.error, given)


@check(8)
def the_retry_of_an_uncertain_event_with_a_blob_stores_the_blob(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    with ledger:
        data = b"\x07" * 70_000
        faulty.lose_commit()
        with expecting(CommitUncertain, "the commit was lost") as caught:
            ledger.record(**event(1, payload={"data": data}))
        (entry,) = ledger.record_many(caught.error.events)
        expect_equal(entry.value()["data"], data, "the blob after the retry")
        expect_sound(ledger, 1)


@check(8)
def each_caller_of_an_uncertain_group_commit_gets_its_own_events(bench: Bench) -> None:
    ledger, hanging = bench.open_with(lambda store: HangingStore(FaultyStore(store)))
    faulty: Any = hanging.inner
    with ledger:
        hanging.hold()
        first = ledger.record(**event(0, "first"), wait=False)
        expect(hanging.waiting.wait(20), "the writer has begun")
        pendings = [ledger.record(**event(number, f"run-{number}"), wait=False) for number in range(1, 6)]
        faulty.lose_answer(times=None)
        hanging.release()
        for number, pending in enumerate([first, *pendings]):
            with expecting(CommitUncertain, f"result of event {number}") as caught:
                pending.result(20)
            ids = [envelope.event_id for envelope in caught.error.events]
            expect_equal(ids, [pending.event_id], "events in the error of one caller")
        faulty.heal()
        report = ledger.flush(20)
        expect_equal(len(report.failures), 6, "failures that flush reports")
        ledger.record_many([failure.event for failure in report.failures])
        expect_sound(ledger, 6)


@check(8)
def what_flush_reports_as_failed_can_be_recorded_again(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    with ledger:
        faulty.fail(StoreFull("no space"), times=None)
        pendings = [ledger.record(**one, wait=False) for one in events(30)]
        report = ledger.flush(20)
        expect_equal((report.stored, len(report.failures)), (0, 30), "stored and failed")
        expect(not report.ok, "the report is not ok")
        faulty.heal()
        expect_equal(ledger.head, 0, "head while nothing could be stored")
        entries = ledger.record_many([failure.event for failure in report.failures])
        found = [entry.event_id for entry in entries]
        expect_equal(found, [pending.event_id for pending in pendings], "ids in the order of recording")
        expect_sound(ledger, 30)


@check(8)
def callers_on_threads_and_tasks_each_get_an_error_of_their_own(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    with ledger:
        faulty.fail(StoreFull("no space"), times=None)
        found: list[Any] = in_threads([lambda: ledger.record(**event(1))] * 6)
        found += in_tasks([lambda: ledger.arecord(**event(1))] * 10)
        expect(
            all(isinstance(error, StoreFull) for error in found), f"every caller gets StoreFull, of {found}"
        )
        expect_equal(len({id(error) for error in found}), len(found), "errors that are shared")
        faulty.lose_commit(times=None)
        given = [event(number, event_id=new_id(bench.chance(str(number)))) for number in range(6)]
        lost: list[Any] = in_threads([lambda one=one: ledger.record(**one) for one in given])  # type: ignore[misc]
        for one, error in zip(given, lost, strict=True):
            expect(isinstance(error, CommitUncertain), f"wanted CommitUncertain, found {error!r}")
            expect_equal([envelope.event_id for envelope in error.events], [one["event_id"]], "own events")
        faulty.heal()
        ledger.record(**event(1))
        expect_sound(ledger, 1)


@check(8)
def an_unforeseen_error_of_a_driver_is_an_error_of_the_ledger_and_recording_goes_on(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    with ledger:
        faulty.fail(RuntimeError("a driver has a bug"))
        with expecting(LedgerError, "record while the driver fails"):
            ledger.record(**event(1))
        expect(isinstance(ledger.record(**event(2)).position, int), "recording goes on")

        async def arecord() -> None:
            faulty.fail(RuntimeError("a driver has a bug"))
            with expecting(LedgerError, "arecord while the driver fails"):
                await ledger.arecord(**event(3))
            await ledger.arecord(**event(4))

        run_async(arecord())
        expect_sound(ledger, 2)


@check(8)
def a_refused_event_in_the_queue_does_not_take_others_with_it(bench: Bench) -> None:
    ledger, hanging = bench.open_with(HangingStore)
    with ledger:
        known = new_id(bench.chance("known"))
        ledger.record(**event(0, event_id=known))
        hanging.hold()
        first = ledger.record(**event(1), wait=False)
        expect(hanging.waiting.wait(20), "the writer has begun")
        good = [ledger.record(**event(number), wait=False) for number in range(2, 8)]
        bad = ledger.record(**event(99, event_id=known), wait=False)
        good += [ledger.record(**event(number), wait=False) for number in range(8, 12)]
        hanging.release()
        report = ledger.flush(20)
        expect_equal((report.stored, len(report.failures)), (11, 1), "stored and failed")
        expect_equal(report.failures[0].event.event_id, bad.event_id, "the event that failed")
        expect(all(pending.result(1).position for pending in [first, *good]), "the others are stored")
        expect_sound(ledger, 12)
