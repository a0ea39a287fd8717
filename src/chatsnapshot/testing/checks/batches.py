"""Promise 4: a batch lands whole or not at all, and nobody ever sees a part of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from chatsnapshot.errors import EventConflict, InvalidEvent, LedgerError, LimitExceeded
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Group
from chatsnapshot.stores.draft import seal_groups
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Failed, expect, expect_dense, expect_equal, expect_sound, expecting
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events, new_id
from chatsnapshot.testing.together import in_threads


@check(4)
def a_batch_lands_whole_in_its_order_and_side_by_side(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record(**event(0))
        made = ledger.record_many([event(number, f"run-{number % 3}") for number in range(20)])
        expect_dense([entry.position for entry in made], "positions of the batch", 2)
        expect_equal([entry.payload["number"] for entry in made], list(range(20)), "order of the answer")
        expect_equal(list(ledger.read(after=1)), made, "what was read")
        expect_equal({entry.recorded_at for entry in made}, {made[0].recorded_at}, "one recorded_at a commit")
        expect_equal(ledger.record_many([]), [], "an empty batch")
        expect_sound(ledger, 21)


@check(4)
def a_batch_larger_than_a_page_lands_whole(bench: Bench) -> None:
    with bench.open() as ledger:
        count = min(1500, bench.traits.batch_events_max)
        made = ledger.record_many(events(count))
        expect_equal(len(made), count, "entries")
        expect_sound(ledger, count)


@check(4)
def one_conflict_refuses_the_whole_batch(bench: Bench) -> None:
    chance = bench.chance("conflict")
    with bench.open() as ledger:
        known = new_id(chance)
        ledger.record(**event(0, event_id=known))
        for place in (0, 3, 6):
            batch = [event(number, event_id=new_id(chance)) for number in range(1, 7)]
            batch.insert(place, event(99, event_id=known))
            with expecting(EventConflict, f"a conflict at place {place}") as caught:
                ledger.record_many(batch)
            expect_equal(caught.error.event_id, known, "event that the conflict names")
            expect_equal(ledger.head, 1, "head")
            expect_equal(_known(ledger, batch), {known}, "ids of the batch that are known")
        expect_sound(ledger, 1)


@check(4)
def one_invalid_event_refuses_the_whole_batch(bench: Bench) -> None:
    with bench.open() as ledger:
        with expecting(InvalidEvent, "an event without a correlation") as caught:
            ledger.record_many([*events(3), {"event_type": "execution.message"}])
        expect("event 3" in str(caught.error), f"the error names the event: {caught.error}")
        expect_equal(ledger.head, 0, "head")


@check(4)
def known_events_give_their_entries_and_the_new_ones_land_together(bench: Bench) -> None:
    chance = bench.chance("known")
    with bench.open() as ledger:
        given = [event(number, event_id=new_id(chance)) for number in range(6)]
        first = [ledger.record(**given[1]), ledger.record(**given[4])]
        ledger.record(**event(100, "other"))
        made = ledger.record_many(given)
        expect_equal([made[1], made[4]], first, "entries of the known events")
        expect_equal([made[at].position for at in (0, 2, 3, 5)], [4, 5, 6, 7], "positions of the new ones")
        expect_equal(ledger.record_many(list(reversed(given))), made[::-1], "all known, the other way round")
        expect_sound(ledger, 7)


@check(4)
def the_same_event_twice_in_a_batch_counts_once(bench: Bench) -> None:
    chance = bench.chance("twice")
    with bench.open() as ledger:
        twin = event(1, event_id=new_id(chance))
        made = ledger.record_many([event(0), twin, event(2), twin])
        expect_equal(made[3], made[1], "entry of the repeated event")
        expect_equal(ledger.head, 3, "head")
        other = new_id(chance)
        with expecting(EventConflict, "one id with two contents in a batch") as caught:
            ledger.record_many([event(3), event(4, event_id=other), event(5, event_id=other)])
        expect_equal(caught.error.event_id, other, "event that the conflict names")
        expect_equal(ledger.head, 3, "head")


@check(4)
def a_batch_beyond_a_limit_is_refused_whole(bench: Bench) -> None:
    with bench.open(limits=Limits(batch_events_max=10, batch_bytes_max=2000)) as ledger:
        with expecting(LimitExceeded, "eleven events") as count:
            ledger.record_many(events(11))
        expect_equal(count.error.limit, "batch_events_max", "limit that is named")
        with expecting(LimitExceeded, "too many bytes") as size:
            ledger.record_many([event(number, payload={"text": "x" * 500}) for number in range(5)])
        expect_equal(size.error.limit, "batch_bytes_max", "limit that is named")
        expect_equal(ledger.head, 0, "head")
        ledger.record_many(events(10))


@check(4)
def of_several_groups_in_one_commit_only_the_bad_one_fails(bench: Bench) -> None:
    chance = bench.chance("groups")
    with bench.open() as ledger:
        known, shared = new_id(chance), new_id(chance)
        ledger.record(**event(0, event_id=known))
        batches = [
            events(2),
            [event(1), event(9, event_id=known), event(2)],
            [event(3, event_id=shared)],
            [event(3, event_id=shared)],
            [event(4, event_id=shared)],
            events(1, "run-2"),
        ]
        groups = [ledger._batch(batch, None) for batch in batches]
        seal_groups(groups, os.urandom)
        outcomes = store_of(ledger).append([*groups, Group(groups[0].drafts[:0])])
        kinds = [type(outcome).__name__ for outcome in outcomes]
        wanted = ["list", "EventConflict", "list", "list", "EventConflict", "list", "list"]
        expect_equal(kinds, wanted, "outcomes of the groups")
        expect_equal(outcomes[2], outcomes[3], "the same event in two groups of one commit")
        expect_equal(ledger.head, 5, "head")
        expect_sound(ledger, 5)


SIZE = 9


def _batch(number: int) -> list[dict[str, Any]]:
    return [event(part, f"run-{part % 2}", payload={"batch": number, "part": part}) for part in range(SIZE)]


def _expect_whole(ledger: Ledger, after: int = 0) -> int:
    """Every batch that can be seen is whole; gives the last position."""
    parts: dict[int, list[int]] = {}
    last = after
    for entry in ledger.read(after=after):
        payload = entry.payload
        parts.setdefault(payload["batch"], []).append(payload["part"])
        last = entry.position
    for number, found in parts.items():
        expect_equal(found, list(range(SIZE)), f"parts of batch {number} that a reader sees")
    return last


@check(4)
def no_reader_ever_sees_a_part_of_a_batch(bench: Bench) -> None:
    batches = bench.rounds(20)
    with bench.open() as ledger:
        over = threading.Event()
        left = threading.Semaphore(0)

        def write(writer: int) -> None:
            try:
                for number in range(batches):
                    ledger.record_many(_batch(writer * 1000 + number))
            finally:
                left.release()

        def read() -> int:
            last = looks = 0
            while not over.is_set():
                last = _expect_whole(ledger, last)
                expect_equal(ledger.head % SIZE, 0, "events of a part of a batch at the head")
                looks += 1
            return looks

        def wait() -> None:
            for _ in range(3):
                left.acquire()
            over.set()

        work: list[Callable[[], object]] = [partial(write, writer) for writer in range(3)]
        work += [read, read, wait]
        for found in in_threads(work):
            if isinstance(found, Exception):
                raise found if isinstance(found, Failed) else Failed(f"{found!r}") from found
        expect_equal(_expect_whole(ledger), 3 * batches * SIZE, "head")
        expect_sound(ledger)


def write_batches(say: Say, bench: Bench, place: str, writer: int, count: int) -> None:
    """Record so many batches."""
    with bench.open(place) as ledger:
        for number in range(count):
            ledger.record_many(_batch(writer * 1000 + number))


@check(4, "processes")
def no_process_ever_sees_a_part_of_a_batch_of_another(bench: Bench) -> None:
    place, count = bench.place(), bench.rounds(25)
    with bench.open(place) as ledger, bench.workers(2) as crew:
        for at, worker in enumerate(crew):
            worker.start(write_batches, bench, place, at, count)
        last, goal = 0, 2 * count * SIZE
        while not all([worker.look() for worker in crew]):  # noqa: C419  # each is looked at
            last = _expect_whole(ledger, last)
        for worker in crew:
            worker.answer()
        expect_sound(ledger, goal)


@check(4)
def a_batch_that_is_refused_leaves_nothing_behind(bench: Bench) -> None:
    chance = bench.chance("nothing")
    with bench.open() as ledger:
        ledger.record(**event(0, event_id=(known := new_id(chance))))
        before = store_of(ledger).head()
        big = {"data": b"\x01" * 100_000}
        batch = [event(1, "run-new", payload=big, event_id=new_id(chance)), event(2, event_id=known)]
        with expecting(LedgerError, "a conflict"):
            ledger.record_many(batch)
        expect_equal(store_of(ledger).head(), before, "head with frontier and recorded_at")
        expect_equal(store_of(ledger).last_sequence("run-new"), 0, "sequence of the new correlation")
        used = [users for _, _, users in store_of(ledger).blobs()]
        expect(not any(used), "a blob of a refused batch is named by no entry")
        entry = ledger.record(**event(1, "run-new"))
        expect_equal((entry.position, entry.sequence), (2, 1), "place of the next event")


def _known(ledger: Ledger, batch: list[dict[str, Any]]) -> set[str]:
    """Which ids of a batch the ledger knows."""
    from chatsnapshot.clock import uuid_bytes, uuid_text

    found = store_of(ledger).get([uuid_bytes(one["event_id"]) for one in batch])
    return {uuid_text(key) for key in found}
