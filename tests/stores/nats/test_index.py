"""The local index: deleted, damaged, behind or in nobody's way, it follows from the stream."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import chatsnapshot
from chatsnapshot.errors import Corrupt, LedgerError
from chatsnapshot.testing.servers.nats import NatsServer


def _record(ledger: Any, count: int, correlation: str = "run") -> list[Any]:
    return ledger.record_many(
        [
            {"event_type": "demo.step", "correlation_id": correlation, "payload": {"n": n, "x": "y" * n}}
            for n in range(count)
        ]
    )


def _index(cache: Path) -> Path:
    (found,) = cache.glob("*.db")
    return found


def test_a_deleted_index_is_made_again_from_the_stream(place: str, cache: Path) -> None:
    with chatsnapshot.open(place) as ledger:
        _record(ledger, 300)
        _record(ledger, 40, "other")
        ledger.record("demo.blob", {"data": b"\x01" * 100_000}, correlation_id="run")
        ledger.erase([2, 3], reason="asked to")
        before = list(ledger.read())
        root = ledger.verify().root
    for file in cache.iterdir():
        file.unlink()
    with chatsnapshot.open(place) as ledger:
        assert list(ledger.read()) == before
        report = ledger.verify()
        assert (report.ok, report.root, report.blobs) == (True, root, 1)


def _garbage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(bytes(data))


def _no_head(path: Path) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute("UPDATE head SET frontier = zeroblob(32 * length(frontier) / 32)")


def _no_table(path: Path) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute("DROP TABLE tile")


def _other_ledger(path: Path) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute("UPDATE ledger SET ledger_id = 'another'")


@pytest.mark.parametrize("damage", [_garbage, _no_head, _no_table, _other_ledger])
def test_a_damaged_index_is_made_again(place: str, cache: Path, damage: Callable[[Path], None]) -> None:
    with chatsnapshot.open(place) as ledger:
        _record(ledger, 300)
    damage(_index(cache))
    with chatsnapshot.open(place) as ledger:
        assert [entry.position for entry in ledger.read()] == list(range(1, 301))
        assert _record(ledger, 300)[-1].position == 600
        assert ledger.verify().ok


def test_an_index_that_is_deleted_while_it_is_used_is_made_again(place: str, cache: Path) -> None:
    with chatsnapshot.open(place) as ledger:
        _record(ledger, 20)
        for file in cache.iterdir():
            file.unlink()
        assert _record(ledger, 20)[-1].position == 40
        with chatsnapshot.open(place) as other:
            assert [entry.position for entry in other.read()] == list(range(1, 41))
            assert other.record("demo.step", {"n": 1}, correlation_id="run").position == 41
        assert ledger.head == 41
        assert ledger.verify().ok


def test_an_index_that_is_behind_is_read_on(place: str, cache: Path) -> None:
    with chatsnapshot.open(place) as ledger:
        _record(ledger, 10)
    with chatsnapshot.open(f"{place}&index=memory") as elsewhere:
        _record(elsewhere, 2_000 // 2)
        _record(elsewhere, 7)
    with chatsnapshot.open(place) as ledger:
        assert ledger.head == 1_017
        assert ledger.record("demo.step", {"n": 1}, correlation_id="run").sequence == 1_018
        assert ledger.verify().ok


def test_an_index_that_knows_more_than_the_stream_tells_that_the_servers_lost_entries(
    tmp_path: Path, cache: Path, require: Callable[[object, str], None]
) -> None:
    require(not NatsServer.missing(), NatsServer.missing())
    with NatsServer(own=True) as server:
        assert server.node is not None
        with chatsnapshot.open(server.url) as ledger:
            _record(ledger, 5)
        server.stop()
        shutil.copytree(server.node.store, tmp_path / "before")
        server.start()
        with chatsnapshot.open(server.url) as ledger:
            _record(ledger, 3)
        server.kill()
        shutil.rmtree(server.node.store)
        shutil.copytree(tmp_path / "before", server.node.store)
        server.start()
        with pytest.raises(Corrupt, match="have lost entries") as caught:
            chatsnapshot.open(server.url)
        assert caught.value.position == 6
        _index(cache).unlink()
        with chatsnapshot.open(server.url) as ledger:
            assert ledger.head == 5


def test_without_a_place_for_the_index_everything_works(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with chatsnapshot.open(place) as ledger, chatsnapshot.open(place) as other:
        _record(ledger, 20)
        assert other.head == 20
        assert other.record("demo.step", {"n": 1}, correlation_id="run").position == 21
        assert ledger.verify().ok


def test_the_index_can_be_put_elsewhere_and_holds_no_key_and_no_payload(place: str, tmp_path: Path) -> None:
    path = tmp_path / "there" / "index.db"
    with chatsnapshot.open(f"{place}&index={path}") as ledger:
        ledger.record("demo.step", {"secret": "plain-7f3a"}, correlation_id="run")
        core: Any = ledger._store
        (keys,) = core._core.engine.vault._pages.values()
    data = path.read_bytes()
    assert b"plain-7f3a" not in data
    assert not any(keys[at : at + 32] in data for at in range(0, len(keys), 32))
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_of_somebody_else_is_never_taken_for_an_index(place: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(LedgerError, match="no index of a ledger on NATS"):
        chatsnapshot.open(f"{place}&index={path}")
    assert path.read_text() == "mine"


def _entries_in(path: Path) -> int:
    with apsw.Connection(str(path)) as db:
        return int(db.execute("SELECT count(*) FROM entry").get)


def test_what_was_just_recorded_is_added_for_whoever_looks(
    place: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatsnapshot.stores.nats.writing._ADD_SECONDS", 3600)
    with chatsnapshot.open(place) as ledger:
        first = [ledger.record("demo.step", {"n": n}, correlation_id="run") for n in range(3)]
        assert _entries_in(_index(cache)) == 0  # the caller did not wait for it
        again = ledger.record("demo.step", {"n": 0}, correlation_id="run", event_id=first[0].event_id)
        assert again.position == 1
        assert list(ledger.read(correlation_id="run")) == first
        assert _entries_in(_index(cache)) == 3
        last = ledger.record("demo.step", {"n": 3}, correlation_id="run")
    assert _entries_in(_index(cache)) == 4  # with the end of the ledger
    with chatsnapshot.open(place) as ledger:
        assert list(ledger.read()) == [*first, last]


def test_what_was_not_added_yet_is_not_lost_with_the_index(
    place: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatsnapshot.stores.nats.writing._ADD_SECONDS", 3600)
    with chatsnapshot.open(place) as ledger:
        core: Any = ledger._store

        async def mend(engine: Any) -> None:
            engine.mend(apsw.CorruptError("as if"))

        made = [ledger.record("demo.step", {"n": n}, correlation_id="run") for n in range(2)]
        core._call(mend)
        made.append(ledger.record("demo.step", {"n": 2}, correlation_id="run"))
        assert [entry.sequence for entry in made] == [1, 2, 3]
        _no_table(_index(cache))
        made.append(ledger.record("demo.step", {"n": 3}, correlation_id="run"))
        assert [entry.sequence for entry in ledger.read()] == [1, 2, 3, 4]
        assert list(ledger.read()) == made
        assert ledger.verify().ok
