"""Blobs that are too large for one request go in parts: recorded, copied, and sent on by a spool, over breaks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.copying import copy
from chatsnapshot.errors import InvalidEvent, LimitExceeded, StoreUnavailable
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.staging import Staging
from chatsnapshot.stores.http import parts, store, wire
from chatsnapshot.testing.faults.addresses import address_of, through
from chatsnapshot.testing.faults.proxy import Proxy

LARGE = os.urandom(300_000)
OTHER = os.urandom(200_000)
OWNER = ("main", "key")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts as large is small."""
    monkeypatch.setattr(parts, "PART_BYTES", 70_000)
    monkeypatch.setattr(store, "_ROOM_BYTES", 10_000)
    opened = store.HttpStore._open

    def limited(self: Any, *arguments: Any) -> wire.Opened:
        found = opened(self, *arguments)
        found.store_bytes_max = 150_000
        return found

    monkeypatch.setattr(store.HttpStore, "_open", limited)


def event(*values: bytes, number: int = 1) -> dict[str, Any]:
    return {
        "event_type": "a.file",
        "payload": {"number": number, "data": list(values)},
        "correlation_id": "run-1",
    }


def test_an_event_with_blobs_beyond_the_size_of_a_request_is_recorded_and_read_back(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        first = ledger.record(**event(LARGE, OTHER, b"small"))
        again = ledger.record(**event(LARGE, OTHER, b"small"), event_id=first.event_id)
        assert again == first
        ledger.record_many([event(OTHER, number=2), event(b"nothing large", number=3)])
        values = [entry.value()["data"] for entry in ledger.read()]
        assert values == [[LARGE, OTHER, b"small"], [OTHER], [b"nothing large"]]
        assert ledger.verify().ok
        with pytest.raises(LimitExceeded, match="store_bytes_max"):
            ledger.record_many([event(b"x" * 30_000, number=number) for number in range(6)])


def test_parts_go_on_where_a_connection_broke(place: str) -> None:
    with Proxy(address_of(place)) as proxy, chatsnapshot.open(through(place, proxy.address)) as ledger:
        proxy.lose_request(after=2)
        entry = ledger.record(**event(LARGE))
        assert entry.value()["data"] == [LARGE]


def test_parts_that_the_service_has_lost_are_sent_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sends: list[bytes] = []
    send = parts._send

    def forgetful(asking: Any, digest: bytes, data: bytes) -> None:
        sends.append(digest)
        if len(sends) > 1:
            send(asking, digest, data)

    monkeypatch.setattr(parts, "_send", forgetful)
    with chatsnapshot.open(place) as ledger:
        entry = ledger.record(**event(LARGE))
        assert entry.value()["data"] == [LARGE]
        assert len(sends) == 2
        monkeypatch.setattr(parts, "_send", lambda *_: None)
        with pytest.raises(StoreUnavailable, match="send them first; nothing was stored"):
            ledger.record(**event(OTHER))
        assert ledger.head == 1


def test_a_copy_takes_large_blobs_along(place: str, tmp_path: Path) -> None:
    source = tmp_path / "source.db"
    with chatsnapshot.open(source) as ledger:
        ledger.record(**event(LARGE, OTHER))
        ledger.record(**event(OTHER, number=2))
    copy(source, place)
    with chatsnapshot.open(place, read_only=True) as copied:
        assert [entry.value()["data"] for entry in copied.read()] == [[LARGE, OTHER], [OTHER]]
        assert copied.verify().ok


def test_a_spool_sends_large_blobs_in_parts(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with chatsnapshot.open(place.replace("mode=direct&", "")) as ledger:
        ledger.record(**event(LARGE, OTHER))
        assert ledger.flush().ok
    with chatsnapshot.open(place, read_only=True) as found:
        assert [entry.value()["data"] for entry in found.read()] == [[LARGE, OTHER]]


# --- what the service keeps of parts ---


@pytest.fixture
def staging() -> Iterator[Staging]:
    kept = Staging(bytes_max=1_000_000)
    yield kept
    kept.end()


def part(data: bytes, offset: int, end: int, digest: bytes = b"") -> wire.Part:
    return wire.Part(digest or sha256(data).digest(), len(data), offset, data[offset:end])


def test_parts_are_taken_in_their_order_and_each_once(staging: Staging) -> None:
    sizes = [
        staging.put(OWNER, part(LARGE, offset, offset + 100_000), 10**9)
        for offset in (0, 0, 200_000, 100_000, 100_000, 200_000, 0)
    ]
    assert sizes == [100_000, 100_000, 100_000, 200_000, 200_000, 300_000, 300_000]
    assert staging._read(OWNER, sha256(LARGE).digest()) == LARGE
    assert staging._read(("main", "another key"), sha256(LARGE).digest()) is None


def test_a_blob_that_does_not_hash_to_its_name_is_dropped_and_can_be_sent_anew(staging: Staging) -> None:
    digest = sha256(LARGE).digest()
    wrong = bytes(len(LARGE))
    assert staging.put(OWNER, part(wrong, 0, 300_000, digest), 10**9) == 0
    assert staging._read(OWNER, digest) is None
    assert staging.put(OWNER, part(LARGE, 0, 300_000), 10**9) == 300_000
    assert staging._read(OWNER, digest) == LARGE


def test_what_waits_is_bounded_and_parts_that_make_no_sense_are_refused(staging: Staging) -> None:
    with pytest.raises(LimitExceeded, match="blob_bytes_max"):
        staging.put(OWNER, part(LARGE, 0, 10), 200_000)
    for wrong in (
        wire.Part(b"short", 10, 0, b"x"), wire.Part(bytes(32), 10, -1, b"x"), wire.Part(bytes(32), 10, 8, b"xyz")
    ):  # fmt: skip
        with pytest.raises(InvalidEvent):
            staging.put(OWNER, wrong, 10**9)
    big = bytes(900_000)
    assert staging.put(OWNER, part(big, 0, 900_000), 10**9) == 900_000
    with pytest.raises(Problem, match="on their way"):
        staging.put(OWNER, part(LARGE, 0, 200_000), 10**9)


def test_what_nobody_asks_for_is_removed(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    staging.put(OWNER, part(LARGE, 0, 300_000), 10**9)
    monkeypatch.setattr("chatsnapshot.server.staging._IDLE_SECONDS", -1.0)
    staging.put(OWNER, part(OTHER, 0, 10), 10**9)
    assert staging._read(OWNER, sha256(LARGE).digest()) is None
