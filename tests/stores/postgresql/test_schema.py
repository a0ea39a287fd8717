"""The schema: made once, brought up to date by who may, refused when it is newer than the code."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import FormatTooNew, LedgerError, NotFound, ReadOnly, StoreUnavailable
from chatsnapshot.stores.postgresql import __main__ as command
from chatsnapshot.stores.postgresql import schema


def test_every_step_is_recorded_with_its_name(ledger: Ledger, database: str, tools: Any) -> None:
    found = tools.run(database, "SELECT number, name FROM chatsnapshot.migration ORDER BY number")
    assert found == [(step.number, step.name) for step in schema.migrations()]
    assert [number for number, _ in found] == list(range(1, len(found) + 1))


def test_nothing_is_made_by_an_attempt_to_read(database: str, tools: Any) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(NotFound, match="no schema chatsnapshot"):
            chatsnapshot.open(database, **options)
    assert tools.run(database, "SELECT to_regnamespace('chatsnapshot')") == [(None,)]


def test_a_ledger_that_is_not_among_others_is_not_found(ledger: Ledger, database: str, tools: Any) -> None:
    with pytest.raises(NotFound, match="no ledger 'other'"):
        chatsnapshot.open(tools.with_option(database, ledger="other"), create=False)
    assert tools.run(database, "SELECT name FROM chatsnapshot.ledger") == [("main",)]


def test_a_newer_schema_is_refused(ledger: Ledger, database: str, tools: Any) -> None:
    newer = schema.migrations()[-1].number + 1
    tools.run(database, "INSERT INTO chatsnapshot.migration (number, name) VALUES (%s, 'later')", newer)
    for options in ({}, {"read_only": True}, {"create": False}):
        with pytest.raises(FormatTooNew, match=f"at step {newer}.*upgrade chatsnapshot"):
            chatsnapshot.open(database, **options)


def test_a_newer_ledger_format_is_refused(ledger: Ledger, database: str, tools: Any) -> None:
    tools.run(database, "UPDATE chatsnapshot.ledger SET format = 2")
    with pytest.raises(FormatTooNew, match="ledger format 2"):
        chatsnapshot.open(database)


@pytest.fixture
def older(database: str, monkeypatch: pytest.MonkeyPatch, tools: Any) -> str:
    """A database at the step before the last one that this version then knows."""
    with chatsnapshot.open(database) as made:
        made.record(**tools.event())
    known = schema.migrations()
    later = schema.Migration(known[-1].number + 1, "later", "CREATE TABLE chatsnapshot.later (a integer);")
    monkeypatch.setattr(schema, "migrations", lambda: (*known, later))
    monkeypatch.setattr(command, "migrations", lambda: (*known, later))
    return database


def test_an_older_schema_is_brought_up_to_date_by_opening_with_the_right_to_make(
    older: str, tools: Any
) -> None:
    with chatsnapshot.open(older) as ledger:
        assert ledger.head == 1
    assert tools.run(older, "SELECT count(*) FROM chatsnapshot.later") == [(0,)]


def test_an_older_schema_is_left_alone_without_that_right(older: str, tools: Any) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(LedgerError, match=r"python -m chatsnapshot\.stores\.postgresql migrate"):
            chatsnapshot.open(older, **options)
    assert tools.run(older, "SELECT to_regclass('chatsnapshot.later')") == [(None,)]


def test_a_role_that_does_not_own_the_schema_cannot_change_it_and_is_told(
    older: str, role: Callable[[str], str]
) -> None:
    with pytest.raises(ReadOnly, match="may not make or change the schema"):
        chatsnapshot.open(role("write"))


def test_the_command_brings_a_database_up_to_date(older: str, capsys: pytest.CaptureFixture[str]) -> None:
    latest = schema.migrations()[-1].number
    assert command.main(["status", older]) == 0
    assert f"at step {latest - 1} of {latest}" in capsys.readouterr().out
    assert command.main(["migrate", older]) == 0
    assert f"step {latest}: later" in capsys.readouterr().out
    assert command.main(["migrate", older]) == 0
    assert command.main(["migrate", "runs.db"]) == 1
    assert "no postgresql:// URL" in capsys.readouterr().err


def test_the_printed_script_makes_the_same_schema(database: str, tools: Any) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "chatsnapshot.stores.postgresql", "sql"],
        capture_output=True,
        text=True,
        check=True,
    )
    tools.run(database, made.stdout)
    with chatsnapshot.open(database) as ledger:
        ledger.record(**tools.event())
        assert ledger.verify().ok


def test_many_who_make_the_schema_at_once_make_one(database: str) -> None:
    found: list[object] = []

    def make() -> None:
        try:
            with chatsnapshot.open(database) as ledger:
                found.append(ledger.ledger_id)
        except LedgerError as error:
            found.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1, found


def test_a_role_that_may_not_make_a_schema_is_told_what_to_run(role: Callable[[str], str]) -> None:
    with pytest.raises(ReadOnly, match=r"chatsnapshot\.stores\.postgresql migrate"):
        chatsnapshot.open(role(""))


def test_an_old_server_is_refused(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "SERVER_MIN", 990000)
    with pytest.raises(LedgerError, match="99 is the oldest that works; upgrade the server"):
        chatsnapshot.open(database)


def test_a_database_that_cannot_hold_every_text_is_refused(base_url: str, database: str, tools: Any) -> None:
    name = database.rpartition("/cs_")[2].partition("?")[0] + "_ascii"
    tools.run(base_url, f"CREATE DATABASE cs_{name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    try:
        with pytest.raises(LedgerError, match="encoding SQL_ASCII"):
            chatsnapshot.open(database.replace(name.removesuffix("_ascii"), name))
    finally:
        tools.run(base_url, f"DROP DATABASE cs_{name} WITH (FORCE)")


def test_a_server_that_takes_no_writes_is_named_before_anything_is_written(database: str, tools: Any) -> None:
    reading = tools.with_option(database, options="-c default_transaction_read_only=on")
    with pytest.raises(StoreUnavailable, match="set to read-only"):
        chatsnapshot.open(reading)
    assert tools.run(database, "SELECT to_regnamespace('chatsnapshot')") == [(None,)]
    with chatsnapshot.open(database) as ledger:
        ledger.record(**tools.event())
    with chatsnapshot.open(reading, read_only=True) as ledger:
        assert ledger.head == 1


def test_a_read_only_ledger_cannot_write_even_if_it_tried(ledger: Ledger, database: str, tools: Any) -> None:
    with chatsnapshot.open(database, read_only=True) as reader:
        store: Any = reader._store
        with store._connections.lent() as connection:
            assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
        with pytest.raises(ReadOnly):
            reader.record(**tools.event())
