"""Every error as a user meets it: provoked for real, worded as docs/errors.md says, whole after a journey by pickle."""

from __future__ import annotations

import pickle
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

import chatsnapshot
from chatsnapshot import Limits
from chatsnapshot.errors import CommitUncertain, LedgerError, MissingExtra, StorePoisoned
from chatsnapshot.stores import sqlite_schema

ID = "01890000-0000-7000-8000-000000000001"


def note(ledger: Any, n: int = 0, **options: Any) -> Any:
    return ledger.record("a.b", {"n": n}, correlation_id="run-1", **options)


class FailingCommit:
    """A connection whose next COMMIT fails as a broken disk makes it fail."""

    def __init__(self, real: apsw.Connection) -> None:
        self._real = real

    def execute(self, sql: str, *bound: Any) -> Any:
        if sql == "COMMIT":
            raise apsw.IOError("disk I/O error")
        return self._real.execute(sql, *bound)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def uncertain(path: str) -> Iterator[tuple[Any, CommitUncertain]]:
    """A ledger whose first commit was one entry, and whose second one left open whether it is stored."""
    with chatsnapshot.open(path) as ledger:
        note(ledger)
        store: Any = ledger._store
        store._db = FailingCommit(store._db)
        with pytest.raises(CommitUncertain) as caught:
            note(ledger, 1, event_id=ID)
        yield ledger, caught.value


