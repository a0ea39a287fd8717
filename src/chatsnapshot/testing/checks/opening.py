"""Duty: opening a ledger: who may make one, one identity for all handles, several at once."""

from __future__ import annotations

import os
from typing import Any

from chatsnapshot.errors import InvalidEvent, LedgerClosed, NotFound
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import expect, expect_dense, expect_equal, expect_sound, expecting
from chatsnapshot.testing.leftovers import left_behind, threads_at_rest
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events
from chatsnapshot.testing.together import in_threads


@check("opening", "durable")
def a_ledger_that_is_not_there_is_not_found_and_not_made_by_the_attempt(bench: Bench) -> None:
    place = bench.place()
    for options in ({"create": False}, {"read_only": True}, {"create": True, "read_only": True}):
        with expecting(NotFound, f"opened with {options}"):
            bench.open(place, **options)  # type: ignore[arg-type]
        expect_equal([name for name in bench.files(place) if os.path.getsize(name)], [], "files left behind")


@check("opening", "durable")
def every_handle_has_the_id_of_the_ledger_and_every_ledger_its_own(bench: Bench) -> None:
    place = bench.place()
    with bench.open(place) as ledger:
        identity = ledger.ledger_id
        expect(len(identity) == 36, f"a ledger's id is UUID text, not {identity!r}")
    with bench.open(place) as one, bench.open(place, read_only=True) as other, bench.open() as different:
        expect_equal((one.ledger_id, other.ledger_id), (identity, identity), "ids of two more handles")
        expect(different.ledger_id != identity, "another ledger has another id")


@check("opening")
def a_new_ledger_is_empty_and_says_that_there_is_nothing_to_verify(bench: Bench) -> None:
    with bench.open() as ledger:
        expect_equal((ledger.head, list(ledger.read())), (0, []), "head and entries")
        report = ledger.verify()
        expect(report.ok and "nothing to verify" in report.summary, f"verify says {report.summary!r}")


@check("opening")
def an_unknown_durability_is_refused(bench: Bench) -> None:
    with expecting(InvalidEvent, "durability='perhaps'"):
        bench.open(durability="perhaps")


@check("opening")
def a_closed_ledger_refuses_everything_and_closes_twice(bench: Bench) -> None:
    ledger = bench.open()
    pending = ledger.record(**event(1), wait=False)
    ledger.close()
    ledger.close()
    expect_equal(pending.result(1).position, 1, "what was accepted before the close")
    attempts: dict[str, Any] = {
        "record": lambda: ledger.record(**event(1)),
        "record_many": lambda: ledger.record_many(events(2)),
        "record(wait=False)": lambda: ledger.record(**event(1), wait=False),
        "read": lambda: list(ledger.read()),
        "get": lambda: ledger.get(pending.event_id),
        "head": lambda: ledger.head,
    }
    for name, attempt in attempts.items():
        with expecting(LedgerClosed, f"{name} after close"):
            attempt()


def open_first(say: Say, bench: Bench, places: list[str], number: int) -> list[tuple[int, str]]:
    """Open each place as soon as all others are about to, and record one event."""
    found: list[tuple[int, str]] = []
    for at, place in enumerate(places):
        marks = (
            os.path.join(os.path.dirname(bench.path(places[0])) or ".", f".gate-{at}-")
            if bench.path(place)
            else ""
        )
        if marks:
            _wait_for_all(marks, number)
        with bench.open(place) as ledger:
            found.append((ledger.record(**event(number)).position, ledger.ledger_id))
    return found


PROCESSES = 8


def _wait_for_all(marks: str, number: int) -> None:
    """A barrier of files: go on when every process has made its own."""
    with open(f"{marks}{number}", "w"):
        pass
    while not all(os.path.exists(f"{marks}{other}") for other in range(PROCESSES)):
        os.sched_yield() if hasattr(os, "sched_yield") else None


@check("opening", "processes")
def eight_processes_open_a_new_ledger_at_once_twenty_times(bench: Bench) -> None:
    places = [bench.place() for _ in range(bench.rounds(20))]
    with bench.workers(PROCESSES) as crew:
        for number, worker in enumerate(crew):
            worker.start(open_first, bench, places, number)
        answers = [worker.answer() for worker in crew]
    for at, place in enumerate(places):
        expect_dense(sorted(answer[at][0] for answer in answers), f"positions in ledger {at}")
        expect_equal(len({answer[at][1] for answer in answers}), 1, f"ids that ledger {at} was given")
        with bench.open(place, create=False) as ledger:
            expect_equal(ledger.ledger_id, answers[0][at][1], f"id of ledger {at}")
            expect_sound(ledger, PROCESSES)


@check("opening", "processes")
def eight_threads_open_a_new_ledger_at_once(bench: Bench) -> None:
    for _ in range(bench.rounds(5)):
        place = bench.place()

        def first(place: str = place) -> tuple[int, str]:
            with bench.open(place) as ledger:
                return ledger.record(**event(1)).position, ledger.ledger_id

        found: list[Any] = in_threads([first] * 8)
        for one in found:
            expect(isinstance(one, tuple), f"a thread failed: {one!r}")
        expect_dense(sorted(position for position, _ in found), "positions")
        expect_equal(len({identity for _, identity in found}), 1, "ids of the ledger")


@check("opening")
def ledgers_of_one_database_keep_apart(bench: Bench) -> None:
    place = bench.place()
    other = bench.beside(place, "tenant-b")
    given = event(1, event_id="11111111-1111-4111-8111-111111111111")
    with bench.open(place) as one, bench.open(other) as two:
        first = one.record(**given)
        one.record(**event(2))
        second = two.record(**{**given, "payload": {"other": 1}})
        expect_equal((first.position, second.position), (1, 1), "positions in each")
        expect(one.ledger_id != two.ledger_id, "each has an id of its own")
        expect_equal((one.head, two.head), (2, 1), "heads")
        expect_sound(one, 2)
        expect_sound(two, 1)
        with expecting(NotFound, "a third one that was never made"):
            bench.open(bench.beside(place, "tenant-c"), create=False)


@check("opening", "processes")
def opening_and_closing_many_times_leaves_threads_and_file_descriptors_constant(bench: Bench) -> None:
    with bench.workers(1) as (worker,):
        before, after = worker.run(open_and_close, bench, bench.rounds(40))
    expect_equal(after, before, "threads and file descriptors before and after")


def open_and_close(
    say: Say, bench: Bench, times: int
) -> tuple[tuple[list[str], int | None], tuple[list[str], int | None]]:
    """Open, record in both ways, read, close; threads and descriptors after the third time and after the last."""
    place = bench.place()
    own = threads_at_rest()
    left = []
    for number in range(times + 3):
        with bench.open(place) as ledger:
            ledger.record(**event(number))
            ledger.record(**event(number), wait=False)
            ledger.flush(20)
            list(ledger.read(limit=3))
        if number in (2, times + 2):
            left.append(left_behind(own))
    return left[0], left[-1]
