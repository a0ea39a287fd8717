"""A changed bit in a file of SQLite makes text of bytes, or a number: read as it was, or told, never a TypeError."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import LedgerError

COLUMNS = {
    "event_id": "BLOB",
    "correlation_id": "TEXT",
    "event_type": "TEXT",
    "timestamp": "TEXT",
    "recorded_at": "TEXT",
    "source": "TEXT",
    "causation_id": "BLOB",
    "attributes": "TEXT",
    "leaf": "BLOB",
    "commitment": "BLOB",
    "salt": "BLOB",
    "payload": "BLOB",
}


def retype(path: Path, assignment: str) -> None:
    """What the page says of a value, changed behind SQLite's back: the table takes any type for that while."""
    with sqlite3.connect(path) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        (sql,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'entry'").fetchone()
        loose = sql.replace("STRICT", "").replace("NOT NULL", "")
        for kind in ("INTEGER", "BLOB", "TEXT"):
            loose = loose.replace(f" {kind}", "") if kind != "INTEGER" else loose.replace(" INTEGER,", ",")
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'entry'", (loose,))
    db.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA ignore_check_constraints=ON")
        db.execute(f"UPDATE entry SET {assignment} WHERE position = 5")
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'entry'", (sql,))
    db.close()


def read_every_way(ledger: Ledger) -> None:
    for entry in ledger.read():
        assert entry._identity() and entry.payload
        ledger.get(entry.event_id)
    assert [entry.payload for entry in ledger.read(correlation_id="run-1")]
    ledger.view("transcript", "run-1")


OTHER = [
    *[
        f"{column} = CAST({column} AS {'TEXT' if kind == 'BLOB' else 'BLOB'})"
        for column, kind in COLUMNS.items()
    ],
    # One bit is between a short text or payload and a number; what is 16 bytes or longer cannot become one.
    *[f"{column} = 17.5" for column, kind in COLUMNS.items() if kind == "TEXT" or column == "payload"],
    *[f"{column} = 'x'" for column in ("sequence", "schema_version", "payload_bytes")],
]


@pytest.mark.parametrize("assignment", OTHER)
def test_a_value_of_another_type_is_an_error_of_ours_and_found_by_verify(
    tmp_path: Path, assignment: str
) -> None:
    path = tmp_path / "runs.db"
    with chatsnapshot.open(path) as ledger:
        first = ledger.record("execution.message", {"role": "user", "content": "0"}, correlation_id="run-1")
        for number in range(9):
            ledger.record(
                "execution.message",
                {"role": "user", "content": str(number)},
                correlation_id="run-1",
                causation_id=first,
                schema_version=1,
                attributes={"actor": "Ann"},
            )
    retype(path, assignment)
    for read_only in (True, False):
        with chatsnapshot.open(path, read_only=read_only) as ledger:
            try:
                read_every_way(ledger)
            except LedgerError:
                pass
            try:
                assert not ledger.verify().ok
            except LedgerError:
                pass
