"""A file made before there was an index of late starts is read as it is, and gets the index when it is written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import chatsnapshot


@pytest.mark.parametrize("ledger_name", ["main", "other"])
def test_an_older_file_is_read_without_the_index_and_gets_it_when_it_is_opened_for_writing(
    tmp_path: Path, ledger_name: str
) -> None:
    url = f"{tmp_path}/runs.db?ledger={ledger_name}"
    start = "0199c3a0-0000-7000-8000-000000000001"
    with chatsnapshot.open(url, validation="off") as ledger:
        parent = ledger.record("execution.tool_call", {}, correlation_id="parent")
        ledger.record("execution.message", {}, correlation_id="child", causation_id=start)
        ledger.record(
            "execution.run_started", {}, correlation_id="child", causation_id=parent, event_id=start
        )
    index = "entry_late" if ledger_name == "main" else f"entry_late@{ledger_name}"
    with sqlite3.connect(tmp_path / "runs.db") as db:
        db.execute(f'DROP INDEX "{index}"')
    db.close()
    with chatsnapshot.open(url, read_only=True) as ledger:
        assert ledger._store.children("parent") == ["child"]
    assert index not in indexes(tmp_path)
    with chatsnapshot.open(url) as ledger:
        assert ledger._store.children("parent") == ["child"]
    assert index in indexes(tmp_path)


def indexes(folder: Path) -> set[str]:
    db = sqlite3.connect(folder / "runs.db")
    try:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    finally:
        db.close()
