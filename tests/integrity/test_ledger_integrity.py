"""Integrity as a ledger's user meets it: what verify finds, and a tree that outlives its connection."""

import sqlite3

import pytest

import chatsnapshot
from chatsnapshot.errors import Corrupt
from chatsnapshot.stores.imports import check_rows

pytestmark = pytest.mark.skipif(
    sqlite3.sqlite_version_info < (3, 37), reason="STRICT tables need SQLite 3.37"
)


def change(path, sql, *values):
    """Change a closed ledger behind its back."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        for (trigger,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            db.execute(f'DROP TRIGGER "{trigger}"')
        assert db.execute(sql, values).rowcount > 0
    finally:
        db.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def test_a_cause_hidden_inside_the_attributes_is_found_though_the_leaf_still_fits(path):
    with chatsnapshot.open(path, durability="os") as ledger:
        first = ledger.record("execution.message", {}, correlation_id="run-1")
        ledger.record(
            "execution.output", {}, correlation_id="run-1", causation_id=first, attributes={"actor": "a"}
        )
        assert ledger.verify().ok
    moved = f',"causation_id":"{first.event_id}"'
    change(
        path, "UPDATE entry SET causation_id = NULL, attributes = attributes || ? WHERE position = 2", moved
    )
    with chatsnapshot.open(path, read_only=True) as ledger:
        (problem,) = ledger.verify().problems
        assert (problem.position, problem.what) == (2, "attributes is not in its canonical form")


def test_rows_whose_text_was_moved_between_columns_are_not_imported(path):
    with chatsnapshot.open(path, durability="os") as ledger:
        first = ledger.record("execution.message", {}, correlation_id="run-1")
        second = ledger.record(
            "execution.output", {}, correlation_id="run-1", causation_id=first, attributes={"actor": "a"}
        )
        key = second.event_key
        row = ledger._store.get([key])[key]
    assert check_rows([row], "", lambda correlation: 1, lambda ids: ()) == {}
    moved = list(row)
    moved[8], moved[11] = None, f'{row[11]},"causation_id":"{first.event_id}"'
    with pytest.raises(Corrupt, match="canonical form"):
        check_rows([tuple(moved)], "", lambda correlation: 1, lambda ids: ())


def test_a_blob_named_deep_inside_a_payload_is_read_back_and_missed_when_it_is_gone(path):
    deep = b"y" * 50_000
    for _ in range(70):
        deep = [deep]
    with chatsnapshot.open(path, durability="os") as ledger:
        entry = ledger.record("execution.output", {"deep": deep}, correlation_id="run-1")
        assert ledger.get(entry.event_id).value() == {"deep": deep}
        report = ledger.verify()
        assert (report.ok, report.blobs) == (True, 1)
    change(path, "DELETE FROM blob")
    with chatsnapshot.open(path, read_only=True) as ledger:
        problem = ledger.verify().problems[0]
        assert (problem.position, problem.what) == (1, "blob is missing")


def test_a_tile_of_a_higher_level_is_filled_over_a_connection_opened_since(path):
    batch = [{"event_type": "system.error", "correlation_id": "run-1", "payload": {}}] * 9_360
    with chatsnapshot.open(path, durability="os") as ledger:
        for _ in range(7):
            ledger.record_many(batch)
        assert ledger.head == 65_520
    with chatsnapshot.open(path, durability="os") as ledger:
        ledger.record_many(batch[:10])  # the tree is restored with this connection
        ledger._store._drop_connection()  # as after a commit that failed
        ledger.record_many(batch[:10])
        assert ledger.head == 65_540
        assert ledger._store.tile(1, 0) is not None
        assert ledger.verify().ok