def invalid_event(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        note(ledger, timestamp=datetime(2026, 1, 1))


def event_conflict(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        note(ledger, 0, event_id=ID)
        note(ledger, 1, event_id=ID)


def sequence_conflict(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        note(ledger)
        note(ledger, expected_sequence=0)


def commit_uncertain(path: str) -> None:
    with uncertain(path) as (_, error):
        raise error


def store_full(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        note(ledger)
        db: Any = ledger._store._db  # type: ignore[attr-defined]
        db.execute(f"PRAGMA max_page_count={db.execute('PRAGMA page_count').get}")
        for n in range(2_000):
            note(ledger, n, attributes={"text": "x" * 500})


def store_unavailable(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        note(ledger)
        ledger._store._db.set_busy_timeout(10)  # type: ignore[attr-defined]
        # Through apsw: the sqlite3 module is another copy of SQLite, and two copies in one process share their locks.
        other = apsw.Connection(path)
        other.execute("BEGIN IMMEDIATE")
        try:
            note(ledger)
        finally:
            other.close()


def store_poisoned(path: str) -> None:
    with uncertain(path) as (ledger, _):
        reader = apsw.Connection(path)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entry").fetchall()
        with chatsnapshot.open(path) as other:
            note(other, 2)
        try:
            note(ledger, 3)
        finally:
            reader.close()
            assert note(ledger, 4).payload == {"n": 4}


def ledger_closed(path: str) -> None:
    ledger = chatsnapshot.open(path)
    ledger.close()
    note(ledger)


def read_only(path: str) -> None:
    chatsnapshot.open(path).close()
    with chatsnapshot.open(path, read_only=True) as ledger:
        note(ledger)


def not_found(path: str) -> None:
    chatsnapshot.open(path, create=False)


def corrupt(path: str) -> None:
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE mine (a)")
    foreign.close()
    chatsnapshot.open(path)


def format_too_new(path: str) -> None:
    chatsnapshot.open(path).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version=99")
    newer.close()
    chatsnapshot.open(path)


def limit_exceeded(path: str) -> None:
    with chatsnapshot.open(path, limits=Limits(batch_events_max=1)) as ledger:
        ledger.record_many([{"event_type": "a.b", "correlation_id": "c"}] * 2)


def missing_extra(path: str) -> None:
    raise MissingExtra("the AG2 adapter", "ag2")


PROVOKED: list[Callable[[str], None]] = [
    invalid_event, event_conflict, sequence_conflict, commit_uncertain, store_full, store_unavailable, store_poisoned,
    ledger_closed, read_only, not_found, corrupt, format_too_new, limit_exceeded, missing_extra,
]  # fmt: skip


@pytest.fixture
def sentences(pytestconfig: pytest.Config) -> dict[str, str]:
    """The examples of the page."""
    page = (pytestconfig.rootpath / "docs" / "errors.md").read_text()
    return dict(re.findall(r"^- `(\w+)`: (.+)$", page, re.MULTILINE))


@pytest.mark.parametrize("provoke", PROVOKED, ids=lambda one: one.__name__)
def test_an_error_reads_as_the_page_says_and_survives_a_pickle(
    provoke: Callable[[str], None], path: str, sentences: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT_MS", 10)
    with pytest.raises(LedgerError) as caught:
        provoke(path)
    error = caught.value
    name = provoke.__name__.title().replace("_", "")
    assert type(error).__name__ == name
    assert str(error).replace(path, "runs.db") == sentences[name]
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.__dict__) == (type(error), str(error), error.__dict__)


def test_the_page_has_an_example_of_every_error(sentences: dict[str, str]) -> None:
    assert set(sentences) == {one.__name__.title().replace("_", "") for one in PROVOKED}
    assert {*chatsnapshot.errors.__all__} - set(sentences) == {"LedgerError"}


def test_every_error_is_a_ledger_error_and_importable(sentences: dict[str, str]) -> None:
    for name in sentences:
        assert issubclass(getattr(chatsnapshot, name), chatsnapshot.LedgerError)


# --- what is known after an error of the commit ---


def test_an_uncertain_commit_gives_the_complete_envelopes_and_the_retry_is_safe(path: str) -> None:
    with uncertain(path) as (ledger, error):
        (event,) = error.events
        assert (event.event_id, event.payload, event.correlation_id) == (ID, {"n": 1}, "run-1")
        (entry,) = ledger.record_many(error.events)
        assert entry.event == event
        assert ledger.record_many(error.events) == [entry]
        assert [one.payload["n"] for one in ledger.read()] == [0, 1]
        assert ledger.verify().ok


def test_an_uncertain_event_that_carries_a_blob_can_be_recorded_again(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        note(ledger)
        store: Any = ledger._store
        store._db = FailingCommit(store._db)
        with pytest.raises(CommitUncertain) as caught:
            ledger.record("a.b", {"data": b"x" * 100_000}, correlation_id="c")
        (entry,) = ledger.record_many(caught.value.events)
        assert entry.value() == {"data": b"x" * 100_000}


def test_a_group_of_uncertain_events_tells_each_caller_its_own(path: str, gate: Callable[..., Any]) -> None:
    with chatsnapshot.open(path) as ledger:
        note(ledger)
        door = gate(ledger)
        door.shut()
        store: Any = ledger._store
        pendings = [note(ledger, n, wait=False) for n in range(5)]
        door.reached()
        store._db = FailingCommit(store._db)
        door.open()
        report = ledger.flush(30)
        assert len(report.failures) >= 1
        for failure in report.failures:
            assert isinstance(failure.error, CommitUncertain)
            assert [event.event_id for event in failure.error.events] == [failure.event.event_id]
        ledger.record_many([failure.event for failure in report.failures])
        assert sorted(one.payload["n"] for one in ledger.read()) == [0, 0, 1, 2, 3, 4]
        assert {one.event_id for one in ledger.read()} >= {pending.event_id for pending in pendings}


@pytest.mark.parametrize("provoke", [store_full, store_unavailable, sequence_conflict, event_conflict])
def test_after_a_definite_error_nothing_of_the_call_is_stored_and_the_ledger_goes_on(
    provoke: Callable[[str], None], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT_MS", 10)
    with pytest.raises(LedgerError):
        provoke(path)
    with chatsnapshot.open(path) as ledger:
        head = ledger.head
        assert note(ledger, 9).position == head + 1
        assert ledger.verify().ok


def test_a_poisoned_store_refuses_until_it_is_settled_and_loses_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT_MS", 10)
    with pytest.raises(StorePoisoned):
        store_poisoned(path)
    with chatsnapshot.open(path) as ledger:
        assert [one.payload["n"] for one in ledger.read()] == [0, 2, 4]
        assert ledger.verify().ok


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not a database at all, but long enough to be looked at" * 20, "is damaged|not a database"),
        (b"SQLite format 3\x00" + b"\xff" * 4096, "is damaged|not a database"),
    ],
)
def test_a_file_that_is_no_database_is_named_and_left_as_it_is(path: str, content: bytes, words: str) -> None:
    Path(path).write_bytes(content)
    for options in ({}, {"read_only": True}):
        with pytest.raises(LedgerError, match=words):
            chatsnapshot.open(path, **options)  # type: ignore[arg-type]
    assert Path(path).read_bytes() == content
