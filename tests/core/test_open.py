"""Opening: the URL decides the store, what is there is respected, and what cannot be opened says why."""

from __future__ import annotations

import os
import pickle
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import Corrupt, FormatTooNew, InvalidEvent, Ledger, LedgerError, NotFound, ReadOnly
from chatsnapshot.stores.open import locate


@pytest.mark.parametrize(
    ("url", "kind", "tail"),
    [
        ("memory:", "memory", ""),
        ("runs.db", "sqlite", "runs.db"),
        ("runs", "sqlite", "runs"),
        ("sqlite:///data/runs.db", "sqlite", "/data/runs.db"),
        ("sqlite:runs.db", "sqlite", "runs.db"),
        ("file:///data/runs.db", "sqlite", "/data/runs.db"),
        ("runs.jsonl", "jsonl", "runs.jsonl"),
        ("jsonl:///data/x.log", "jsonl", "/data/x.log"),
        ("sqlite:///data/with%20space.db", "sqlite", "/data/with space.db"),
        ("what?.db", "sqlite", "what?.db"),
        ("c:odd", "sqlite", "c:odd"),
    ],
)
def test_the_url_chooses_the_store(url: str, kind: str, tail: str) -> None:
    found = locate(url)
    assert (found.kind, found.ledger) == (kind, "main")
    assert found.path == ("" if kind == "memory" else os.path.abspath(tail))


def test_a_path_object_and_a_ledger_name(tmp_path: Path) -> None:
    assert locate(tmp_path / "runs.db").path == str(tmp_path / "runs.db")
    assert locate("runs.db?ledger=tenant-a").ledger == "tenant-a"


def test_without_a_url_the_environment_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHATSNAPSHOT_LEDGER", raising=False)
    assert locate().path == str(tmp_path / "chatsnapshot.db")
    monkeypatch.setenv("CHATSNAPSHOT_LEDGER", "other.db")
    assert locate().path == str(tmp_path / "other.db")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "postgresql://h/d?ledger=Big",
        "postgresql://h/d#x",
        "postgresql:h",
        "mongodb://[h/d",
        "postgresql://h/d?ledger=a&ledger=b",
        "https://h#x",
        "ftp://h/x",
        "runs.db?ledger=Big",
        "runs.db?ledger=a&x=1",
        "a\x00b",
        "sqlite:",
    ],
)
def test_a_url_that_names_no_store_says_so(url: str) -> None:
    with pytest.raises(LedgerError):
        locate(url) if url else locate(Path("")).path and chatsnapshot.open("")


def test_nothing_is_made_where_nothing_may_be(tmp_path: Path) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(NotFound, match="no ledger at"):
            chatsnapshot.open(tmp_path / "no.db", **options)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="does not exist"):
        chatsnapshot.open(tmp_path / "no" / "runs.db")
    with pytest.raises(NotFound):
        chatsnapshot.open("memory:", read_only=True)
    with pytest.raises(InvalidEvent, match="durability"):
        chatsnapshot.open("memory:", durability="fast")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as raw:
        raw.execute("CREATE TABLE mine (x)")
    raw.close()
    text = tmp_path / "text.db"
    text.write_text("no database at all, and longer than a header of one hundred bytes " * 4)
    for path, match in ((foreign, "not a ChatSnapshot ledger"), (text, "damaged")):
        before = path.read_bytes()
        for options in ({}, {"read_only": True}):
            with pytest.raises(Corrupt, match=match):
                chatsnapshot.open(path, **options)  # type: ignore[arg-type]
        assert path.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_only_its_owner_can_read_a_new_ledger(path: str, opened: Callable[..., Ledger]) -> None:
    before = os.umask(0o022)
    try:
        opened(path).record("a.b", {"n": 1}, correlation_id="c")
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE(os.stat(path + name).st_mode) for name in ("", "-wal", "-shm")}
    assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600}


