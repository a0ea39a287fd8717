"""Promise 9: what adapters record through never harms the run, whatever the store does; record() by the user raises."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from chatsnapshot.adapters.policy import Event, SafeRecorder, new_event
from chatsnapshot.errors import (
    CommitUncertain,
    InvalidEvent,
    LedgerClosed,
    LedgerError,
    StoreFull,
    StorePoisoned,
    StoreUnavailable,
)
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Failed, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.samples import event
from chatsnapshot.testing.together import in_threads, run_async
from chatsnapshot.testing.wrappers import FaultyStore

FLUSH_SECONDS_MAX = 20.0
ERRORS: tuple[Exception, ...] = (
    StoreFull("no space"),
    StoreUnavailable("the store is away"),
    StorePoisoned("the store cannot be trusted"),
    CommitUncertain("nobody knows"),
    LedgerError("something"),
    OSError("a disk is broken"),
    RuntimeError("a driver has a bug"),
    MemoryError(),
)


def adapter_event(number: int, size: int = 0) -> Event:
    payload = {"number": number, "text": "x" * size}
    return new_event("execution.message", payload, correlation_id=f"run-{number % 3}")


def safe(ledger: Ledger, **options: Any) -> SafeRecorder:
    return SafeRecorder(ledger, adapter="conformance", retry_seconds_min=0.001, **options)


@contextmanager
def listening() -> Iterator[list[logging.LogRecord]]:
    """What is logged on purpose here: heard, and kept from the terminal."""
    heard: list[logging.LogRecord] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    ear = Ear()
    logger = logging.getLogger("chatsnapshot")
    propagate = logger.propagate
    logger.propagate = False
    logger.addHandler(ear)
    try:
        yield heard
    finally:
        logger.removeHandler(ear)
        logger.propagate = propagate


def _harmless(call: Callable[[], object], what: str) -> None:
    """Fail when the call raises anything."""
    try:
        call()
    except Exception as error:
        raise Failed(f"{what} raised into the run: {type(error).__name__}: {error}") from error


def expect_taken(recorder: SafeRecorder, made: Sequence[Event], *, ordered: bool = True) -> None:
    """Fail unless the ledger holds these events, once each and as they were first given, and nothing is kept."""
    expect(recorder.flush(FLUSH_SECONDS_MAX), f"flush: {recorder.kept} events are still kept")
    expect_equal(recorder.kept, 0, "events kept when the store is back")
    ledger: Any = recorder.ledger
    stored = [entry for entry in ledger.read() if not entry.event_type.startswith("ledger.")]
    wanted = [(one["event_id"], one["timestamp"], one["payload"]) for one in made]
    found = [(entry.event_id, entry.timestamp, entry.payload) for entry in stored]
    if not ordered:
        wanted, found = sorted(wanted, key=lambda one: one[0]), sorted(found, key=lambda one: one[0])
    expect_equal(len(found), len(wanted), "events stored")
    expect_equal(found, wanted, "ids, times and payloads of what was stored")


def gaps(ledger: Ledger) -> list[dict[str, Any]]:
    """What the ledger was told of events that were given up."""
    return [entry.payload for entry in ledger.read(event_type="ledger.gap", correlation_id="ledger")]


@check(9)
def an_adapter_never_raises_and_a_store_that_is_back_gets_the_same_events_in_order(bench: Bench) -> None:
    made: list[Event] = []
    ledger, faulty = bench.open_with(FaultyStore)
    recorder = safe(ledger)

    def record(work: Callable[..., object], count: int, what: str) -> None:
        batch = [adapter_event(len(made) + at) for at in range(count)]
        made.extend(batch)
        _harmless(lambda: work(*batch), what)

    def arecord(*batch: Event) -> None:
        run_async(recorder.arecord(*batch))

    with listening():
        for error in ERRORS:
            faulty.fail(error, times=None)
            what = f"an adapter's recording while the store says {type(error).__name__}"
            record(recorder.record, 1, what)
            record(arecord, 3, what)
            record(recorder.hand_over, 1, what)
            record(recorder.record, 2, what)
            expect(recorder.kept > 0, "the events are kept")
            faulty.heal()
            expect(recorder.flush(FLUSH_SECONDS_MAX), f"everything is taken after {type(error).__name__}")
            record(arecord, 2, "recording once the store is well")
    expect_taken(recorder, made)
    expect_equal((recorder.dropped, gaps(ledger)), (0, []), "events dropped, and gaps")
    expect_sound(ledger, len(made))


@check(9)
def a_recording_whose_answer_was_lost_is_retried_and_stored_once(bench: Bench) -> None:
    made = [adapter_event(number) for number in range(bench.rounds(24))]
    ledger, faulty = bench.open_with(FaultyStore)
    recorder = safe(ledger)

    def arecord(one: Event) -> None:
        run_async(recorder.arecord(one))

    with listening():
        for number, one in enumerate(made):
            if number % 3 == 0:
                faulty.lose_answer(times=1 + number % 2)
            elif number % 5 == 0:
                faulty.lose_commit(times=2)
            work: Callable[..., object] = arecord if number % 2 else recorder.record
            _harmless(partial(work, one), "a recording whose answer is lost")
        faulty.heal()
    expect_taken(recorder, made)
    expect_sound(ledger, len(made))


@check(9)
def what_is_above_the_limits_is_dropped_and_told_as_a_gap_with_right_counts(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    recorder = safe(ledger, kept_events_max=10)
    kept: list[Event] = []
    with listening() as heard:
        for outage in range(2):
            faulty.fail(StoreFull("no space"), times=None)
            made = [adapter_event(100 * outage + number) for number in range(25)]
            for one in made:
                _harmless(lambda one=one: recorder.record(one), "a recording above the limits")  # type: ignore[misc]
            expect_equal((recorder.kept, recorder.dropped), (10, 15 * (outage + 1)), "kept and dropped")
            kept += made[:10]
            faulty.heal()
            expect_taken(recorder, kept)
            told = gaps(ledger)
            expect_equal(len(told), outage + 1, "gaps that are recorded")
            gap = told[-1]
            expect_equal(gap["events"], 15, "events that the gap counts")
            expect_equal(gap["adapter"], "conformance", "adapter that the gap names")
            bounds = (made[10]["timestamp"], made[24]["timestamp"])
            expect_equal((gap["from"], gap["to"]), bounds, "time that the gap covers")
            expect_equal(sorted(gap["correlations"]), ["run-0", "run-1", "run-2"], "runs that the gap names")
        dropped = [record for record in heard if "dropped" in record.getMessage()]
        expect_equal(len(dropped), 1, "log lines about dropped events")
    expect_sound(ledger, 22)


@check(9)
def the_bytes_that_an_adapter_keeps_are_bounded(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    recorder = safe(ledger, kept_bytes_max=50_000)
    made = [adapter_event(number, size=9_000) for number in range(12)]
    with listening():
        faulty.fail(StoreUnavailable("away"), times=None)
        for one in made:
            recorder.record(one)
        faulty.heal()
        expect_equal((recorder.kept, recorder.dropped), (5, 7), "kept and dropped, at most 50,000 bytes")
        expect_taken(recorder, made[:5])
    (gap,) = gaps(ledger)
    expect_equal(gap["events"], 7, "events that the gap counts")
    expect(63_000 <= gap["bytes"] < 65_000, f"bytes that the gap counts: {gap['bytes']}")
    defaults = safe(ledger)
    expect_equal((defaults.kept_events_max, defaults.kept_bytes_max), (10_000, 64 * 2**20), "the limits")


@check(9)
def of_many_threads_each_event_is_stored_once_or_counted_in_a_gap(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    recorder = safe(ledger, kept_events_max=40)
    each, threads = bench.rounds(40), 4
    over = threading.Event()

    def record(thread: int) -> None:
        for number in range(each):
            one = adapter_event(thread * each + number)
            if number % 2:
                recorder.record(one)
            else:
                run_async(recorder.arecord(one))

    def disturb() -> None:
        chance = bench.chance("disturbed")
        while not over.is_set():
            # No lost answers: an event that is stored, and dropped because nobody knows it, counts twice.
            if chance.random() < 0.5:
                faulty.fail(StoreFull("no space"), times=None)
            else:
                faulty.lose_commit(times=2)
            over.wait(0.003)
            faulty.heal()
            over.wait(0.003)

    disturber = threading.Thread(target=disturb, daemon=True)
    with listening():
        disturber.start()
        try:
            found = in_threads([lambda at=at: record(at) for at in range(threads)])  # type: ignore[misc]
        finally:
            over.set()
            disturber.join(20)
            faulty.heal()
        for error in found:
            if error is not None:
                raise Failed(f"an adapter's recording raised {error!r}") from error
        expect(recorder.flush(FLUSH_SECONDS_MAX), "everything kept is taken")
    numbers = [entry.payload["number"] for entry in ledger.read(event_type="execution.message")]
    expect_equal(len(numbers), len(set(numbers)), "entries and different events")
    told = sum(gap["events"] for gap in gaps(ledger))
    expect_equal(told, recorder.dropped, "events in gaps, and dropped")
    expect_equal(len(numbers) + told, each * threads, "events stored and events in gaps")
    expect_sound(ledger)


@check(9)
def an_event_that_is_refused_for_good_is_told_as_a_gap_and_holds_up_no_other(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    recorder = safe(ledger)
    made = [adapter_event(number) for number in range(7)]
    ledger.record(**event(0, "other", event_id=made[3]["event_id"]))  # now it is a conflict
    with listening():
        _harmless(lambda: run_async(recorder.arecord(*made)), "a batch with an event that is refused")
        faulty.fail(StoreUnavailable("away"))
        expect(recorder.flush(FLUSH_SECONDS_MAX), "the others are taken")
    found = [entry.payload["number"] for entry in ledger.read(event_type="execution.message")]
    expect_equal(found, [0, 0, 1, 2, 4, 5, 6], "numbers stored")
    (gap,) = gaps(ledger)
    expect_equal((gap["events"], gap["correlations"]), (1, ["run-0"]), "events and runs that the gap names")
    expect(made[3]["event_id"] in gap["reason"], f"the gap says which event, and why: {gap['reason']}")
    expect_sound(ledger)


@check(9)
def a_ledger_that_was_closed_ends_an_adapters_recording_quietly(bench: Bench) -> None:
    place = bench.place()
    ledger, faulty = bench.open_with(FaultyStore, place)
    recorder = safe(ledger)
    made = [adapter_event(number) for number in range(8)]
    with listening() as heard:
        recorder.record(made[0])
        faulty.fail(StoreUnavailable("away"), times=None)
        recorder.record(made[1])
        ledger.close()
        for one in made[2:5]:
            _harmless(lambda one=one: recorder.record(one), "record on a closed ledger")  # type: ignore[misc]
        for one in made[5:]:
            _harmless(lambda one=one: run_async(recorder.arecord(one)), "arecord on a closed ledger")  # type: ignore[misc]
        expect(recorder.flush(FLUSH_SECONDS_MAX), "nothing is kept for a ledger that was closed")
        expect_equal((recorder.kept, recorder.dropped), (0, 7), "kept and dropped")
        over = [record for record in heard if "records nothing more" in record.getMessage()]
        expect_equal(len(over), 1, "log lines about the closed ledger")
    if bench.traits.processes:
        with bench.open(place) as again:
            expect_equal([entry.event_id for entry in again.read()], [made[0]["event_id"]], "events stored")


@check(9)
def the_users_own_record_raises_where_an_adapter_does_not(bench: Bench) -> None:
    ledger, faulty = bench.open_with(FaultyStore)
    with listening():
        for error in ERRORS:
            kind = type(error) if isinstance(error, LedgerError) else LedgerError
            faulty.fail(error, times=3)
            with expecting(kind, f"record while the store says {error!r}"):
                ledger.record(**event(1))
            with expecting(kind, f"record_many while the store says {error!r}"):
                ledger.record_many([event(1), event(2)])

            async def arecord(kind: type[LedgerError] = kind, error: Exception = error) -> None:
                with expecting(kind, f"arecord while the store says {error!r}"):
                    await ledger.arecord(**event(1))

            run_async(arecord())
        with expecting(InvalidEvent, "record of an event without a domain"):
            ledger.record("message", correlation_id="run-1")
        expect_equal(ledger.head, 0, "head after nothing but errors")
        ledger.close()
        with expecting(LedgerClosed, "record on a closed ledger"):
            ledger.record(**event(1))
