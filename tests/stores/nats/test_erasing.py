"""Erasing on NATS: no plaintext and no key is left anywhere, and what was begun is finished at the next open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.stores.nats.sealing import KEY_BYTES
from chatsnapshot.stores.nats.vault import Vault
from chatsnapshot.testing.servers.nats import NatsServer

SECRET = b"never-seen-again-b81c"


def _files(*folders: str | Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    found[path] = file.read()
    return found


def _places(data: bytes, server: NatsServer, cache: Path) -> list[str]:
    assert server.node is not None
    return [path for path, content in _files(server.node.store, cache).items() if data in content]


def _keys(ledger: Any, positions: list[int]) -> list[bytes]:
    """The keys of entries, out of memory."""
    engine = ledger._store._core.engine
    found = []
    with engine.index.reading() as db:
        for position in positions:
            packed = db.execute("SELECT salt FROM entry WHERE position = ?", (position,)).get
            slot = int.from_bytes(packed[12:], "big") * KEY_BYTES
            found.append(engine.vault._pages[packed[:12]][slot : slot + KEY_BYTES])
    return found


def test_an_erased_payload_leaves_no_plaintext_and_no_key_on_any_disk(
    server: NatsServer, place: str, cache: Path
) -> None:
    with chatsnapshot.open(place) as ledger:
        for number in range(5):
            ledger.record("demo.step", {"text": f"{SECRET.decode()} {number}"}, correlation_id="run")
        keys = _keys(ledger, [1, 2, 3, 4, 5])
        assert all(_places(key, server, cache) for key in keys)
        ledger.erase([2, 4], reason="asked to")
        assert [entry.erased for entry in ledger.read(until=5)] == [False, True, False, True, False]
        assert _places(SECRET, server, cache) == []
        assert [bool(_places(key, server, cache)) for key in keys] == [True, False, True, False, True]
        assert ledger.verify().ok


def test_large_payloads_and_blobs_go_with_their_keys(server: NatsServer, place: str, cache: Path) -> None:
    text = [SECRET.decode() + "x" * 1000] * 3_000
    with chatsnapshot.open(place) as ledger:
        large = ledger.record("demo.step", {"lines": text}, correlation_id="run")
        blob = ledger.record("demo.step", {"data": SECRET * 20_000}, correlation_id="run")
        assert ledger.get(large.event_id).payload == {"lines": text}
        assert ledger.get(blob.event_id).value() == {"data": SECRET * 20_000}
        (digest,) = [digest for digest, _, users in ledger._store.blobs() if users]
        ledger.erase([1, 2], reason="asked to")
        assert list(ledger._store.blobs()) == []
        assert ledger._store.blob(digest) is None
        assert _places(SECRET, server, cache) == []
        assert ledger.verify().ok


def test_an_erasure_that_broke_off_after_its_record_is_finished_at_the_next_open(
    server: NatsServer, place: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise StoreUnavailable("the server went away in this moment")

    with chatsnapshot.open(place) as ledger:
        ledger.record("demo.step", {"text": "a"}, correlation_id="run")
        (key,) = _keys(ledger, [1])
        with monkeypatch.context() as patch:
            patch.setattr(Vault, "erase_keys", broken)
            with pytest.raises(StoreUnavailable):
                ledger.erase(1, reason="asked to")
        assert next(iter(ledger.read())).erased
        assert _places(key, server, cache)
    for file in cache.iterdir():  # whoever opens it next may know nothing of it
        file.unlink()
    with chatsnapshot.open(place, read_only=True) as ledger:
        assert next(iter(ledger.read())).erased
        assert _places(key, server, cache)
    with chatsnapshot.open(place) as ledger:
        assert _places(key, server, cache) == []
        assert ledger.verify().ok


def test_another_handle_sees_an_erasure_at_once_and_needs_no_key_for_the_rest(place: str) -> None:
    with chatsnapshot.open(place) as ledger, chatsnapshot.open(f"{place}&index=memory") as other:
        entries = [ledger.record("demo.step", {"n": n}, correlation_id="run") for n in range(4)]
        assert [other.get(entry.event_id).payload["n"] for entry in entries] == [0, 1, 2, 3]
        ledger.erase(2, reason="asked to")
        assert [other.get(entry.event_id).erased for entry in entries] == [False, True, False, False]
        assert other.get(entries[3].event_id).payload == {"n": 3}
