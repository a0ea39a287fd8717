"""Places of every kind of store to copy from and to, and a ledger in which everything is that a copy must carry."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.copying.places import Place
from chatsnapshot.ledger import Ledger
from chatsnapshot.policies import Opening
from chatsnapshot.stores.base import Row, Store
from chatsnapshot.stores.identity import copy_identity
from chatsnapshot.stores.memory import MemoryStore
from chatsnapshot.stores.open import locate
from chatsnapshot.testing.bench import store_of
from chatsnapshot.testing.samples import event, varied

SERVERS = ("postgresql", "mongodb", "nats")

NewPlace = Callable[[str], Place]

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Clients of NATS keep their index there, not in the folder of who runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def server_urls(servers: Callable[[str], Any]) -> Callable[[str], str]:
    """Gives the URL of a ledger that is not there yet on the server of a kind, or raises with what is missing."""

    def url(kind: str) -> str:
        server = servers(kind)
        if isinstance(server, Exception):
            raise server
        if not getattr(server, "running", False):
            server.start()  # a test elsewhere has left it killed
        found = server.database(f"copies{next(_numbers)}") if kind == "mongodb" else server.url
        return f"{found}{'&' if '?' in found else '?'}ledger=copy-{os.getpid()}-{next(_numbers)}"

    return url


@pytest.fixture
def new_place(
    tmp_path: Path, server_urls: Callable[[str], str], require: Callable[[object, str], None]
) -> Iterator[NewPlace]:
    """``new_place(kind)``: where no ledger is yet; of memory an open, empty ledger."""
    open_ledgers: list[Ledger] = []

    def new(kind: str) -> Place:
        if kind == "memory":
            open_ledgers.append(chatsnapshot.open("memory:"))
            return open_ledgers[-1]
        if kind in SERVERS:
            try:
                return server_urls(kind)
            except (ImportError, chatsnapshot.LedgerError) as error:
                require(False, f"a {kind} server ({error})")
        return str(tmp_path / f"place-{next(_numbers)}{'.jsonl' if kind == 'jsonl' else '.db'}")

    yield new
    for ledger in open_ledgers:
        ledger.close()


class Kit:
    """What the tests do with ledgers."""

    @staticmethod
    def opened(place: Place, **options: Any) -> Ledger:
        """The ledger of a place; one in memory as it is."""
        return place if isinstance(place, Ledger) else chatsnapshot.open(place, **options)

    @staticmethod
    def fill(ledger: Ledger, seed: int = 7, count: int = 150) -> None:
        """Events that differ in every column, blobs of several parts, a blob that events share, and erased payloads."""
        ledger.record_many(varied(random.Random(seed), count))
        shared = b"\x01" * 40_000
        for number in range(3):
            ledger.record(**event(number, "blobs", payload={"data": shared, "own": bytes([number]) * 50_000}))
        ledger.record(**event(3, "blobs", payload={"large": random.Random(seed).randbytes(1_200_000)}))
        ledger.erase([5, 17, count + 2], reason="asked to")
        ledger.record(**event(9, "after"))

    @staticmethod
    def rows(ledger: Ledger) -> list[Row]:
        """Every stored entry."""
        return [entry._identity() for entry in ledger.read()]

    @staticmethod
    def blobs(ledger: Ledger) -> dict[bytes, tuple[int, int, bytes]]:
        """Every blob: size, users, content."""
        store = store_of(ledger)
        return {
            digest: (size, users, b"".join(store.blob(digest) or ())) for digest, size, users in store.blobs()
        }

    @staticmethod
    def same(source: Place, target: Place) -> None:
        """Both hold the same entries, blobs, head and root, and the target is sound."""
        one, other = Kit.opened(source), Kit.opened(target)
        try:
            assert Kit.rows(other) == Kit.rows(one)
            assert Kit.blobs(other) == Kit.blobs(one)
            assert store_of(other).head() == store_of(one).head()
            report = other.verify()
            assert report.ok, report.problems
            assert report.root == one.verify().root
        finally:
            for place, ledger in ((source, one), (target, other)):
                if place is not ledger:
                    ledger.close()

    @staticmethod
    def memory_copy(of: Ledger) -> Ledger:
        """An empty copy in memory, as copying makes one elsewhere."""
        opening = Opening(location=locate("memory:"))
        store = MemoryStore(
            "memory:", clock=opening.clock, entropy=opening.entropy, limits=opening.limits,
            identity=copy_identity(of.ledger_id),
        )  # fmt: skip
        return Ledger(opening, store)

    @staticmethod
    def over(store: Store) -> Ledger:
        """A ledger over a store of one's own."""
        return Ledger(Opening(location=locate("memory:")), store)


@pytest.fixture
def kit() -> type[Kit]:
    """What the tests do with ledgers."""
    return Kit
