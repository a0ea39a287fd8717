"""Duty: whole entries of another ledger are taken as they are, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatsnapshot.errors import Corrupt, ReadOnly, StoreUnavailable
from chatsnapshot.ledger import Ledger
from chatsnapshot.standby import promote_store
from chatsnapshot.stores.base import LEAF, PAYLOAD, POSITION, RECORDED_AT, SEQUENCE, Row
from chatsnapshot.stores.identity import copy_identity, read_identity
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.checks.replay import record_varied
from chatsnapshot.testing.expecting import expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.samples import Ticking, event


def _original(bench: Bench) -> Ledger:
    """A memory ledger with varied events, blobs, a blob that two events share, and erased payloads."""
    ledger = bench.reference(clock=Ticking())
    record_varied(ledger, bench, 300)
    shared = b"\x01" * 40_000
    for number in range(3):
        ledger.record(**event(number, "blobs", payload={"data": shared, "own": bytes([number]) * 50_000}))
    ledger.erase([5, 17, 302], reason="asked to")
    ledger.record(**event(9, "after"))
    return ledger


def _rows(ledger: Ledger) -> list[Row]:
    return [entry._identity() for entry in ledger.read()]


def _blobs(ledger: Ledger) -> dict[bytes, bytes]:
    store = store_of(ledger)
    return {digest: b"".join(store.blob(digest) or ()) for digest, _, _ in store.blobs()}


@check("copying")
def a_copy_has_the_same_entries_blobs_and_root_also_of_what_was_erased(bench: Bench) -> None:
    with _original(bench) as source:
        rows, blobs = _rows(source), _blobs(source)
        for step in (len(rows), 7):
            with bench.open() as copy:
                expect(copy.ledger_id != source.ledger_id, "a copy is a history of its own")
                for first in range(0, len(rows), step):
                    part = rows[first : first + step]
                    store_of(copy).import_rows(part, blobs)
                expect_equal(_rows(copy), rows, "rows of the copy")
                expect_equal(store_of(copy).head(), store_of(source).head(), "head, frontier and recorded_at")
                expect_equal(copy.verify().root, source.verify().root, "root")
                expect_equal(copy.verify().erased, 3, "erased payloads")
                for digest, size, users in store_of(source).blobs():
                    found = {one[0]: one for one in store_of(copy).blobs()}
                    expect_equal(found.get(digest), (digest, size, users), "a blob with its size and users")
                    expect_equal(
                        b"".join(store_of(copy).blob(digest) or ()), blobs[digest], "bytes of a blob"
                    )
                expect_sound(copy, len(rows))


@check("copying")
def recording_goes_on_after_an_import(bench: Bench) -> None:
    with _original(bench) as source, bench.open() as copy:
        rows = _rows(source)
        store_of(copy).import_rows(rows, _blobs(source))
        last = source.get(source.record(**event(1)).event_id)
        entry = copy.record(**event(1, "after"))
        expect_equal((entry.position, entry.sequence), (len(rows) + 1, 2), "place of the next event")
        known = next(iter(copy.read(until=1)))
        expect_equal(copy.record(known.event), known, "an imported event is known")
        expect(entry.recorded_at >= rows[-1][RECORDED_AT], "recorded_at does not go back")
        expect(last.position == entry.position, "both went on from the same head")
        expect_sound(copy, len(rows) + 1)


@check("copying", "durable")
def an_import_survives_opening_again(bench: Bench) -> None:
    place = bench.place()
    with _original(bench) as source:
        rows, blobs = _rows(source), _blobs(source)
    with bench.open(place) as copy:
        store_of(copy).import_rows(rows, blobs)
    with bench.open(place) as copy:
        expect_equal(_rows(copy), rows, "rows after opening again")
        expect_sound(copy, len(rows))


def _with(column: int, value: object) -> Callable[[list[Any]], None]:
    def change(row: list[Any]) -> None:
        row[column] = value

    return change


@check("copying")
def entries_that_do_not_follow_are_refused_and_nothing_is_stored(bench: Bench) -> None:
    changes: dict[str, Callable[[list[Any]], None]] = {
        "another type": _with(4, "execution.forged"),
        "another correlation": _with(7, "forged"),
        "another payload": _with(PAYLOAD, b'{"forged":1}'),
        "another leaf": _with(LEAF, b"\x00" * 32),
        "another sequence": _with(SEQUENCE, 99),
        "another recorded_at": _with(RECORDED_AT, "2001-01-01T00:00:00.000000Z"),
        "a gap in the positions": _with(POSITION, 99),
    }
    with bench.reference(clock=Ticking()) as source, bench.open() as copy:
        record_varied(source, bench, 40)
        rows = _rows(source)
        store_of(copy).import_rows(rows[:10], {})
        before = store_of(copy).head()
        for name, change in changes.items():
            row: list[Any] = list(rows[20])
            change(row)
            with expecting(Corrupt, name):
                store_of(copy).import_rows([*rows[10:20], tuple(row), *rows[21:]], {})
            expect_equal(store_of(copy).head(), before, f"head after {name} was refused")
        for name, place in (("an id that is known", 10), ("the id of the entry in front of it", 20)):
            twice: list[Any] = list(rows[place - 1])
            twice[POSITION] += 1
            twice[SEQUENCE] += 1
            with expecting(Corrupt, name):
                store_of(copy).import_rows([*rows[10:place], tuple(twice)], {})
            expect_equal(store_of(copy).head(), before, f"head after {name} was refused")
        for part in (rows[11:], rows[9:], rows):
            with expecting(
                StoreUnavailable, f"an import that begins at {part[0][POSITION]} after position 10"
            ):
                store_of(copy).import_rows(part, {})
        store_of(copy).import_rows([], {})
        expect_equal(store_of(copy).head(), before, "head")
        store_of(copy).import_rows(rows[10:], {})
        expect_equal(copy.verify().root, source.verify().root, "root of the copy in the end")
        expect_sound(copy, 40)


@check("copying")
def the_record_of_an_erasure_removes_what_was_taken_before_it(bench: Bench) -> None:
    with bench.reference(clock=Ticking()) as source, bench.open() as copy:
        record_varied(source, bench, 20)
        own, shared = b"\x02" * 50_000, b"\x03" * 50_000
        alone = source.record(**event(1, "blobs", payload={"own": own, "shared": shared}))
        source.record(**event(2, "blobs", payload={"shared": shared}))
        rows, blobs = _rows(source), _blobs(source)
        store_of(copy).import_rows(rows, blobs)
        source.erase([3, alone.position], reason="asked to")
        source.record(**event(3, "after"))
        late = _rows(source)
        store_of(copy).import_rows(late[len(rows) :], {})
        expect_equal(_rows(copy), late, "rows of the copy")
        kept = sorted(digest for digest, _, _ in store_of(source).blobs())
        expect_equal(sorted(digest for digest, _, _ in store_of(copy).blobs()), kept, "blobs that are left")
        expect_equal(copy.verify().erased, 2, "erased payloads")
        expect_sound(copy, len(late))
    with bench.open() as copy:
        # Everything in one go: the payloads come with the record that says that they are gone.
        store_of(copy).import_rows([*rows, *late[len(rows) :]], blobs)
        expect_equal(_rows(copy), late, "rows of a copy that takes payloads and record together")
        expect_sound(copy, len(late))


@check("copying")
def a_copy_keeps_what_it_was_made_with_and_takes_no_events_until_it_is_promoted(bench: Bench) -> None:
    place = bench.place()
    with bench.reference() as source:
        source.record_many([event(number) for number in range(3)])
        identity = copy_identity(source.ledger_id)
        copy = bench.open(place, identity=identity)
        store_of(copy).import_rows(_rows(source), {})
        for again in range(2):
            expect_equal(store_of(copy).ledger_id, identity, "what the copy was made with")
            expect_equal(copy.ledger_id, source.ledger_id, "id of a copy: that of the history")
            with expecting(ReadOnly, "an event for a copy that was not promoted"):
                copy.record(**event(4))
            if not again and bench.traits.durable:
                copy.close()
                copy = bench.open(place)
        entry = promote_store(store_of(copy), reason="a check")
        expect_equal((entry.position, promote_store(store_of(copy))), (4, entry), "one promotion")
        expect_equal(
            copy.record(**event(4)).position, 5, "position of the first event of the promoted ledger"
        )
        if bench.traits.durable:
            copy.close()
            copy = bench.open(place)
        expect_equal(copy.ledger_id, read_identity(identity).copy, "id of a promoted ledger: its own")
        expect_equal(copy.record(**event(5)).position, 6, "position of the next event")
        expect_sound(copy, 6)
        copy.close()
