"""Erasing removes payloads for good, is itself on record, and leaves order and proofs as they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent, Ledger, NotFound


def test_an_erased_entry_keeps_its_place_and_its_proof(ledger: Ledger) -> None:
    ledger.record("a.b", {"secret": 1}, correlation_id="c", attributes={"actor": "ada"})
    kept = ledger.record("a.b", {"n": 2}, correlation_id="c")
    root = ledger.verify().root
    record = ledger.erase(1, reason="asked by the customer", basis="art. 17")
    first = next(ledger.read())
    assert first.erased
    assert first.payload == {"$erased": True}
    assert b'"payload":{"$erased":true}' in first.event.to_json()
    assert (first.salt, first.payload_bytes, first.attributes) == (
        None,
        len(b'{"secret":1}'),
        {"actor": "ada"},
    )
    with pytest.raises(NotFound, match="was erased"):
        first.value()
    assert (record.event_type, record.correlation_id, record.position) == (
        "ledger.payload_erased",
        "ledger",
        3,
    )
    assert record.payload == {"positions": [1], "reason": "asked by the customer", "basis": "art. 17"}
    report = ledger.verify()
    assert (report.ok, report.erased) == (True, 1)
    assert report.root != root
    assert ledger.get(kept) == kept


def test_an_erased_event_stays_known(ledger: Ledger) -> None:
    ledger.record("a.b", {"secret": 1}, correlation_id="c", idempotency_key="k")
    ledger.erase([1], reason="x")
    for payload in ({"secret": 1}, {"other": 2}):
        entry = ledger.record("a.b", payload, correlation_id="c", idempotency_key="k")
        assert (entry.position, entry.erased) == (1, True)
    assert ledger.head == 2


def test_the_ledgers_own_records_and_unknown_positions_are_refused(ledger: Ledger) -> None:
    ledger.record("a.b", {"secret": 1}, correlation_id="c")
    record = ledger.erase(1, reason="x")
    with pytest.raises(InvalidEvent, match="record of the ledger itself"):
        ledger.erase(record.position, reason="x")
    for wrong in (0, -1, 3, True):
        with pytest.raises(NotFound, match="no position"):
            ledger.erase(wrong, reason="x")
    with pytest.raises(InvalidEvent, match="give the positions"):
        ledger.erase([], reason="x")
    assert ledger.head == 2


def test_erasing_twice_changes_nothing_more(ledger: Ledger) -> None:
    ledger.record("a.b", {"secret": 1}, correlation_id="c")
    ledger.erase(1, reason="x")
    ledger.erase([1, 1], reason="again")
    assert ledger.verify().ok
    assert ledger.head == 3


def test_nobody_else_can_state_an_erasure(ledger: Ledger) -> None:
    ledger.record("a.b", {"n": 1}, correlation_id="c")
    for wrong in (
        "ledger.payload_erased", "ledger.clock_behind", "ledger.promoted",
        "ledger.key_created", "ledger.key_revoked", "ledger.access_refused", "ledger.entries_read",
    ):  # fmt: skip
        with pytest.raises(InvalidEvent, match="by the ledger itself"):
            ledger.record(wrong, {"positions": [1]}, correlation_id="ledger")


def test_the_bytes_are_gone_from_every_file(path: str, opened: Callable[..., Ledger]) -> None:
    secrets = [f"secret-{number}-{'x' * size}" for number, size in enumerate((10, 3_000, 100_000))]
    ledger = opened(path)
    for secret in secrets:
        ledger.record("a.b", {"text": secret, "data": secret.encode() * 3}, correlation_id="c")
        ledger.record("a.b", {"text": "kept"}, correlation_id="c")

    def on_disk() -> bytes:
        """Every file of the folder, read by another process: to close a file here would drop SQLite's locks on it."""
        program = (
            "import pathlib, sys\n"
            "for file in pathlib.Path(sys.argv[1]).parent.iterdir(): sys.stdout.buffer.write(file.read_bytes())"
        )
        return subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True).stdout

    assert b"secret-0" in on_disk()
    ledger.erase([1, 3, 5], reason="x")
    assert [word for word in (b"secret-0", b"secret-1", b"secret-2") if word in on_disk()] == []
    assert on_disk().count(b'"kept"') >= 3
    assert ledger.verify().ok


