"""Duty: recorded_at is one value a commit, never goes back, and a clock that does is noted once."""

from __future__ import annotations

from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import expect, expect_equal, expect_sound
from chatsnapshot.testing.samples import Ticking, event, events

SECOND = 1_000_000_000


@check("clock")
def a_commit_has_one_recorded_at_from_the_clock_of_the_ledger(bench: Bench) -> None:
    clock = Ticking()
    with bench.open(clock=clock) as ledger:
        first = ledger.record(**event(1))
        made = ledger.record_many(events(10))
        expect_equal({entry.recorded_at for entry in made}, {made[0].recorded_at}, "values in a commit")
        expect(made[0].recorded_at > first.recorded_at, "the clock goes on")
        expect(made[0].recorded_at.startswith("2026-11-30T00:53:2"), f"found {made[0].recorded_at}")
        expect_sound(ledger, 11)


@check("clock")
def recorded_at_never_goes_back_and_a_little_drift_is_not_noted(bench: Bench) -> None:
    clock = Ticking()
    with bench.open(clock=clock) as ledger:
        last = ledger.record(**event(1)).recorded_at
        for _ in range(5):
            clock.nanoseconds -= SECOND
            expect_equal(ledger.record(**event(2)).recorded_at, last, "recorded_at while the clock is behind")
        clock.nanoseconds += 20 * SECOND
        expect(ledger.record(**event(3)).recorded_at > last, "recorded_at goes on with the clock")
        expect_sound(ledger, 7)


@check("clock")
def a_clock_far_behind_is_recorded_once_until_it_is_right_again(bench: Bench) -> None:
    clock = Ticking()
    with bench.open(clock=clock) as ledger:
        last = ledger.record(**event(1)).recorded_at
        for turn in (1, 2):
            clock.nanoseconds -= 3600 * SECOND
            entries = [ledger.record(**event(number)) for number in range(5)]
            expect_equal(
                {entry.recorded_at for entry in entries}, {last}, "recorded_at while the clock is behind"
            )
            notes = list(ledger.read(event_type="ledger.clock_behind"))
            expect_equal(len(notes), turn, "notes about the clock")
            expect_equal(notes[-1].correlation_id, "ledger", "correlation of the note")
            clock.nanoseconds += 3700 * SECOND
            last = ledger.record(**event(9)).recorded_at
        expect_sound(ledger)


@check("clock", "durable")
def the_last_recorded_at_is_known_after_opening_again(bench: Bench) -> None:
    place, clock = bench.place(), Ticking()
    with bench.open(place, clock=clock) as ledger:
        last = ledger.record(**event(1)).recorded_at
    clock.nanoseconds -= 2 * SECOND
    with bench.open(place, clock=clock) as ledger:
        expect_equal(ledger.record(**event(2)).recorded_at, last, "recorded_at after opening again")
        expect_sound(ledger, 2)


@check("clock", "processes")
def two_handles_with_different_clocks_keep_one_time(bench: Bench) -> None:
    place = bench.place()
    ahead, behind = Ticking(), Ticking()
    behind.nanoseconds -= 3 * SECOND
    with bench.open(place, clock=ahead) as one, bench.open(place, clock=behind) as other:
        for number in range(10):
            (one if number % 2 else other).record(**event(number))
        expect_sound(one, 10)
        expect_sound(other, 10)


@check("clock")
def timestamps_of_events_are_kept_whatever_the_clock_says(bench: Bench) -> None:
    times = ["2026-11-30T02:26:03.123456Z", "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"]
    with bench.open() as ledger:
        for moment in times:
            expect_equal(ledger.record(**event(1, timestamp=moment)).timestamp, moment, "timestamp")
        moment = ledger.record(**event(1, timestamp="2026-11-30T04:26:03+02:00")).timestamp
        expect_equal(moment, "2026-11-30T02:26:03.000000Z", "a timestamp of another zone in UTC")
