"""Duty: blobs are stored once, come back as they were, and go with the last entry that names them."""

from __future__ import annotations

import hashlib
from typing import Any

from chatsnapshot.errors import NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import Limits
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.samples import event, new_id
from chatsnapshot.testing.together import in_threads


def _data(number: int, size: int = 40_000) -> bytes:
    return bytes([number % 251]) * (size - 4) + number.to_bytes(4, "big")


def _known(ledger: Ledger) -> dict[bytes, tuple[int, int]]:
    """The blobs that are named: digest -> bytes, users. Orphans are harmless and not counted."""
    return {digest: (size, users) for digest, size, users in store_of(ledger).blobs() if users}


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@check("blobs")
def a_blob_comes_back_as_it_was(bench: Bench) -> None:
    with bench.open() as ledger:
        values: dict[str, Any] = {
            "bytes": _data(1),
            "two parts and a bit": _data(2, 2 * 512 * 1024 + 5),
            "exactly one part": _data(3, 512 * 1024),
            "text": "ä☃" * 100_000,
        }
        entry = ledger.record(**event(0, payload=values))
        expect(entry.payload_bytes < 2_000, f"the payload itself is small, not {entry.payload_bytes} bytes")
        expect_equal(entry.value(), values, "value of the recorded entry")
        expect_equal(ledger.get(entry.event_id).value(), values, "value read again")
        reference = entry.payload["bytes"]
        while "$blob" not in reference:
            reference = next(iter(value for value in reference.values() if isinstance(value, dict)))
        expect_equal(ledger.blob(reference), values["bytes"], "bytes by their reference")
        expect_equal(ledger.blob(reference["$blob"]), values["bytes"], "bytes by their name")
        expect_equal(len(_known(ledger)), 4, "blobs")
        expect_sound(ledger, 1)


@check("blobs")
def parts_of_any_size_make_the_same_blob(bench: Bench) -> None:
    with bench.open(limits=Limits(blob_part_bytes=1000)) as ledger:
        for size in (40_000, 40_001, 39_999):
            data = _data(size, size)
            entry = ledger.record(**event(size, payload={"data": data}))
            expect_equal(entry.value()["data"], data, f"a blob of {size} bytes in parts of 1000")
        expect_sound(ledger, 3)


@check("blobs")
def equal_blobs_are_stored_once_and_count_their_users(bench: Bench) -> None:
    with bench.open() as ledger:
        shared, own = _data(7), _data(8)
        for number in range(3):
            ledger.record(**event(number, payload={"data": shared}))
        ledger.record_many([event(3, payload={"a": shared, "b": shared}), event(4, payload={"data": own})])
        wanted = {_digest(shared): (len(shared), 4), _digest(own): (len(own), 1)}
        expect_equal(_known(ledger), wanted, "blobs with size and number of entries that name them")
        expect_sound(ledger, 5)


@check("blobs")
def a_repeated_event_does_not_count_its_blob_twice(bench: Bench) -> None:
    with bench.open() as ledger:
        given = event(1, payload={"data": _data(5)}, event_id=new_id(bench.chance("blob")))
        first = ledger.record(**given)
        expect_equal(ledger.record(**given), first, "entry of the repeated event")
        expect_equal(_known(ledger), {_digest(_data(5)): (40_000, 1)}, "blobs")


@check("blobs")
def an_unknown_blob_is_not_found(bench: Bench) -> None:
    with bench.open() as ledger:
        expect(store_of(ledger).blob(b"\x00" * 32) is None, "the store gives None for an unknown blob")
        with expecting(NotFound, "an unknown blob"):
            ledger.blob("sha256:" + "0" * 64)


@check("blobs")
def a_blob_goes_with_the_last_entry_that_names_it(bench: Bench) -> None:
    with bench.open() as ledger:
        shared, own = _data(1), _data(2)
        one = ledger.record(**event(1, payload={"data": shared, "own": own}))
        two = ledger.record(**event(2, payload={"data": shared}))
        ledger.erase(one.position, reason="asked to")
        expect_equal(_known(ledger), {_digest(shared): (len(shared), 1)}, "blobs after the first erasure")
        expect(store_of(ledger).blob(_digest(own)) is None, "the blob that only it named is gone")
        expect_equal(ledger.get(two.event_id).value()["data"], shared, "the shared blob")
        expect_sound(ledger)
        ledger.erase(two.position, reason="asked to")
        expect_equal(_known(ledger), {}, "blobs after the second erasure")
        expect(store_of(ledger).blob(_digest(shared)) is None, "the shared blob is gone")
        again = ledger.record(**event(3, payload={"data": shared}))
        expect_equal(again.value()["data"], shared, "the same bytes, recorded anew")
        expect_sound(ledger)


@check("blobs", "durable")
def blobs_are_there_after_opening_again(bench: Bench) -> None:
    place, data = bench.place(), _data(9, 1_200_000)
    with bench.open(place) as ledger:
        entry = ledger.record(**event(1, payload={"data": data}))
    with bench.open(place) as ledger:
        expect_equal(ledger.get(entry.event_id).value()["data"], data, "the blob after opening again")
        expect_equal(_known(ledger), {_digest(data): (len(data), 1)}, "blobs")
        expect_sound(ledger, 1)


@check("blobs")
def threads_that_record_the_same_blob_store_it_once(bench: Bench) -> None:
    with bench.open() as ledger:

        def write(writer: int) -> None:
            for number in range(bench.rounds(8)):
                entry = ledger.record(**event(writer, payload={"data": _data(number)}))
                expect_equal(entry.value()["data"], _data(number), "the blob")

        for found in in_threads([lambda writer=writer: write(writer) for writer in range(4)]):  # type: ignore[misc]
            if isinstance(found, Exception):
                raise found
        wanted = {_digest(_data(number)): (40_000, 4) for number in range(bench.rounds(8))}
        expect_equal(_known(ledger), wanted, "blobs")
        expect_sound(ledger)
