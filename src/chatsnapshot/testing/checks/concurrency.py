"""Promise 5: ``expected_sequence`` decides who goes first."""

from __future__ import annotations

from typing import Any

from chatsnapshot.errors import InvalidEvent, SequenceConflict
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Failed, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events, new_id
from chatsnapshot.testing.together import in_tasks, in_threads


@check(5)
def an_expected_sequence_is_the_last_sequence_or_a_conflict(bench: Bench) -> None:
    with bench.open() as ledger:
        for number in range(4):
            for wrong in {0, number - 1, number + 1, 99} - {number, -1}:
                with expecting(SequenceConflict, f"expected {wrong} at {number}") as caught:
                    ledger.record(**event(number), expected_sequence=wrong)
                error = caught.error
                expect_equal((error.wanted, error.found), (wrong, number), "wanted and found")
                expect_equal(error.correlation_id, "run-1", "correlation that is named")
            entry = ledger.record(**event(number), expected_sequence=number)
            expect_equal(entry.sequence, number + 1, "sequence")
            ledger.record(**event(number, "other"))
        made = ledger.record_many(events(3), expected_sequence=4)
        expect_equal([entry.sequence for entry in made], [5, 6, 7], "sequences of a batch")
        with expecting(SequenceConflict, "a batch that is late"):
            ledger.record_many(events(3), expected_sequence=4)
        expect_sound(ledger, 11)


@check(5)
def known_ids_are_looked_at_before_the_expected_sequence(bench: Bench) -> None:
    chance = bench.chance("known")
    with bench.open() as ledger:
        given = event(1, event_id=new_id(chance))
        first = ledger.record(**given, expected_sequence=0)
        ledger.record(**event(2))
        expect_equal(ledger.record(**given, expected_sequence=0), first, "a retry whose answer was lost")
        batch = [event(number, event_id=new_id(chance)) for number in range(3)]
        made = ledger.record_many(batch, expected_sequence=2)
        expect_equal(ledger.record_many(batch, expected_sequence=2), made, "a retried batch")


@check(5)
def an_expected_sequence_is_about_one_correlation_and_needs_the_answer(bench: Bench) -> None:
    with bench.open() as ledger:
        with expecting(InvalidEvent, "two correlations"):
            ledger.record_many([event(1), event(2, "run-2")], expected_sequence=0)
        with expecting(InvalidEvent, "wait=False"):
            ledger.record(**event(1), expected_sequence=0, wait=False)
        for wrong in (-1, True, "1", 1.0):
            with expecting(InvalidEvent, f"expected_sequence={wrong!r}"):
                ledger.record(**event(1), expected_sequence=wrong)
        expect_equal(ledger.head, 0, "head")


@check(5)
def a_lost_race_leaves_nothing_behind(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record(**event(0))
        before = store_of(ledger).head()
        with expecting(SequenceConflict, "too late"):
            ledger.record_many(events(5), expected_sequence=0)
        expect_equal(store_of(ledger).head(), before, "head with frontier and recorded_at")
        expect_equal(ledger.record(**event(1), expected_sequence=1).position, 2, "the next position")


@check(5)
def of_threads_that_expect_the_same_sequence_exactly_one_wins_each_step(bench: Bench) -> None:
    with bench.open() as ledger:
        for step in range(bench.rounds(15)):

            def attempt(writer: int, step: int = step) -> Any:
                return ledger.record(**event(writer), expected_sequence=step)

            found = in_threads([lambda writer=writer: attempt(writer) for writer in range(6)])  # type: ignore[misc]
            _expect_one(found, step)
        expect_sound(ledger, bench.rounds(15))


@check(5)
def of_tasks_that_expect_the_same_sequence_exactly_one_wins_each_step(bench: Bench) -> None:
    with bench.open() as ledger:
        for step in range(bench.rounds(10)):

            async def attempt(writer: int, step: int = step) -> Any:
                if writer % 2:
                    return await ledger.arecord(**event(writer), expected_sequence=2 * step)
                made = await ledger.arecord_many(events(2), expected_sequence=2 * step)
                return made[0]

            found = in_tasks([lambda writer=writer: attempt(writer) for writer in range(20)])  # type: ignore[misc]
            _expect_one(found, 2 * step)
            if ledger.head == 2 * step + 1:
                ledger.record(**event(0))
        expect_sound(ledger)


def _expect_one(found: list[Any], expected: int) -> None:
    winners = [entry for entry in found if not isinstance(entry, BaseException)]
    losers = [error for error in found if isinstance(error, SequenceConflict)]
    if len(winners) != 1 or len(losers) != len(found) - 1:
        raise Failed(f"at sequence {expected}: {len(winners)} won and {len(losers)} lost, of {found}")
    expect_equal(winners[0].sequence, expected + 1, "sequence of the winner")
    expect(all(error.found > expected for error in losers), "every loser is told what was found")


def climb(say: Say, bench: Bench, place: str, goal: int) -> list[int]:
    """Record at the sequence one knows of, until the correlation has reached the goal; the sequences won."""
    won: list[int] = []
    with bench.open(place) as ledger:
        sequence = 0
        while sequence < goal:
            try:
                sequence = ledger.record(**event(sequence), expected_sequence=sequence).sequence
                won.append(sequence)
            except SequenceConflict as conflict:
                if conflict.found <= sequence:
                    raise RuntimeError(f"refused at {sequence} though {conflict.found} was found") from None
                sequence = conflict.found
    return won


@check(5, "processes")
def of_processes_that_expect_the_same_sequence_exactly_one_wins_each_step(bench: Bench) -> None:
    place, goal = bench.place(), bench.rounds(80)
    with bench.open(place):
        pass
    with bench.workers(4) as crew:
        for worker in crew:
            worker.start(climb, bench, place, goal)
        won = [sequence for worker in crew for sequence in worker.answer()]
    expect_equal(sorted(won), list(range(1, len(won) + 1)), "sequences won, by one process each")
    with bench.open(place) as ledger:
        expect_sound(ledger, len(won))
