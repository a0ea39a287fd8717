"""The index can be deleted, stale, foreign or broken: the lines are the truth, and answers do not change."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import EventConflict

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


def index_files(path: Path) -> list[Path]:
    return [Path(f"{path}.index.db{suffix}") for suffix in ("", "-wal", "-shm")]


def keep(path: Path, folder: Path) -> None:
    folder.mkdir()
    for file in index_files(path):
        if file.exists():
            shutil.copy2(file, folder / file.name)


def bring_back(path: Path, folder: Path) -> None:
    for file in index_files(path):
        file.unlink(missing_ok=True)
        if (folder / file.name).exists():
            shutil.copy2(folder / file.name, file)


def answers(ledger: Ledger) -> Any:
    store = ledger._store
    return (
        store.head(),
        [entry._identity() for entry in ledger.read()],
        [entry.position for entry in ledger.read(correlation_id="run-1", reverse=True)],
        store.last_sequence("run-1"),
        store.children("run-1"),
        store.tile(0, 0),
        list(store.blobs()),
    )


@pytest.fixture
def filled(path: Path, opened: Open, event: Event) -> Any:
    """A ledger with 300 entries, a child, a blob and an erased payload; what it answers."""
    ledger = opened()
    first = ledger.record(**event(0))
    ledger.record_many([event(number, f"run-{number % 3}") for number in range(1, 297)])
    ledger.record("execution.run_started", {}, correlation_id="child", causation_id=first)
    ledger.record("execution.output", {"data": b"x" * 50_000}, correlation_id="run-1")
    ledger.erase(5, reason="asked")
    found = answers(ledger)
    ledger.close()
    return found


def test_a_deleted_index_is_made_again(path: Path, filled: Any, opened: Open, without_index: Any) -> None:
    without_index(path)
    ledger = opened()
    assert answers(ledger) == filled
    assert ledger.verify().ok
    assert index_files(path)[0].exists()


def test_an_older_index_catches_up(
    path: Path, filled: Any, opened: Open, event: Event, tmp_path: Path
) -> None:
    keep(path, tmp_path / "old")
    ledger = opened()
    entry = ledger.record(**event(300))
    ledger.close()
    bring_back(path, tmp_path / "old")
    ledger = opened()
    assert ledger.get(entry.event_id) == entry
    assert ledger.verify().ok
    assert ledger.head == entry.position


def test_an_older_index_knows_every_id_before_the_next_append(
    path: Path, opened: Open, event: Event, tmp_path: Path
) -> None:
    ledger = opened()
    ledger.record(**event(1))
    ledger.close()
    keep(path, tmp_path / "old")
    ledger = opened()
    known = ledger.record(**event(2))
    ledger.close()
    bring_back(path, tmp_path / "old")
    ledger = opened()
    assert ledger.record(known.event) == known
    with pytest.raises(EventConflict):
        ledger.record(**event(3), event_id=known.event_id)
    assert ledger.head == 2


def test_a_newer_index_is_not_believed(
    path: Path, filled: Any, opened: Open, event: Event, tmp_path: Path
) -> None:
    data = path.read_bytes()
    ledger = opened()
    ledger.record_many([event(number) for number in range(5)])
    ledger.close()
    keep(path, tmp_path / "new")
    path.write_bytes(data)
    bring_back(path, tmp_path / "new")
    ledger = opened()
    assert answers(ledger) == filled
    assert ledger.record(**event(301)).position == len(filled[1]) + 1
    assert ledger.verify().ok


@pytest.mark.parametrize("read_only", [True, False])
def test_the_index_of_another_ledger_is_not_believed(
    path: Path, filled: Any, opened: Open, event: Event, tmp_path: Path, read_only: bool
) -> None:
    other = tmp_path / "ledger" / "other.jsonl"
    with chatsnapshot.open(other) as ledger:
        ledger.record_many([event(number, "elsewhere") for number in range(500)])
    for mine, foreign in zip(index_files(path), index_files(other), strict=True):
        mine.unlink(missing_ok=True)
        if foreign.exists():
            shutil.copy2(foreign, mine)
    ledger = opened(read_only=read_only)
    assert answers(ledger) == filled
    assert ledger.verify().ok
    assert ledger._store.last_sequence("elsewhere") == 0


@pytest.mark.parametrize("content", [b"", b"nonsense" * 1000, b"SQLite format 3\0" + b"\xff" * 4096])
@pytest.mark.parametrize("read_only", [True, False])
def test_an_index_file_that_is_none_is_replaced(
    path: Path, filled: Any, opened: Open, without_index: Any, content: bytes, read_only: bool
) -> None:
    without_index(path)
    index_files(path)[0].write_bytes(content)
    ledger = opened(read_only=read_only)
    assert answers(ledger) == filled
    assert ledger.verify().ok


def test_a_database_with_other_tables_is_replaced(
    path: Path, filled: Any, opened: Open, without_index: Any
) -> None:
    without_index(path)
    with sqlite3.connect(index_files(path)[0]) as db:
        db.execute("CREATE TABLE entry (a)")
    db.close()
    assert answers(opened()) == filled


def test_the_index_may_vanish_while_the_ledger_is_open(
    path: Path, opened: Open, event: Event, without_index: Any
) -> None:
    one, other = opened(), opened()
    one.record(**event(1))
    assert other.head == 1
    without_index(path)
    two = other.record(**event(2))
    assert one.head == 2
    assert one.get(two.event_id) == two
    assert one.record(**event(3)).position == 3
    without_index(path)
    assert [entry.position for entry in one.read()] == [1, 2, 3]
    assert one.verify().ok and other.verify().ok


def test_what_the_index_hides_is_found_by_verify(path: Path, filled: Any, opened: Open) -> None:
    with sqlite3.connect(index_files(path)[0]) as db:
        db.execute("UPDATE entry SET offset = offset + 1 WHERE position = 7")
    db.close()
    report = opened().verify()
    assert not report.ok


def test_projection_states_survive_an_index_that_is_only_behind(
    path: Path, opened: Open, event: Event
) -> None:
    from chatsnapshot.stores.base import Checkpoint

    ledger = opened()
    entry = ledger.record(**event(1))
    point = Checkpoint(1, entry.leaf, b"d" * 32)
    store = ledger._store
    assert store.save_states("runs", 1, None, point, {"run-1": b"state", "gone": None})
    assert not store.save_states("runs", 1, None, point, {})
    with path.open("ab") as file:
        file.write(b"torn")
    ledger.record(**event(2))
    assert store.checkpoint("runs", 1) == point
    assert store.load_state("runs", 1, "run-1") == b"state"
    store.drop_states("runs", 1)
    assert store.checkpoint("runs", 1) is None


@pytest.mark.parametrize("read_only", [True, False])
def test_an_index_that_breaks_while_the_ledger_is_open_is_made_again(
    path: Path, filled: Any, opened: Open, event: Event, read_only: bool
) -> None:
    ledger = opened(read_only=read_only)
    ledger.head  # noqa: B018 - connections are open
    database = index_files(path)[0]
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (database.stat().st_size - 4096))
    index_files(path)[1].write_bytes(b"")
    ledger._store._lookout.after_fork()  # type: ignore[attr-defined]  # no page is left in a cache
    assert answers(ledger) == filled
    assert ledger.verify().ok


# What SQLite does not see in a page of the table of entries: a byte in front of a value says another type or length, or
# the value is another.
@pytest.mark.parametrize(
    "broken",
    [
        "segment = NULL",
        "offset = NULL",
        "length = NULL",
        "length = 'x'",
        "segment = x'4097'",
        "offset = CAST(x'4097' AS TEXT)",
        "offset = 9223372036854775807",
        "length = -3",
        "length = 9223372036854775807",
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_values_that_no_index_holds_are_damage_of_the_index_and_it_is_made_again(
    path: Path, filled: Any, opened: Open, event: Event, broken: str, read_only: bool
) -> None:
    database = index_files(path)[0]
    with sqlite3.connect(database) as db:
        sql = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'entry'").fetchone()[0]
        loose = sql.replace(" NOT NULL", "").replace("STRICT", "")
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'entry'", (loose,))
    db.close()
    with sqlite3.connect(database) as db:
        db.execute(f"UPDATE entry SET {broken} WHERE position IN (7, 299)")
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'entry'", (sql,))
    db.close()
    ledger = opened(read_only=read_only)
    assert answers(ledger) == filled
    assert ledger.verify().ok
    if not read_only:
        assert ledger.record(**event(400)).position == 301


def test_a_payload_is_not_erased_on_the_word_of_the_index_alone(
    path: Path, filled: Any, opened: Open
) -> None:
    with sqlite3.connect(index_files(path)[0]) as db:
        db.execute("INSERT INTO erasing VALUES (300, 7)")  # the record at position 300 names position 5 only
    db.close()
    before = path.read_bytes()
    ledger = opened()
    assert answers(ledger) == filled
    assert ledger.verify().ok
    assert path.read_bytes() == before


def test_a_sound_ledger_is_examined_without_reading_its_lines_a_second_time(
    path: Path, filled: Any, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatsnapshot.stores import jsonl_examine

    def never(*_: object, **__: object) -> Any:
        raise AssertionError("the thorough way is for ledgers in which something is wrong")

    monkeypatch.setattr(jsonl_examine, "scan", never)
    assert opened(read_only=True).verify().ok
