"""What SQLite itself refuses, whoever asks: change, removal and replacement of an entry, through raw SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import chatsnapshot

SECRET = "correct horse battery staple"


@pytest.fixture
def raw(path: str) -> Iterator[sqlite3.Connection]:
    """A connection of somebody else to a ledger of 300 entries, the third one erased."""
    with chatsnapshot.open(path) as ledger:
        ledger.record_many(
            [{"event_type": "a.b", "payload": {"n": n}, "correlation_id": "c"} for n in range(300)]
        )
        ledger.erase(3, reason="asked")
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()
    with chatsnapshot.open(path) as ledger:
        report = ledger.verify()
        assert report.ok, report.problems
        assert report.entries == 301


COLUMNS = [
    "position", "event_id", "correlation_id", "sequence", "event_type", "timestamp", "recorded_at", "source",
    "causation_id", "schema_version", "attributes", "leaf", "commitment", "payload_bytes",
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_no_column_of_an_entry_can_be_updated(raw: sqlite3.Connection, column: str) -> None:
    for value in (f"{column}", "NULL", "zeroblob(16)", "7", "'x'"):
        with pytest.raises(sqlite3.Error):
            raw.execute(f"UPDATE entry SET {column} = {value} WHERE position = 5")
        with pytest.raises(sqlite3.Error):
            raw.execute(f"UPDATE OR REPLACE entry SET {column} = {value} WHERE position = 5")


@pytest.mark.parametrize(
    "assignment",
    [
        "payload = '{}'", "payload = x'7b7d'", "salt = zeroblob(16)", "payload = NULL, salt = zeroblob(16)",
        "payload = NULL", "salt = NULL", "payload = x'7b7d', salt = NULL", "payload = payload, salt = salt",
    ],
)  # fmt: skip
def test_a_payload_is_never_replaced_and_never_half_erased(raw: sqlite3.Connection, assignment: str) -> None:
    for position in (5, 3):
        try:
            raw.execute(f"UPDATE entry SET {assignment} WHERE position = {position}")
        except sqlite3.Error:
            continue
        assert (position, assignment) in {
            (3, "payload = NULL"),
            (3, "salt = NULL"),
            (3, "payload = payload, salt = salt"),
        }


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entry",
        "DELETE FROM entry WHERE position = 300",
        "DELETE FROM head",
        "UPDATE head SET size = 2",
        "UPDATE head SET id = 2",
        "DELETE FROM tile",
        "UPDATE tile SET hashes = zeroblob(8192)",
        "INSERT OR REPLACE INTO tile SELECT * FROM tile",
    ],
)
def test_nothing_is_removed_and_the_tree_never_goes_back(raw: sqlite3.Connection, statement: str) -> None:
    with pytest.raises(sqlite3.Error):
        raw.execute(statement)


FIELDS = (
    "position, event_id, correlation_id, sequence, event_type, timestamp, recorded_at, source, causation_id, "
    "schema_version, attributes, leaf, commitment, payload_bytes, salt, payload"
)


def copied(position: str, event_id: str, sequence: str) -> str:
    """A row like the fifth, with another position, id and sequence."""
    rest = ", ".join(FIELDS.split(", ")[4:])
    return f"({FIELDS}) SELECT {position}, {event_id}, correlation_id, {sequence}, {rest} FROM entry WHERE position = 5"


@pytest.mark.parametrize("verb", ["INSERT", "INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE"])
@pytest.mark.parametrize(
    ("position", "event_id", "sequence"),
    [
        ("302", "event_id", "9999"),  # a known id
        ("302", "zeroblob(16)", "5"),  # a known sequence
        ("5", "zeroblob(16)", "9999"),  # a known position
        ("301", "zeroblob(16)", "9999"),  # the last position
        ("303", "zeroblob(16)", "9999"),  # a hole
        ("-1", "zeroblob(16)", "9999"),
        ("NULL", "event_id", "9999"),
    ],
)
def test_no_insert_takes_a_known_place(
    raw: sqlite3.Connection, verb: str, position: str, event_id: str, sequence: str
) -> None:
    before = raw.execute("SELECT * FROM entry ORDER BY position").fetchall()
    try:
        raw.execute(f"{verb} INTO entry {copied(position, event_id, sequence)}")
    except sqlite3.Error:
        pass
    assert raw.execute("SELECT * FROM entry ORDER BY position").fetchall() == before


def test_the_guards_hold_for_every_ledger_of_a_file(path: str) -> None:
    with chatsnapshot.open(f"{path}?ledger=tenant-a") as ledger:
        ledger.record("a.b", correlation_id="c")
    raw = sqlite3.connect(path, isolation_level=None)
    for statement in (
        'DELETE FROM "entry@tenant-a"',
        "UPDATE \"entry@tenant-a\" SET event_type = 'x.y'",
        'DELETE FROM "head@tenant-a"',
    ):
        with pytest.raises(sqlite3.Error, match="append only"):
            raw.execute(statement)
    raw.close()


def test_what_was_erased_is_in_no_file_of_the_ledger(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        for n in range(200):
            ledger.record("a.b", {"text": f"{SECRET} {n} " * (1 + n % 40 * 5)}, correlation_id=n % 7)
        big = ledger.record("a.b", {"data": SECRET.encode() * 5_000}, correlation_id="c")
        reader = chatsnapshot.open(path, read_only=True)
        assert reader.head == 201
        reader.close()
        ledger.erase(range(1, 202), reason="asked")
        for file in Path(path).parent.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file.name
        assert ledger.get(big.event_id).erased
        assert ledger.verify().ok
    for file in Path(path).parent.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file.name