def test_a_blob_goes_with_its_last_user(ledger: Ledger) -> None:
    data = b"x" * 50_000
    first, second = (ledger.record("a.b", {"d": data}, correlation_id="c") for _ in range(2))
    reference = first.payload["d"]
    ledger.erase(first.position, reason="x")
    assert ledger.blob(reference) == data
    assert ledger.get(second).value() == {"d": data}
    ledger.erase(second.position, reason="x")
    with pytest.raises(NotFound, match="erased"):
        ledger.blob(reference)
    assert ledger.verify().ok


def test_a_clock_that_goes_back_repeats_the_last_time_and_says_so_once(
    url: str, hands: Any, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(url, clock=hands.clock)
    first = ledger.record("a.b", correlation_id="c")
    hands.move(-3)
    assert ledger.record("a.b", correlation_id="c").recorded_at == first.recorded_at
    assert ledger.head == 2
    hands.move(-7)
    for _ in range(3):
        assert ledger.record("a.b", correlation_id="c").recorded_at == first.recorded_at
    (fact,) = ledger.read(event_type="ledger.clock_behind")
    assert (fact.correlation_id, fact.payload["behind_ns"]) == ("ledger", 10_000_000_000)
    hands.move(60)
    assert ledger.record("a.b", correlation_id="c").recorded_at > first.recorded_at
    hands.move(-60)
    ledger.record("a.b", correlation_id="c")
    assert len(list(ledger.read(event_type="ledger.clock_behind"))) == 2
    assert ledger.verify().ok


def test_blobs_are_stored_once_in_parts_and_read_back(opened: Callable[..., Ledger], url: str) -> None:
    ledger = opened(url, limits=chatsnapshot.Limits(blob_part_bytes=10_000))
    value = {
        "image": b"\x89PNG" * 20_000,
        "again": b"\x89PNG" * 20_000,
        "text": "ä" * 200_000,
        "uri": "data:image/png;base64," + "QUJD" * 20_000,
    }
    entry = ledger.record("a.b", value, correlation_id="c")
    assert entry.value() == value
    assert ledger.get(entry).value() == value
    assert len(entry.payload_json or b"") < 1_000
    assert ledger.blob(entry.payload["image"]) == value["image"]
    assert ledger.blob(entry.payload["image"]["$blob"]) == value["image"]
    assert ledger.verify().blobs == 3
    for wrong in ("sha256:00", "x", {"$blob": "sha256:" + "g" * 64}, 3):
        with pytest.raises(InvalidEvent):
            ledger.blob(wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        ledger.blob("sha256:" + "0" * 64)


def test_a_payload_above_the_limit_reads_back_as_itself(opened: Callable[..., Ledger], url: str) -> None:
    ledger = opened(url, limits=chatsnapshot.Limits(payload_bytes_max=1_000))
    value = {"items": list(range(2_000)), "$odd": [1.5, None]}
    entry = ledger.record("a.b", value, correlation_id="c")
    assert entry.payload["media_type"] == "application/json"
    assert entry.value() == value
    assert ledger.verify().ok


def test_an_envelope_brings_its_blobs_or_is_refused(ledger: Ledger) -> None:
    entry = ledger.record("a.b", {"d": b"x" * 50_000}, correlation_id="c")
    assert ledger.record(entry.event) == entry
    with chatsnapshot.open("memory:") as other:
        with pytest.raises(InvalidEvent, match="neither with it nor in this ledger"):
            other.record(entry.event)
        assert other.record("a.b", entry.value(), correlation_id="c").value() == entry.value()
