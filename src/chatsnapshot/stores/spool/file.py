"""The file of a spool: groups of events that wait, in order, and those that the service refused; durable by commit."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw

from chatsnapshot.errors import (
    CommitUncertain,
    FormatTooNew,
    LedgerClosed,
    LedgerError,
    StoreFull,
    StorePoisoned,
)
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.spool.place import make_private
from chatsnapshot.stores.sqlite_errors import is_unwritten, mapped

__all__ = ["Counted", "Refused", "SpoolFile", "Waiting"]

APPLICATION_ID = 0x43535350  # "CSSP"
VERSION = 1
_BUSY_TIMEOUT_MS = 30_000
_FREE_PAGES_MAX = 2_048

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE waiting (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  events INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE TABLE event (event_id BLOB PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX event_number ON event (number);
CREATE TABLE refused (
  number INTEGER PRIMARY KEY,
  refused_at TEXT NOT NULL,
  events INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  problem TEXT NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE TABLE count (id INTEGER PRIMARY KEY CHECK (id = 1), events INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
INSERT INTO count VALUES (1, 0, 0);
"""


class Waiting(NamedTuple):
    """A group that waits: ``data`` is how it is sent."""

    number: int
    events: int
    data: bytes


class Refused(NamedTuple):
    """A group that was refused: when, the problem that the service told (JSON), and the group."""

    number: int
    refused_at: str
    events: int
    problem: str
    data: bytes


class Counted(NamedTuple):
    """Events that wait, bytes of all that is kept, and events that were refused."""

    waiting: int
    bytes: int
    refused: int


