"""The HTTP store remembers how far a ledger was: one that was rolled back, forked or replaced is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import Corrupt
from chatsnapshot.stores.http import anchor
from chatsnapshot.testing.servers.http import HttpServer


@pytest.fixture
def own(require: Callable[[object, str], None]) -> Iterator[HttpServer]:
    """A service whose files a test may change behind its back."""
    require(not HttpServer.missing(), HttpServer.missing())
    with HttpServer() as server:
        yield server


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every growth is proven."""
    monkeypatch.setattr(anchor, "_PROVE_SECONDS", 0.0)


def events(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"event_type": "a.b", "payload": {"number": number}, "correlation_id": "run-1"}
        for number in range(first, first + count)
    ]


def put_back(server: HttpServer, copy: str) -> None:
    """Put an older copy of the file in the place of the ledger, as a careless restore does."""
    server.stop()
    for ending in ("-wal", "-shm"):
        if os.path.exists(path(server) + ending):
            os.unlink(path(server) + ending)
    shutil.copyfile(copy, path(server))
    server.start()


def path(server: HttpServer) -> str:
    return os.path.join(server.folder, "main.db")


def copied(server: HttpServer) -> str:
    server.stop()
    copy = os.path.join(server.folder, "copy")
    shutil.copyfile(path(server), copy)
    server.start()
    return copy


def test_a_ledger_that_grows_is_proven_to_begin_with_what_was_seen(own: HttpServer, at_once: None) -> None:
    with chatsnapshot.open(own.url) as ledger:
        sizes = []
        for count in (1, 2, 300, 1, 700):
            ledger.record_many(events(0, count))
            sizes.append(ledger.head)
    assert sizes == [1, 3, 303, 304, 1004]


def test_a_head_that_went_back_is_refused_until_it_is_opened_again(own: HttpServer) -> None:
    with chatsnapshot.open(own.url) as ledger:
        ledger.record_many(events(0, 5))
        copy = copied(own)
        ledger.record_many(events(5, 5))
        assert ledger.head == 10
        put_back(own, copy)
        for _ in range(2):
            with pytest.raises(Corrupt, match=r"rolled back or replaced: it had 10 entries .* it has 5 now"):
                ledger.head  # noqa: B018
    with chatsnapshot.open(own.url) as ledger:
        assert ledger.head == 5


def test_a_ledger_that_went_another_way_is_refused_at_the_same_size_and_beyond(
    own: HttpServer, at_once: None
) -> None:
    with chatsnapshot.open(own.url) as ledger:
        ledger.record_many(events(0, 5))
        copy = copied(own)
        ledger.record_many(events(5, 5))
        assert ledger.head == 10
        put_back(own, copy)
        with chatsnapshot.open(own.url) as other:
            other.record_many(events(50, 5))
            with pytest.raises(Corrupt, match="these are others now"):
                ledger.head  # noqa: B018
            other.record_many(events(55, 3))
        with pytest.raises(Corrupt, match="the 13 that it has now do not begin with them"):
            ledger.head  # noqa: B018


def test_heads_between_two_proofs_are_proven_with_the_next_one(
    own: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchor, "_PROVE_SECONDS", 3_600.0)
    with chatsnapshot.open(own.url) as ledger:
        ledger.record_many(events(0, 5))
        assert ledger.head == 5
        copy = copied(own)
        ledger.record_many(events(5, 1))
        assert ledger.head == 6  # seen, not proven yet
        put_back(own, copy)
        with chatsnapshot.open(own.url) as other:
            other.record_many(events(50, 4))
        monkeypatch.setattr(anchor, "_PROVE_SECONDS", 0.0)
        with pytest.raises(Corrupt, match="it had 6 entries"):
            ledger.head  # noqa: B018
