"""SQLite files of others are read as far as whole, with what their writers left beside them, and never touched."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import Problem, import_file
from chatsnapshot.importers.sqlitefile import Row, has_table, rows_of, whole_image

NEAR = ("name", "kind")


def make(path: Path, rows: int = 5, *, wal: bool = False, size: int = 20) -> sqlite3.Connection:
    """A database with rows; the connection keeps what it wrote in a log beside the file when ``wal`` is set."""
    connection = sqlite3.connect(path)
    if wal:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, data TEXT)")
    values = [(f"name-{number}", "lamp", "x" * size) for number in range(rows)]
    connection.executemany("INSERT INTO things (name, kind, data) VALUES (?, ?, ?)", values)
    connection.commit()
    return connection


def read(data: bytes) -> list[Any]:
    return list(rows_of(data, "things", ("name", "kind", "data"), NEAR))


def names(data: bytes) -> list[str]:
    return [row.values["name"] for row in read(data) if isinstance(row, Row)]


def test_rows_come_in_their_order_with_the_byte_at_which_they_stand(tmp_path: Path) -> None:
    make(tmp_path / "a.db", 300).close()
    data = (tmp_path / "a.db").read_bytes()
    found = read(data)
    assert [row.values["name"] for row in found] == [f"name-{number}" for number in range(300)]
    assert all(data[row.offset :].startswith(f"{row.values['name']}lamp".encode()) for row in found)
    assert has_table(data[:65536], "things", ("name", "data"))
    assert not has_table(data[:65536], "things", ("name", "other"))


def test_what_a_write_ahead_log_holds_is_read_and_nothing_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = make(path, wal=True)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    assert names(path.read_bytes()) == []
    image = whole_image(path, path.read_bytes())
    assert len(names(image)) == 5
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
    connection.close()


def test_a_database_that_uses_a_log_but_has_none_beside_it_is_read(tmp_path: Path) -> None:
    make(tmp_path / "a.db", wal=True).close()
    assert [one.name for one in tmp_path.iterdir()] == ["a.db"]
    data = (tmp_path / "a.db").read_bytes()
    assert len(names(whole_image(tmp_path / "a.db", data))) == 5
    assert [one.name for one in tmp_path.iterdir()] == ["a.db"]


def test_a_write_that_was_broken_off_is_undone_in_the_copy_alone(tmp_path: Path) -> None:
    path, crashed = tmp_path / "a.db", tmp_path / "crashed"
    make(path, 50).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("UPDATE things SET name = 'torn', data = ?", ("y" * 3000,))
    crashed.mkdir()
    for end in ("", "-journal"):
        shutil.copyfile(f"{path}{end}", f"{crashed / 'a.db'}{end}")
    connection.rollback()
    connection.close()
    before = {one.name: one.read_bytes() for one in crashed.iterdir()}
    assert before["a.db-journal"].startswith(b"\xd9\xd5\x05\xf9")
    image = whole_image(crashed / "a.db", before["a.db"])
    assert names(image) == [f"name-{number}" for number in range(50)]
    assert {one.name: one.read_bytes() for one in crashed.iterdir()} == before


def test_of_a_file_that_is_cut_off_the_rows_before_are_given(tmp_path: Path) -> None:
    make(tmp_path / "a.db", 200, size=400).close()
    data = (tmp_path / "a.db").read_bytes()
    found = read(data[: len(data) // 2 + 100])
    problems = [one for one in found if isinstance(one, Problem)]
    rows = [one.values["name"] for one in found if isinstance(one, Row)]
    assert "the file is cut off: it has" in problems[0].reason
    assert "damaged behind row" in problems[1].reason
    assert 50 < len(rows) < 200
    assert rows == [f"name-{number}" for number in range(len(rows))]


def test_rows_behind_a_damaged_page_are_given_too(tmp_path: Path) -> None:
    make(tmp_path / "a.db", 200, size=400).close()
    data = bytearray((tmp_path / "a.db").read_bytes())
    place = data.index(b"name-100lamp") // 4096 * 4096
    data[place : place + 4096] = b"\xff" * 4096
    found = names(bytes(data))
    assert found[0] == "name-0"
    assert found[-1] == "name-199"
    assert "name-100" not in found
    assert len(found) > 150


@pytest.mark.parametrize("data", [b"SQLite format 3\0", b"SQLite format 3\0" + bytes(5000), b"", b"x" * 200])
def test_what_is_no_database_is_a_problem(data: bytes) -> None:
    (problem,) = read(data)
    assert isinstance(problem, Problem)


def test_a_view_of_that_name_is_not_run(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE VIEW things AS SELECT 'a' AS name, 'b' AS kind, 'c' AS data")
    connection.close()
    assert [one.reason for one in read((tmp_path / "a.db").read_bytes())] == ["there is no table 'things'"]


def test_an_import_leaves_nothing_beside_the_file_and_nothing_in_the_temporary_folder(
    ledger: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]
) -> None:
    other = tmp_path / "tmp"
    other.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(other))
    path = tmp_path / "v2.db"
    columns = "event_id, event_type, timestamp, correlation_id, causation_id, source, payload"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"CREATE TABLE events (id INTEGER PRIMARY KEY, {columns})")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    event = (
        "e-1",
        "execution.message",
        "2026-01-02T03:04:05",
        "c",
        None,
        "{}",
        '{"role": "user", "content": "Hi"}',
    )
    connection.execute("INSERT INTO events VALUES (1, ?, ?, ?, ?, ?, ?, ?)", event)
    connection.commit()
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()}
    assert import_file(ledger, path).stored == 1
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()} == before
    assert not list(other.iterdir())
    connection.close()