class SpoolFile:
    """One connection to the file, for the threads of this process."""

    def __init__(self, path: str, url: str, bytes_max: int) -> None:
        self.path = path
        self._url = url
        self._bytes_max = bytes_max
        self._lock = threading.RLock()
        self._db: apsw.Connection | None = None
        self._closed = False
        self._doubtful = False
        """A commit failed: before anything else is said, what the log holds is written anew."""
        with self._mapped():
            self._opened()

    def _opened(self) -> apsw.Connection:
        if self._closed:
            raise LedgerClosed(f"the ledger {self._url} was closed; open it again to use it")
        if self._db is None:
            db = _connected(self.path, self._url)
            if self._doubtful:
                _settle(db, self.path)
                self._doubtful = False
            self._db = db
        return self._db

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            with self._lock, at_work:
                yield
        except apsw.Error as error:
            raise mapped(error, self.path, self._db) from error

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """One transaction, durable at the end of the block; an error of the commit itself leaves open what is stored."""
        with self._mapped():
            db = self._opened()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            try:
                db.execute("COMMIT")
            except apsw.Error as error:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if is_unwritten(error) or isinstance(error, apsw.BusyError):
                    raise  # it is not in the log
                # A failed sync: the log may hold it, or not, and nothing of it is sure to be on the disk.
                self._db, self._doubtful = None, True
                db.close()
                raise CommitUncertain(
                    f"a commit to {self.path} failed ({error}), so it is open whether these events are in the spool; "
                    "retry with record_many(error.events)"
                ) from error

    # --- putting in ---

    def add(self, groups: Sequence[tuple[Sequence[bytes], bytes]], bounded: bool = True) -> None:
        """Add groups, each as ids and data, inside :meth:`writing`; raises :class:`StoreFull` at ``spool_bytes_max``."""
        db = self._opened()
        events = sum(len(ids) for ids, _ in groups)
        size = sum(len(data) for _, data in groups)
        ((held,),) = db.execute("SELECT bytes FROM count")
        if bounded and held + size > self._bytes_max:
            raise StoreFull(
                f"the spool of {self._url} holds {held:,} bytes and spool_bytes_max is {self._bytes_max:,}; nothing was "
                "stored, look why nothing is sent with chatsnapshot spool list"
            )
        for ids, data in groups:
            db.execute(
                "INSERT INTO waiting (events, bytes, data) VALUES (?, ?, ?)", (len(ids), len(data), data)
            )
            number = db.last_insert_rowid()
            db.executemany("INSERT INTO event VALUES (?, ?)", [(one, number) for one in ids])
        db.execute("UPDATE count SET events = events + ?, bytes = bytes + ?", (events, size))

    def holding(self, ids: Sequence[bytes]) -> list[bytes]:
        """The data of the groups that wait and hold any of these events."""
        if not ids:
            return []
        with self._mapped():
            db = self._opened()
            found: dict[int, bytes] = {}
            for one in ids:
                for number, data in db.execute(
                    "SELECT number, data FROM waiting WHERE number = (SELECT number FROM event WHERE event_id = ?)",
                    (one,),
                ):
                    found[number] = data
            return list(found.values())

    # --- taking out ---

    def first(self, events_max: int, bytes_max: int) -> list[Waiting]:
        """The groups that wait longest, up to so many events and bytes, at least one."""
        taken: list[Waiting] = []
        events = size = 0
        with self._mapped():
            cursor = self._opened().execute(
                "SELECT number, events, bytes, data FROM waiting ORDER BY number LIMIT ?", (events_max,)
            )
            for number, count, length, data in cursor:
                if taken and (events + count > events_max or size + length > bytes_max):
                    break
                taken.append(Waiting(number, count, data))
                events += count
                size += length
            cursor.close()
        return taken

    def settle(
        self,
        sent: Sequence[Waiting],
        refused: Sequence[tuple[Waiting, str, str]],
        notes: Sequence[tuple[Sequence[bytes], bytes]],
    ) -> None:
        """Take out what was sent, set aside what was refused (with time and problem), and add notes about it."""
        with self.writing() as db:
            for one in sent:
                self._remove(db, one, len(one.data))
            for one, at, problem in refused:
                self._remove(db, one, 0)
                db.execute(
                    "INSERT INTO refused VALUES (?, ?, ?, ?, ?, ?)",
                    (one.number, at, one.events, len(one.data), problem, one.data),
                )
            if notes:
                self.add(notes, bounded=False)

    def _remove(self, db: apsw.Connection, one: Waiting, size: int) -> None:
        """Take a group out, and so many bytes from the count; nothing is left to do when it was dropped meanwhile."""
        db.execute("DELETE FROM event WHERE number = ?", (one.number,))
        db.execute("DELETE FROM waiting WHERE number = ?", (one.number,))
        if db.changes():
            db.execute("UPDATE count SET events = events - ?, bytes = bytes - ?", (one.events, size))

    def refused(self, after: int = 0, limit: int = 10_000) -> list[Refused]:
        """Groups that were refused, after a number."""
        with self._mapped():
            return [
                Refused(*row)
                for row in self._opened().execute(
                    "SELECT number, refused_at, events, problem, data FROM refused WHERE number > ? ORDER BY number "
                    "LIMIT ?",
                    (after, limit),
                )
            ]

    def drop(self, *, waiting: bool) -> Counted:
        """Forget what was refused, and with ``waiting`` what waits too; gives what was there."""
        before = self.counted()
        with self.writing() as db:
            db.execute("DELETE FROM refused")
            if waiting:
                db.execute("DELETE FROM event")
                db.execute("DELETE FROM waiting")
            db.execute(
                "UPDATE count SET events = (SELECT coalesce(sum(events), 0) FROM waiting), "
                "bytes = (SELECT coalesce(sum(bytes), 0) FROM waiting)"
            )
        return before

    def counted(self) -> Counted:
        """How much is there."""
        with self._mapped():
            db = self._opened()
            ((events, size),) = db.execute("SELECT events, bytes FROM count")
            ((refused,),) = db.execute("SELECT coalesce(sum(events), 0) FROM refused")
            return Counted(events, size, refused)

    def empty(self) -> bool:
        """Whether nothing waits."""
        with self._mapped():
            return not list(self._opened().execute("SELECT 1 FROM waiting LIMIT 1"))

    def last(self) -> int:
        """The number of the group that came last; 0 when none waits."""
        with self._mapped():
            ((number,),) = self._opened().execute("SELECT coalesce(max(number), 0) FROM waiting")
            return int(number)

    def waits_up_to(self, number: int) -> bool:
        """Whether a group of this number or an earlier one still waits."""
        with self._mapped():
            found = self._opened().execute("SELECT 1 FROM waiting WHERE number <= ? LIMIT 1", (number,))
            return bool(list(found))

    def shrink(self) -> None:
        """Give space back that much was in, and nothing is any more."""
        with self._mapped():
            db = self._opened()
            if int(_pragma(db, "freelist_count") or 0) > _FREE_PAGES_MAX:
                db.execute("PRAGMA incremental_vacuum").fetchall()
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # --- facts ---

    def facts(self) -> Mapping[str, str]:
        """What is known of the ledger: ``url``, and ``ledger_id`` once the service has answered."""
        with self._mapped():
            rows = self._opened().execute("SELECT key, value FROM meta")
            return {str(key): str(value) for key, value in rows}

    def learn(self, key: str, value: str) -> None:
        """Keep a fact."""
        with self.writing() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connection alone, open another at the next use."""
        leave_open([self._db])
        self._lock = threading.RLock()
        self._db = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            db, self._db = self._db, None
            if db is not None:
                with at_work:
                    db.close()


def _connected(path: str, url: str) -> apsw.Connection:
    make_private(path)
    db = apsw.Connection(path)
    try:
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        _pragma(db, "auto_vacuum = INCREMENTAL")  # of a new file
        _pragma(db, "journal_mode = WAL")
        for setting in ("synchronous = FULL", "trusted_schema = OFF", "secure_delete = FAST"):
            _pragma(db, setting)
        found = int(_pragma(db, "application_id") or 0)
        if found == 0:
            db.execute("BEGIN IMMEDIATE")
            if int(_pragma(db, "application_id") or 0) == 0:
                db.execute(_TABLES)
                db.execute("INSERT INTO meta VALUES ('url', ?)", (url,))
                _pragma(db, f"application_id = {APPLICATION_ID}")
                _pragma(db, f"user_version = {VERSION}")
            db.execute("COMMIT")
        elif found != APPLICATION_ID:
            raise LedgerError(f"{path} is another kind of file, not a spool; name another with spool=")
        version = int(_pragma(db, "user_version") or 0)
        if version > VERSION:
            raise FormatTooNew(
                f"{path} is a spool of format {version}; this program knows {VERSION}, upgrade it"
            )
    except BaseException:
        db.close()
        raise
    return db


def _settle(db: apsw.Connection, path: str) -> None:
    """Write what a doubtful log holds into the file, with syncs of their own; raises :class:`StorePoisoned`."""
    try:
        busy = next(iter(db.execute("PRAGMA wal_checkpoint(TRUNCATE)")))[0]
    except apsw.Error as error:
        db.close()
        raise StorePoisoned(
            f"an earlier commit to {path} is uncertain and cannot be settled ({error}); nothing was stored"
        ) from error
    if busy:
        db.close()
        raise StorePoisoned(f"an earlier commit to {path} is uncertain while others read it; try again")


def _pragma(db: apsw.Connection, text: str) -> Any:
    return next((row[0] for row in db.execute(f"PRAGMA {text}")), None)
