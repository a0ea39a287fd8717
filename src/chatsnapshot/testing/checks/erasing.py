"""Duty: a payload is erased for good, with a record of it, and every proof stays."""

from __future__ import annotations

import threading
from typing import Any

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Skipped, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.samples import event, events
from chatsnapshot.testing.together import in_threads

SECRET = "never-seen-again-4f9c2b"


@check("erasing")
def payload_and_salt_go_and_everything_else_stays(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record_many(events(5))
        before = [entry._identity() for entry in ledger.read()]
        record = ledger.erase([2, 4], reason="asked to", asked_by="ann")
        expect_equal(
            (record.event_type, record.correlation_id), ("ledger.payload_erased", "ledger"), "record"
        )
        expect_equal(record.payload["positions"], [2, 4], "positions that the record names")
        expect_equal(record.payload["reason"], "asked to", "reason in the record")
        for old, entry in zip(before, ledger.read(), strict=False):
            gone = entry.position in (2, 4)
            expect_equal(entry.erased, gone, f"position {entry.position} is erased")
            wanted: list[Any] = list(old)
            if gone:
                wanted[9] = wanted[13] = None
                with expecting(NotFound, "value of an erased payload"):
                    entry.value()
            expect_equal(entry._identity(), tuple(wanted), f"entry at position {entry.position}")
        expect_equal(ledger.verify().erased, 2, "erased payloads that verify counts")
        expect_sound(ledger, 6)


@check("erasing")
def erasing_again_changes_nothing_but_adds_its_record(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record_many(events(3))
        ledger.erase(2, reason="first")
        ledger.erase([2, 3], reason="again")
        expect_equal([entry.erased for entry in ledger.read(until=3)], [False, True, True], "what is erased")
        expect_sound(ledger, 5)


@check("erasing")
def what_is_not_there_and_the_records_of_the_ledger_cannot_be_erased(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record_many(events(3))
        record = ledger.erase(1, reason="asked to")
        for wrong in (0, -1, 99, [1, 99]):
            with expecting(NotFound, f"erase({wrong})"):
                ledger.erase(wrong, reason="no")
        with expecting(InvalidEvent, "the record of an erasure"):
            ledger.erase(record.position, reason="no")
        with expecting(InvalidEvent, "no positions"):
            ledger.erase([], reason="no")
        expect_equal(ledger.head, 4, "head")
        expect_sound(ledger, 4)


@check("erasing", "durable")
def an_erased_payload_is_in_no_file_of_the_store(bench: Bench) -> None:
    place = bench.place()
    if not bench.path(place):
        raise Skipped("the store keeps no files that can be looked into")
    with bench.open(place) as ledger:
        for number in range(20):
            text = f"{SECRET} {number}" * (1 if number % 2 else 30)
            ledger.record(**event(number, payload={"text": text}))
        ledger.record(**event(20, payload={"data": SECRET.encode() * 3000}))
        ledger.erase(range(1, 22), reason="asked to")
        _expect_gone(bench, place, "while the ledger is open")
        ledger.record(**event(21))
        expect_sound(ledger, 23)
    _expect_gone(bench, place, "after it was closed")
    with bench.open(place) as ledger:
        expect_sound(ledger, 23)


def _expect_gone(bench: Bench, place: str, when: str) -> None:
    for name in bench.files(place):
        with open(name, "rb") as file:
            expect(SECRET.encode() not in file.read(), f"an erased payload is still in {name} {when}")


@check("erasing", "durable")
def an_erasure_is_seen_by_other_handles_and_after_opening_again(bench: Bench) -> None:
    place = bench.place()
    with bench.open(place) as ledger:
        entries = ledger.record_many(events(3))
        with bench.open(place) as other:
            expect(not other.get(entries[1].event_id).erased, "not erased yet")
            ledger.erase(2, reason="asked to")
            expect(other.get(entries[1].event_id).erased, "erased, seen by another handle")
            other.record(**event(9))
    with bench.open(place) as ledger:
        expect_equal([entry.erased for entry in ledger.read(until=3)], [False, True, False], "what is erased")
        expect_sound(ledger, 5)


@check("erasing")
def readers_and_writers_go_on_while_payloads_are_erased(bench: Bench) -> None:
    count = bench.rounds(30)
    over = threading.Event()
    with bench.open() as ledger:
        ledger.record_many(events(count))

        def erase() -> None:
            try:
                for position in range(1, count, 2):
                    ledger.erase(position, reason="asked to")
            finally:
                over.set()

        def read() -> None:
            gone = 0
            while True:
                last = over.is_set()
                found = [entry for entry in ledger.read() if entry.erased]
                expect(len(found) >= gone, "an erased payload came back")
                gone = len(found)
                for entry in found:
                    expect(entry.salt is None, "payload and salt go together")
                if last:
                    return

        def write() -> None:
            for number in range(count):
                ledger.record(**event(number, "run-2"))

        for outcome in in_threads([erase, read, read, write]):
            if isinstance(outcome, Exception):
                raise outcome
        expect_equal(ledger.verify().erased, len(range(1, count, 2)), "erased payloads")
        expect_sound(ledger)


@check("erasing")
def views_of_an_erased_run_can_still_be_computed(bench: Bench) -> None:
    with bench.open() as ledger:
        ledger.record_many(events(4))
        ledger.erase([1, 3], reason="asked to")
        for name in ("timeline", "transcript"):
            text = repr(ledger.view(name, "run-1"))
            expect("number 0" not in text, f"view {name} shows what was erased")
            expect("number 1" in text or name == "timeline", f"view {name} shows what was not erased")
        expect_equal(store_of(ledger).last_sequence("run-1"), 4, "last sequence")
