"""Promise 2: positions and sequences are dense and in commit order, whoever writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Failed, expect, expect_dense, expect_equal, expect_sound
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events
from chatsnapshot.testing.together import in_tasks, in_threads


def _expect_numbered(entries: list[LedgerEntry], writers: int, each: int) -> None:
    """Every writer's events are there once, in its own order."""
    seen: dict[str, list[int]] = {}
    for entry in entries:
        payload = entry.payload
        seen.setdefault(payload["writer"], []).append(payload["number"])
    expect_equal(len(seen), writers, "writers that were heard")
    for writer, numbers in seen.items():
        expect_equal(numbers, list(range(each)), f"events of {writer} in order")


def _mark(writer: object, number: int, correlation: str = "shared") -> dict[str, Any]:
    return event(number, correlation, payload={"writer": str(writer), "number": number})


@check(2)
def positions_are_dense_while_threads_record(bench: Bench) -> None:
    each = bench.rounds(40)
    with bench.open() as ledger:

        def write(writer: int) -> list[int]:
            shared = [ledger.record(**_mark(writer, number)).position for number in range(each)]
            expect_equal(shared, sorted(shared), "positions of one writer go up")
            return shared

        results = in_threads([lambda writer=writer: write(writer) for writer in range(8)])  # type: ignore[misc]
        positions = [position for found in results for position in _ok(found)]
        expect_dense(sorted(positions), "positions that were given out")
        _expect_numbered(list(ledger.read()), 8, each)
        expect_sound(ledger, 8 * each)


@check(2)
def positions_are_dense_while_tasks_record(bench: Bench) -> None:
    with bench.open() as ledger:

        async def write(number: int) -> list[int]:
            if number % 4:
                return [(await ledger.arecord(**event(number, f"run-{number % 7}"))).position]
            made = await ledger.arecord_many(events(3, f"run-{number % 7}"))
            return [entry.position for entry in made]

        results = in_tasks([lambda number=number: write(number) for number in range(bench.rounds(200))])  # type: ignore[misc]
        positions = [position for found in results for position in _ok(found)]
        expect_dense(sorted(positions), "positions that were given out")
        expect_sound(ledger, len(positions))


@check(2)
def positions_are_dense_while_threads_record_singly_in_batches_and_in_the_background(bench: Bench) -> None:
    each = 6 * bench.rounds(4)
    with bench.open() as ledger:

        def singly(writer: int) -> None:
            for number in range(each):
                ledger.record(**_mark(writer, number, f"run-{number % 3}"))

        def in_batches(writer: int) -> None:
            for first in range(0, each, 6):
                made = ledger.record_many([_mark(writer, first + number) for number in range(6)])
                expect_dense([entry.position for entry in made], "positions of a batch", made[0].position)

        def in_background(writer: int) -> None:
            pendings = [ledger.record(**_mark(writer, number), wait=False) for number in range(each)]
            places = [pending.result(30).position for pending in pendings]
            expect_equal(places, sorted(places), "positions of one writer's pending events go up")

        work = [singly, in_batches, in_background] * 2
        for found in in_threads([lambda at=at, go=go: go(at) for at, go in enumerate(work)]):  # type: ignore[misc]
            _ok(found)
        _expect_numbered(list(ledger.read()), 6, each)
        expect_sound(ledger, 6 * each)


@check(2)
def a_reader_that_has_read_to_a_position_has_read_all_before_it(bench: Bench) -> None:
    each = bench.rounds(40)
    with bench.open() as ledger:
        over = threading.Event()

        def write(writer: int) -> None:
            for number in range(each):
                ledger.record(**_mark(writer, number))

        def follow() -> list[LedgerEntry]:
            seen: list[LedgerEntry] = []
            heads = [0]
            while True:
                last_round = over.is_set()
                heads.append(ledger.head)
                expect(heads[-1] >= heads[-2], f"the head goes back from {heads[-2]} to {heads[-1]}")
                new = list(ledger.read(after=len(seen)))
                expect_dense([entry.position for entry in new], "positions read", len(seen) + 1)
                expect(len(seen) + len(new) >= heads[-1], f"read to {len(seen) + len(new)}, head {heads[-1]}")
                seen += new
                if last_round:
                    return seen

        results: list[Any] = [None]

        def run() -> None:
            try:
                results[0] = follow()
            except Exception as error:
                results[0] = error

        reader = threading.Thread(target=run, daemon=True)
        reader.start()
        try:
            for found in in_threads([lambda writer=writer: write(writer) for writer in range(4)]):  # type: ignore[misc]
                _ok(found)
        finally:
            over.set()
            reader.join(40)
        _expect_numbered(_ok(results[0]), 4, each)


