"""Duty: reads give exactly what matches, in order, whatever the size of a page."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import Limits
from chatsnapshot.reading import Reading
from chatsnapshot.stores.base import Query
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.checks.replay import record_varied
from chatsnapshot.testing.expecting import expect, expect_dense, expect_equal, expecting
from chatsnapshot.testing.samples import TYPES, event, events, new_id
from chatsnapshot.testing.together import in_threads, run_async

Filter = tuple[dict[str, Any], Callable[[LedgerEntry], bool]]

SMALL = Limits(page_entries_max=7, scan_entries_max=20, page_bytes_max=600)


def _has(field: str, value: object, entry: LedgerEntry) -> bool:
    return bool(getattr(entry, field) == value)


def _source_has(field: str, value: object, entry: LedgerEntry) -> bool:
    return bool(getattr(entry.source, field) == value)


def _attribute_is(key: str, value: object, entry: LedgerEntry) -> bool:
    return _attribute(entry, key, value)


def _attribute(entry: LedgerEntry, key: str, wanted: Any) -> bool:
    found = entry.attributes.get(key)
    if isinstance(found, list):
        return wanted in found
    return type(found) is type(wanted) and found == wanted


def _filters(entries: list[LedgerEntry]) -> list[Filter]:
    """Filters, and what they mean, said in Python over entries."""
    cause = next(entry.causation_id for entry in entries if entry.causation_id is not None)
    start, end = "2026-11-10T00:00:00Z", "2026-11-20T12:00:00.000000Z"
    found: list[Filter] = [
        ({}, lambda entry: True),
        ({"causation_id": cause}, lambda entry: entry.causation_id == cause),
        ({"start": start}, lambda entry: entry.timestamp >= "2026-11-10T00:00:00.000000Z"),
        ({"end": end}, lambda entry: entry.timestamp < end),
        (
            {"start": start, "end": end},
            lambda entry: "2026-11-10T00:00:00.000000Z" <= entry.timestamp < end,
        ),
        ({"correlation_id": "nowhere"}, lambda entry: False),
        ({"event_type": []}, lambda entry: False),
        ({"event_type": "*"}, lambda entry: True),
        (
            {"event_type": "execution.*"},
            lambda entry: entry.event_type.startswith("execution."),
        ),
        (
            {"event_type": ["custom.a.*", "ui.input_received"]},
            lambda entry: entry.event_type.startswith("custom.a.") or entry.event_type == "ui.input_received",
        ),
        (
            {"correlation_id": "run-1", "event_type": "execution.*", "origin": "agent"},
            lambda entry: (
                entry.correlation_id == "run-1"
                and entry.event_type.startswith("execution.")
                and entry.source.origin == "agent"
            ),
        ),
        (
            {"attributes": {"done": True, "subjects": "ann"}},
            lambda entry: _attribute(entry, "done", True) and _attribute(entry, "subjects", "ann"),
        ),
    ]
    for correlation in sorted({entry.correlation_id for entry in entries}):
        found.append(({"correlation_id": correlation}, partial(_has, "correlation_id", correlation)))
    for event_type in TYPES:
        found.append(({"event_type": event_type}, partial(_has, "event_type", event_type)))
    for field, values in {
        "origin": ["agent", "ui"],
        "runtime": ["ag2", "none"],
        "name": ["Ann", "naïve ☃", 'quote"d', "%"],
    }.items():
        for value in values:
            found.append(({field: value}, partial(_source_has, field, value)))
    attributes: dict[str, list[Any]] = {
        "outcome": ["ok", "1", 1, True],
        "done": [True, False, 1, 0, "true"],
        "tries": [0, 1, 2**53 - 1, True, False, "0"],
        "subjects": ["ann", 'd"e'],
        "nothing": ["x"],
    }
    for key, wanted in attributes.items():
        for value in wanted:
            found.append(({"attributes": {key: value}}, partial(_attribute_is, key, value)))
    return found


def _expect_filters(ledger: Ledger, count: int) -> None:
    entries = list(ledger.read())
    expect_equal(len(entries), count, "entries")
    for filters, means in _filters(entries):
        wanted = [entry.position for entry in entries if means(entry)]
        expect_equal([entry.position for entry in ledger.read(**filters)], wanted, f"read({filters})")
        back = [entry.position for entry in ledger.read(**filters, reverse=True)]
        expect_equal(back, wanted[::-1], f"read({filters}, reverse=True)")
        for limit in (0, 1, 5):
            some = [entry.position for entry in ledger.read(**filters, limit=limit)]
            expect_equal(some, wanted[:limit], f"read({filters}, limit={limit})")
        bounded = [entry.position for entry in ledger.read(**filters, after=31, until=97)]
        inside = [position for position in wanted if 31 < position <= 97]
        expect_equal(bounded, inside, f"read({filters}, after=31, until=97)")
        last = [entry.position for entry in ledger.read(**filters, after=31, until=97, reverse=True, limit=3)]
        expect_equal(last, inside[::-1][:3], f"read({filters}, after=31, until=97, reverse=True, limit=3)")


@check("reading")
def every_filter_gives_exactly_what_matches(bench: Bench) -> None:
    with bench.open() as ledger:
        record_varied(ledger, bench, 160)
        _expect_filters(ledger, 160)


@check("reading")
def every_filter_gives_the_same_in_pages_of_any_size(bench: Bench) -> None:
    with bench.open(limits=SMALL) as ledger:
        record_varied(ledger, bench, 130)
        _expect_filters(ledger, 130)


@check("reading")
def pages_leave_out_nothing_and_tell_the_position_scanned_to(bench: Bench) -> None:
    with bench.open(limits=SMALL) as ledger:
        record_varied(ledger, bench, 130)
        for query in (
            Query(),
            Query(origin="ui"),
            Query(correlation_id="run-1"),
            Query(event_types=("ui.input_received",)),
            Query(name="nobody"),
        ):
            reading = Reading(ledger, query)
            found: list[int] = []
            scanned = 0
            for _ in range(200):
                page = reading.page()
                positions = [entry.position for entry in page]
                expect(len(positions) <= 7, f"a page holds {len(positions)} entries of at most 7")
                expect(all(scanned < position <= reading.scanned_to for position in positions), "page inside")
                expect(reading.scanned_to >= scanned, "the position scanned to goes up")
                scanned = reading.scanned_to
                found += positions
                if reading.exhausted:
                    break
            expect(reading.exhausted, f"{query} never ends")
            whole = store_of(ledger).read(query, after=0, until=130, limit=1000, reverse=False, hint=None)
            if whole.done:
                expect_equal(found, [row[0] for row in whole.rows], f"positions of {query}")
            expect_equal(scanned, 130, "position scanned to at the end")


@check("reading")
def a_hint_changes_nothing_but_the_speed(bench: Bench) -> None:
    with bench.open() as ledger:
        record_varied(ledger, bench, 120)
        store = store_of(ledger)
        query = Query(correlation_id="run-1")
        for reverse in (False, True):
            first = store.read(query, after=0, until=120, limit=5, reverse=reverse, hint=None)
            bounds = (
                {"after": 0, "until": first.scanned_to}
                if reverse
                else {"after": first.scanned_to, "until": 120}
            )
            hinted, plain = (
                store.read(query, **bounds, limit=50, reverse=reverse, hint=hint)
                for hint in (first.rows[-1][1], None)
            )
            expect_equal(
                list(hinted.rows), list(plain.rows), f"rows with and without hint, reverse={reverse}"
            )
            expect_equal(hinted[1:], plain[1:], f"position scanned to, reverse={reverse}")


@check("reading")
def a_read_ends_at_the_head_of_its_start(bench: Bench) -> None:
    with bench.open(limits=SMALL) as ledger:
        for one in events(20):
            ledger.record(**one)
        seen: list[int] = []
        for entry in ledger.read():
            seen.append(entry.position)
            ledger.record(**event(100 + entry.position))
        expect_dense(seen, "positions read while others were added")
        expect_equal(len(seen), 20, "entries read")
        expect_equal(ledger.head, 40, "head")


@check("reading")
def a_read_that_was_broken_off_goes_on_where_it_was(bench: Bench) -> None:
    with bench.open(limits=SMALL) as ledger:
        ledger.record_many(events(30))
        reading = ledger.read()
        first = [next(reading).position for _ in range(11)]
        expect_dense([*first, *[entry.position for entry in reading]], "positions of both parts")


@check("reading")
def an_async_read_gives_the_same_entries(bench: Bench) -> None:
    with bench.open(limits=SMALL) as ledger:
        record_varied(ledger, bench, 60)

        async def read() -> tuple[list[Any], list[Any], Any]:
            entries = [entry async for entry in ledger.aread(event_type="execution.*")]
            replayed = [entry async for entry in ledger.areplay("run-1")]
            return entries, replayed, await ledger.aget(entries[0].event_id)

        entries, replayed, one = run_async(read())
        expect_equal(entries, list(ledger.read(event_type="execution.*")), "entries of aread")
        expect_equal(replayed, list(ledger.replay("run-1")), "entries of areplay")
        expect_equal(one, entries[0], "entry of aget")


@check("reading")
def an_entry_is_found_by_its_id_at_once_and_unknown_ids_are_not_found(bench: Bench) -> None:
    with bench.open() as ledger:
        for number in range(300):
            entry = ledger.record(**event(number, f"run-{number % 5}"))
            expect_equal(ledger.get(entry.event_id), entry, "the entry just recorded")
        keys = [entry.event_key for entry in ledger.read()]
        unknown = b"\x00" * 16
        found = store_of(ledger).get([*keys, unknown])
        expect_equal(set(found), set(keys), "ids that are known")
        expect_equal(store_of(ledger).get([]), {}, "no ids")
        with expecting(NotFound, "an unknown id"):
            ledger.get(new_id(bench.chance("unknown")))
        with expecting(InvalidEvent, "an id that is none"):
            ledger.get("no uuid")


@check("reading")
def a_type_prefix_ends_at_its_dot(bench: Bench) -> None:
    with bench.open() as ledger:
        for event_type in ("execution.a", "execution.a.b", "execution_log.a", "executions.a", "execution.ab"):
            ledger.record(event_type, correlation_id="run-1")
        found = [entry.event_type for entry in ledger.read(event_type="execution.*")]
        expect_equal(found, ["execution.a", "execution.a.b", "execution.ab"], "types of execution.*")
        found = [entry.event_type for entry in ledger.read(event_type="execution.a.*")]
        expect_equal(found, ["execution.a.b"], "types of execution.a.*")


@check("reading")
def ids_of_any_writing_are_kept_apart(bench: Bench) -> None:
    ids = [
        "a", "A", "a ", "ä", "a%", "a_", "a'b", 'a"b', "a\\b", "a/b", "a.b", "☃", "-1", "1", "01",
        "x" * 256, "x" * 255 + "y", "null", "run.*", "𝄞",
    ]  # fmt: skip
    with bench.open() as ledger:
        for number, correlation in enumerate(ids):
            ledger.record(**event(number, correlation))
        ledger.record_many([event(number, correlation) for number, correlation in enumerate(ids)])
        for number, correlation in enumerate(ids):
            found = [(entry.payload["number"], entry.sequence) for entry in ledger.replay(correlation)]
            expect_equal(found, [(number, 1), (number, 2)], f"events of {correlation!r}")
            expect_equal(store_of(ledger).last_sequence(correlation), 2, f"last sequence of {correlation!r}")
        expect_equal(store_of(ledger).last_sequence("A "), 0, "last sequence of an unknown correlation")


@check("reading")
def child_runs_are_those_whose_first_event_was_caused_by_the_parent(bench: Bench) -> None:
    with bench.open() as ledger:
        parent = ledger.record(**event(0, "parent"))
        second = ledger.record(**event(1, "parent", causation_id=parent))
        one = ledger.record(**event(2, "child-1", causation_id=second))
        ledger.record(**event(3, "stranger"))
        ledger.record(**event(4, "stranger", causation_id=parent))
        ledger.record(**event(5, "child-2", causation_id=parent))
        ledger.record(**event(6, "grandchild", causation_id=one))
        ledger.record(**event(7, "parent"))
        expect_equal(store_of(ledger).children("parent"), ["child-1", "child-2"], "children of the parent")
        expect_equal(store_of(ledger).children("child-1"), ["grandchild"], "children of a child")
        expect_equal(store_of(ledger).children("nowhere"), [], "children of an unknown correlation")
        family = [entry.payload["number"] for entry in ledger.replay("parent", children=True)]
        expect_equal(family, [0, 1, 2, 5, 6, 7], "replay with children, by position")


@check("reading")
def a_run_whose_start_came_late_hangs_under_the_cause_of_its_start(bench: Bench) -> None:
    start, never = new_id(Random(1)), new_id(Random(2))
    late = {"event_type": "execution.run_started"}
    with bench.open() as ledger:
        parent = ledger.record(**event(0, "parent"))
        stranger = ledger.record(**event(1, "stranger"))
        # From the inside out: what happened in the run, its start, and another start.
        ledger.record(**event(2, "child", causation_id=start))
        ledger.record(**event(3, "child", causation_id=parent, event_id=start, **late))
        ledger.record(**event(4, "child", causation_id=stranger, **late))
        # What began without a cause, under another, or under what never came, does not move.
        ledger.record(**event(5, "orphan", causation_id=never))
        ledger.record(**event(6, "orphan", causation_id=parent))
        ledger.record(**event(7, "orphan", causation_id=parent, **late))
        ledger.record(**event(8, "root"))
        ledger.record(**event(9, "root", causation_id=parent, **late))
        ledger.record(**event(10, "settled", causation_id=stranger))
        ledger.record(**event(11, "settled", causation_id=parent, **late))
        ledger.record(**event(12, "parent", causation_id=parent, **late))
        expect_equal(store_of(ledger).children("parent"), ["child"], "children of the parent")
        expect_equal(store_of(ledger).children("stranger"), ["settled"], "children of the stranger")
        for alone in ("child", "orphan", "root", "settled"):
            expect_equal(store_of(ledger).children(alone), [], f"children of {alone}")
        family = [entry.payload["number"] for entry in ledger.replay("parent", children=True)]
        expect_equal(family, [0, 2, 3, 4, 12], "replay with children, by position")


@check("reading")
def many_readers_read_at_once_while_events_are_added(bench: Bench) -> None:
    over = threading.Event()
    with bench.open(limits=SMALL) as ledger:
        ledger.record_many(events(40))

        def read() -> int:
            times = 0
            while not over.is_set() or not times:
                expect_dense([entry.position for entry in ledger.read()], "positions")
                expect_dense([entry.sequence for entry in ledger.replay("run-1")], "sequences")
                times += 1
            return times

        def write() -> None:
            try:
                for number in range(bench.rounds(60)):
                    ledger.record(**event(number, "run-1"))
            finally:
                over.set()

        for found in in_threads([read, read, read, read, write]):
            if isinstance(found, Exception):
                raise found
