"""Errors of a PostgreSQL server: each one sentence with a next step, definite where it is, without secrets."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import traceback
from typing import Any

import psycopg
import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import (
    CommitUncertain,
    EventConflict,
    LedgerError,
    StoreFull,
    StoreUnavailable,
)
from chatsnapshot.stores.postgresql.schema import LOCK_CLASS
from chatsnapshot.testing.servers.postgresql import PostgresqlServer

SECRET = "hunter2-never-shown"


def _everything(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": SECRET}, "password authentication failed.*check user and password"),
        ({"database": "nowhere"}, "does not exist.*create the database first"),
        ({"user": "nobody_here"}, "password authentication failed|does not exist"),
        ({"port": 1}, "check host and port"),
        ({"host": "/nowhere/at/all"}, "check the folder of the socket"),
    ],
    ids=["password", "database", "user", "port", "socket"],
)
def test_a_server_that_lets_nobody_in_says_why(
    server: PostgresqlServer, change: dict[str, Any], said: str
) -> None:
    of = {
        "user": server.user,
        "password": server.password,
        "port": server.port,
        "database": "postgres",
        **change,
    }
    url = f"postgresql://{of['user']}:{of['password']}@127.0.0.1:{of['port']}/{of['database']}"
    if "host" in change:
        url = f"postgresql://{server.user}:{SECRET}@/postgres?host={change['host']}"
    with pytest.raises(StoreUnavailable, match=said) as found:
        chatsnapshot.open(url)
    text = _everything(found.value)
    assert SECRET not in text and server.password not in text


def test_passwords_are_in_no_error_log_or_repr(
    server: PostgresqlServer, tools: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = tools.with_option(
        server.tcp_url, listen_url=f"postgresql://postgres:{server.password}@127.0.0.1:{server.port}/x"
    )
    with chatsnapshot.open(url) as ledger:
        ledger.record(**tools.event())
        store: Any = ledger._store
        shown = [
            repr(ledger),
            str(ledger),
            ledger._store.url,
            repr(store),
            repr(store._connections),
            repr(store._listener),
        ]
        server.kill()
        with pytest.raises(LedgerError) as found:
            ledger.record(**tools.event())
        shown.append(_everything(found.value))
    assert all(server.password not in text for text in [*shown, caplog.text])


@pytest.mark.parametrize("query", ["nonsense=1", "port=abc", "sslmode=perhaps"])
def test_a_url_that_libpq_refuses_is_refused_without_its_password(query: str, parts: None) -> None:
    with pytest.raises(LedgerError) as found:
        chatsnapshot.open(f"postgresql://user:{SECRET}@127.0.0.1/db?{query}")
    assert SECRET not in _everything(found.value)


def test_a_lock_that_another_session_holds_is_waited_for_and_then_named(
    ledger: Ledger, database: str, tools: Any
) -> None:
    ledger.record(**tools.event())
    with (
        tools.connect(database) as other,
        chatsnapshot.open(tools.with_option(database, options="-c lock_timeout=300")) as waiting,
    ):
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCK_CLASS,))
        for ask in (
            lambda: waiting.record(**tools.event(1)),
            lambda: waiting.record(**tools.event(1), expected_sequence=1),
            lambda: waiting.erase(1, reason="asked to"),
        ):
            with pytest.raises(StoreUnavailable, match=r"another session held the lock.*nothing was stored"):
                ask()
        done: list[Any] = []
        thread = threading.Thread(target=lambda: done.append(ledger.record(**tools.event(2))))
        thread.start()
        other.execute("COMMIT")
        thread.join(20)
        assert [entry.position for entry in done] == [2]
        assert waiting.record(**tools.event(3)).position == 3


def test_a_writer_without_a_limit_of_its_own_waits_half_a_minute(
    ledger: Ledger, database: str, tools: Any
) -> None:
    with tools.connect(database) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT chatsnapshot.lock(1)")
        assert connection.execute("SHOW lock_timeout").fetchone() == ("30s",)


def test_a_statement_timeout_is_definite_and_recording_goes_on(
    ledger: Ledger, database: str, tools: Any
) -> None:
    with (
        tools.connect(database) as other,
        chatsnapshot.open(tools.with_option(database, options="-c statement_timeout=300")) as hurried,
    ):
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCK_CLASS,))
        with pytest.raises(
            StoreUnavailable, match=r"cancelled the statement.*nothing was stored.*statement_timeout"
        ):
            hurried.record(**tools.event())
        other.execute("COMMIT")
        assert hurried.record(**tools.event()).position == 1


def test_a_commit_is_durable_whatever_the_session_was_told(ledger: Ledger, database: str, tools: Any) -> None:
    for level in ("off", "local", "remote_write"):
        with tools.connect(database) as connection:
            connection.execute(f"SET synchronous_commit = {level}")
            connection.execute("BEGIN")
            connection.execute("SELECT chatsnapshot.lock(1)")
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    url = tools.with_option(database, options="-c synchronous_commit=off")
    tools.run(
        database,
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO noted VALUES "
        "(current_setting('synchronous_commit')); RETURN NULL; END $$; CREATE TABLE noted (level text); "
        "CREATE CONSTRAINT TRIGGER note AFTER INSERT ON chatsnapshot.entry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION note()",
    )
    with chatsnapshot.open(url) as careless:
        careless.record(**tools.event())
        careless.record_many([tools.event(1), tools.event(2)])
        careless.record(**tools.event(3), expected_sequence=3)
    assert set(tools.run(database, "SELECT level FROM noted")) == {("on",)}


@pytest.mark.parametrize(
    ("state", "kind"), [("53100", StoreFull), ("53200", StoreUnavailable), ("40P01", StoreUnavailable)]
)
@pytest.mark.parametrize("when", ["IMMEDIATE", "DEFERRED"])
def test_an_error_of_the_server_stores_nothing_also_when_it_comes_with_the_commit(
    ledger: Ledger, database: str, tools: Any, state: str, kind: type[LedgerError], when: str
) -> None:
    ledger.record(**tools.event())
    tools.run(
        database,
        f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it fails' USING ERRCODE = "
        f"'{state}'; END $$; CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON chatsnapshot.entry DEFERRABLE "
        f"INITIALLY {when} FOR EACH ROW EXECUTE FUNCTION fail()",
    )
    for ask in (
        lambda: ledger.record(**tools.event(1)),
        lambda: ledger.record_many([tools.event(1), tools.event(2)]),
        lambda: ledger.record(**tools.event(1), expected_sequence=1),
        lambda: ledger.erase(1, reason="asked to"),
    ):
        with pytest.raises(kind, match=r"it fails.*nothing was stored"):
            ask()
    assert ledger.head == 1
    tools.run(database, "DROP TRIGGER fail ON chatsnapshot.entry")
    assert ledger.record(**tools.event(1)).position == 2
    assert ledger.verify().ok


def test_a_session_that_was_ended_is_replaced(ledger: Ledger, database: str, tools: Any) -> None:
    for number in range(3):
        assert ledger.record(**tools.event(number)).position == number + 1
        tools.run(
            database,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = 'chatsnapshot' AND datname = current_database()",
        )
    assert len(list(ledger.read())) == 3


def test_a_commit_whose_session_ends_meanwhile_is_uncertain_and_the_retry_stores_once(
    ledger: Ledger, database: str, tools: Any
) -> None:
    ledger.record(**tools.event())
    with tools.connect(database) as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCK_CLASS,))
        found: list[Exception] = []

        def record() -> None:
            try:
                ledger.record(**tools.event(1))
            except LedgerError as error:
                found.append(error)

        thread = threading.Thread(target=record)
        thread.start()
        waiting = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while not (pids := tools.run(database, waiting)):
            pass
        tools.run(database, "SELECT pg_terminate_backend(%s, 5000)", pids[0][0])
        thread.join(20)
    assert isinstance(found[0], CommitUncertain), found
    entries = ledger.record_many(found[0].events)
    assert [entry.position for entry in entries] == [2]
    assert ledger.record_many(found[0].events) == entries
    assert ledger.verify().ok


def test_an_id_that_was_taken_for_new_and_is_known_is_found_out(
    ledger: Ledger, tools: Any, monkeypatch: Any
) -> None:
    """The unique index stands behind what a client believes."""
    known = "11111111-1111-4111-8111-111111111111"
    first = ledger.record(**tools.event(1, event_id=known))
    store: Any = ledger._store
    append = store._writer.append
    monkeypatch.setattr(
        store._writer,
        "append",
        lambda db, drafts, clock, noted, unknown=False: append(db, drafts, clock, noted, True),
    )
    assert ledger.record(**tools.event(1, event_id=known)) == first
    with pytest.raises(EventConflict):
        ledger.record(**tools.event(2, event_id=known))


def test_nothing_acknowledged_is_lost_when_the_server_is_killed_during_writes(
    server: PostgresqlServer, tools: Any
) -> None:
    known: list[str] = []
    lock = threading.Lock()
    stop = threading.Event()

    def write(ledger: Ledger, number: int) -> None:
        while not stop.is_set():
            try:
                entry = ledger.record(**tools.event(number, correlation_id=f"run-{number}"))
            except LedgerError:
                continue
            with lock:
                known.append(entry.event_id)

    with chatsnapshot.open(server.tcp_url) as ledger:
        threads = [threading.Thread(target=write, args=(ledger, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for wanted in (50, 100, 150):
            while len(known) < wanted:
                pass
            server.kill()
            server.start()
        stop.set()
        for thread in threads:
            thread.join(30)
        assert all(ledger.get(event_id) for event_id in known)
        assert ledger.verify().ok


def test_both_ways_to_the_server_lead_to_one_ledger(server: PostgresqlServer, tools: Any) -> None:
    with chatsnapshot.open(server.url) as socket, chatsnapshot.open(server.tcp_url) as tcp:
        assert socket.record(**tools.event()).position == 1
        assert tcp.record(**tools.event()).position == 2
        assert socket.ledger_id == tcp.ledger_id


def test_the_driver_is_asked_for_by_its_extra() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import chatsnapshot\n"
        "try: chatsnapshot.open('postgresql://u@h/d')\n"
        "except chatsnapshot.MissingExtra as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'chatsnapshot[postgresql]'" in said


def test_errors_of_the_driver_never_come_through(ledger: Ledger, database: str, tools: Any) -> None:
    tools.run(database, "ALTER TABLE chatsnapshot.head RENAME TO gone")
    for ask in (lambda: ledger.head, lambda: ledger.record(**tools.event())):
        with pytest.raises(LedgerError) as found:
            ask()
        assert not isinstance(found.value, psycopg.Error)
    tools.run(database, "ALTER TABLE chatsnapshot.gone RENAME TO head")
    assert ledger.record(**tools.event()).position == 1