@check(2)
def order_never_depends_on_a_clock(bench: Bench) -> None:
    chance = bench.chance("clock")
    start = 1_796_000_000_000_000_000
    with bench.open(clock=lambda: start + chance.randint(-(10**9), 10**9)) as ledger:
        entries = [ledger.record(**event(number, f"run-{number % 3}")) for number in range(60)]
        expect_dense([entry.position for entry in entries], "positions")
        expect_equal(
            [entry.payload["number"] for entry in ledger.read()], list(range(60)), "order of reading"
        )
        expect_sound(ledger, 60)


def write_shared(say: Say, bench: Bench, place: str, writer: int, each: int, batch: int) -> list[int]:
    """Record into one correlation that all writers share, and into one's own."""
    say("ready")
    with bench.open(place) as ledger:
        positions: list[int] = []
        for first in range(0, each, batch):
            correlation = "shared" if first // batch % 2 else f"own-{writer}"
            members = [_mark(writer, first + number, correlation) for number in range(batch)]
            made = ledger.record_many(members) if batch > 1 else [ledger.record(**members[0])]
            positions += [entry.position for entry in made]
        return positions


def tail_all(
    say: Say, bench: Bench, place: str, count: int, filters: dict[str, Any]
) -> list[tuple[int, str, int]]:
    """Follow the ledger until so many entries came."""
    seen: list[tuple[int, str, int]] = []
    with bench.open(place) as ledger, ledger.tail(after=0, timeout=20, **filters) as tail:
        say("ready")
        for entry in tail:
            payload = entry.payload
            seen.append((entry.position, payload["writer"], payload["number"]))
            if len(seen) >= count:
                break
    return seen


def _race_of_processes(bench: Bench, batch: int, filters: dict[str, Any]) -> None:
    place, each = bench.place(), batch * bench.rounds(60 // batch)
    with bench.open(place):
        pass
    with bench.workers(5) as (reader, *writers):
        reader.start(tail_all, bench, place, 4 * each, filters)
        reader.said()
        for at, writer in enumerate(writers):
            writer.start(write_shared, bench, place, at, each, batch)
        given = [position for writer in writers for position in writer.answer()]
        seen = reader.answer()
    expect_dense(sorted(given), "positions that the four writers were given")
    expect_dense([position for position, _, _ in seen], "positions that the reader saw")
    for at in range(4):
        numbers = [number for _, writer, number in seen if writer == str(at)]
        expect_equal(numbers, list(range(each)), f"events of writer {at} as the reader saw them")
    with bench.open(place) as ledger:
        expect_sound(ledger, 4 * each)


@check(2, "processes")
def a_tailing_reader_misses_nothing_while_four_processes_record(bench: Bench) -> None:
    _race_of_processes(bench, 1, {})


@check(2, "processes")
def a_tailing_reader_misses_nothing_while_four_processes_record_batches(bench: Bench) -> None:
    _race_of_processes(bench, 5, {})


@check(2, "processes")
def a_filtered_tail_misses_nothing_while_four_processes_record(bench: Bench) -> None:
    # A hole cannot be noticed by the reader itself here, because a filter leaves out positions anyway.
    _race_of_processes(bench, 3, {"event_type": ["execution.*", "system.*"]})


@check(2)
def a_filtered_tail_misses_nothing_while_threads_record(bench: Bench) -> None:
    each = bench.rounds(30)
    with bench.open() as ledger:
        seen: list[LedgerEntry] = []

        def follow() -> None:
            with ledger.tail(after=0, timeout=20, event_type="execution.*") as tail:
                for entry in tail:
                    seen.append(entry)
                    if len(seen) == 4 * each:
                        return

        def write(writer: int) -> None:
            for number in range(each):
                ledger.record(**_mark(writer, number, f"run-{writer % 2}"))
                ledger.record("system.noise", correlation_id="noise")

        work: list[Callable[[], None]] = [follow, *[partial(write, writer) for writer in range(4)]]
        for found in in_threads(work):
            _ok(found)
        _expect_numbered(seen, 4, each)


@check(2, "processes")
def two_handles_of_one_process_keep_one_order(bench: Bench) -> None:
    place, each = bench.place(), bench.rounds(30)
    with bench.open(place) as one, bench.open(place) as other:

        def write(ledger: Ledger, writer: int) -> None:
            for number in range(each):
                ledger.record(**_mark(writer, number))

        work = [lambda at=at: write((one, other)[at % 2], at) for at in range(4)]
        for found in in_threads(work):
            _ok(found)
        _expect_numbered(list(one.read()), 4, each)
        expect_sound(other, 4 * each)


def _ok(found: Any) -> Any:
    """A result that is no error."""
    if isinstance(found, Failed):
        raise found
    if isinstance(found, BaseException):
        raise Failed(f"recording failed: {type(found).__name__}: {found}") from found
    return found