def test_the_mode_of_a_ledger_that_is_there_stays(path: str, opened: Callable[..., Ledger]) -> None:
    opened(path).close()
    os.chmod(path, 0o640)
    opened(path).record("a.b", {"n": 1}, correlation_id="c")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_a_newer_format_is_refused(path: str) -> None:
    chatsnapshot.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 2")
    raw.close()
    for options in ({}, {"read_only": True}):
        with pytest.raises(FormatTooNew, match="format 2"):
            chatsnapshot.open(path, **options)  # type: ignore[arg-type]


def test_several_ledgers_in_one_file_have_positions_and_trees_of_their_own(
    path: str, opened: Callable[..., Ledger]
) -> None:
    names = ["main", "tenant-a", "tenant-b"]
    ledgers = [opened(path if name == "main" else f"{path}?ledger={name}") for name in names]
    key = "00000000-0000-4000-8000-000000000001"
    for number, ledger in enumerate(ledgers):
        for _ in range(number + 1):
            ledger.record("a.b", {"n": number}, correlation_id="c")
        ledger.record("a.b", {"n": number}, correlation_id="d", event_id=key)
    assert [ledger.head for ledger in ledgers] == [2, 3, 4]
    assert len({ledger.verify().root for ledger in ledgers}) == 3
    assert len({ledger.ledger_id for ledger in ledgers}) == 3
    assert all(ledger.verify().ok for ledger in ledgers)
    assert [ledger.get(key).payload["n"] for ledger in ledgers] == [0, 1, 2]
    with pytest.raises(NotFound, match="no ledger 'tenant-c'"):
        opened(f"{path}?ledger=tenant-c", read_only=True)


def test_opening_again_goes_on(path: str, opened: Callable[..., Ledger]) -> None:
    first = opened(path)
    first.record("a.b", correlation_id="c")
    second = opened(path)
    assert second.record("a.b", correlation_id="c").position == 2
    assert first.record("a.b", correlation_id="c").sequence == 3
    assert first.ledger_id == second.ledger_id


def test_a_default_source_is_that_of_the_ledger(opened: Callable[..., Ledger], url: str) -> None:
    ledger = opened(url, source={"origin": "agent", "runtime": "custom", "name": "desk"})
    assert ledger.record("ui.interaction", correlation_id="c").source.name == "desk"
    with pytest.raises(InvalidEvent, match=r"source\.origin"):
        opened("memory:", source={"origin": "god"})


def record_there(ledger: Ledger) -> int:
    with ledger:
        return ledger.record("a.b", correlation_id="c").position


def test_a_file_ledger_pickles_to_its_url(path: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(path, source={"origin": "ui"})
    ledger.record("a.b", correlation_id="c")
    with pickle.loads(pickle.dumps(ledger)) as again:
        assert again.record("a.b", correlation_id="c").source.origin == "ui"
    with ProcessPoolExecutor(2) as pool:
        assert sorted(pool.map(record_there, [ledger, ledger])) == [3, 4]
    assert ledger.head == 4
    entry = ledger.get(next(ledger.read()))
    assert pickle.loads(pickle.dumps(entry)) == entry


def test_a_memory_ledger_does_not_pickle(opened: Callable[..., Ledger]) -> None:
    with pytest.raises(LedgerError, match="cannot be pickled"):
        pickle.dumps(opened("memory:"))


def test_a_read_only_ledger_refuses_to_record(path: str, opened: Callable[..., Ledger]) -> None:
    opened(path).record("a.b", correlation_id="c")
    ledger = opened(path, read_only=True)
    for call in (
        lambda: ledger.record("a.b", correlation_id="c"),
        lambda: ledger.record("a.b", correlation_id="c", wait=False),
        lambda: ledger.record_many([{"event_type": "a.b", "correlation_id": "c"}]),
        lambda: ledger.erase(1, reason="x"),
    ):
        with pytest.raises(ReadOnly, match="read-only"):
            call()
    assert ledger.head == 1


def test_memory_ledgers_are_always_new(opened: Callable[..., Ledger]) -> None:
    opened("memory:").record("a.b", correlation_id="c")
    assert opened("memory:").head == 0
