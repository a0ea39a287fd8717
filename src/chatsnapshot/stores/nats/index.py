"""The local index of a ledger on NATS: a copy of its entries with sealed payloads, tiles, and the state of projections.

All of it follows from the stream, or can be computed again: the file can be deleted at any time. It is shared by the
processes of a user; each adds what it has read, in one transaction for whole commits. No key is ever in it.

What this process has committed itself comes in a moment later (:meth:`Index.add_later`): the stream has it, and the
caller need not wait. Whoever looks into the index adds first what is still to come.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import apsw

from chatsnapshot.errors import LedgerError
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Head, Row
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.planning import Plan
from chatsnapshot.stores.sqlite_read import COLUMNS, ReaderPool, one_snapshot
from chatsnapshot.stores.sqlite_schema import Names
from chatsnapshot.stores.sqlite_write import SqliteWriter

__all__ = ["NAMES", "Added", "Index", "index_path"]

APPLICATION_ID = 0x43534E31  # "CSN1"
VERSION = 2
NAMES = Names("main")
_BUSY_TIMEOUT_MS = 30_000
_CACHE_KIB = 32_768

_TABLES = """
CREATE TABLE ledger (id INTEGER PRIMARY KEY CHECK (id = 1), ledger_id TEXT NOT NULL) STRICT;
CREATE TABLE head (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  size INTEGER NOT NULL,
  frontier BLOB NOT NULL,
  recorded_at TEXT NOT NULL
) STRICT;
INSERT INTO head VALUES (1, 0, x'', '');
CREATE TABLE entry (
  position INTEGER PRIMARY KEY,
  event_id BLOB NOT NULL,
  correlation_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  recorded_at TEXT NOT NULL,
  source TEXT NOT NULL,
  causation_id BLOB,
  schema_version INTEGER,
  attributes TEXT,
  leaf BLOB NOT NULL,
  commitment BLOB NOT NULL,
  payload_bytes INTEGER NOT NULL,
  salt BLOB,
  payload BLOB
) STRICT;
CREATE UNIQUE INDEX entry_event_id ON entry (event_id);
CREATE UNIQUE INDEX entry_correlation ON entry (correlation_id, sequence);
CREATE INDEX entry_type ON entry (event_type, position);
CREATE INDEX entry_child ON entry (causation_id) WHERE sequence = 1 AND causation_id IS NOT NULL;
CREATE INDEX entry_late ON entry (causation_id)
  WHERE event_type = 'execution.run_started' AND sequence > 1 AND causation_id IS NOT NULL;
CREATE TABLE tile (
  level INTEGER NOT NULL,
  number INTEGER NOT NULL,
  hashes BLOB NOT NULL,
  PRIMARY KEY (level, number)
) STRICT;
CREATE TABLE blob_use (digest BLOB NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (digest, position))
  STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_position ON blob_use (position);
CREATE TABLE erasing (position INTEGER PRIMARY KEY, key BLOB NOT NULL, parts INTEGER NOT NULL) STRICT;
CREATE TABLE unused_blob (digest BLOB PRIMARY KEY) STRICT;
CREATE TABLE projection (
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,
  leaf BLOB NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE projection_state (
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  key TEXT NOT NULL,
  state BLOB NOT NULL,
  PRIMARY KEY (name, version, key)
) STRICT;
"""


class Added(NamedTuple):
    """A commit for the index."""

    made: Plan
    """With rows as the index keeps them: payload sealed, place of the key as salt."""
    uses: Sequence[tuple[int, Sequence[bytes]]]
    """Positions and the blobs that they name."""
    erases: Sequence[int]
    """Positions whose payload it erases."""


def index_path(wanted: str | None, ledger_id: str) -> str | None:
    """Where the index is kept: what ``index=`` names, else the user's cache; ``None`` for nowhere on disk."""
    if wanted == "memory":
        return None
    if wanted:
        return os.path.abspath(wanted)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "chatsnapshot", "nats", f"{ledger_id}.db")


class Index:
    """One handle's connections to the index. Writing happens on the loop of the store, reading on any thread."""

    def __init__(self, path: str | None, ledger_id: str, limits: Limits) -> None:
        self.path = path
        self.ledger_id = ledger_id
        self.writer = SqliteWriter(NAMES, limits)
        self._pool = ReaderPool()
        self._mutex = threading.RLock()
        self._late: list[Added] = []
        self._db = self._opened()

    @property
    def on_disk(self) -> bool:
        """Whether other handles and later processes share it."""
        return self.path is not None

    def _opened(self) -> apsw.Connection:
        """The writing connection; a file that is no index of this ledger is made anew. Raises apsw errors."""
        with at_work:
            if self.path is None:
                # A temporary file that SQLite removes: it takes memory for small ledgers only.
                db = apsw.Connection("")
                with _transaction(db):
                    _make(db, self.ledger_id)
                return db
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            try:
                return _connected(self.path, self.ledger_id)
            except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError, apsw.ConstraintError):
                _expect_own(self.path)
                remove_files(self.path)
                return _connected(self.path, self.ledger_id)

    def make_again(self) -> None:
        """Forget everything: the file was damaged, or does not agree with the stream."""
        with at_work, self._mutex:
            self._late = []  # the stream has them
            old, self._pool = self._pool, ReaderPool()
            old.close()
            try:
                self._db.close(force=True)
            except apsw.Error:
                leave_open([self._db])
            if self.path is not None:
                remove_files(self.path)
            self._db = self._opened()

    # --- what is still to come ---

    def add_later(self, added: Added) -> None:
        """Take a commit that is durable in the stream and follows the head; it is added by the next who looks."""
        with self._mutex:
            self._late.append(added)

    @property
    def late_head(self) -> Head | None:
        """The head with what is still to come; ``None`` when nothing is, and the head is that of the file."""
        late = self._late
        return Head(*late[-1].made.tree.head(), late[-1].made.recorded_at) if late else None

    @property
    def late_rows(self) -> int:
        """How many entries are still to come."""
        return sum(len(added.made.rows) for added in self._late)

    def add_late(self) -> None:
        """Add what is still to come, on any thread, in one transaction. Raises apsw errors; then the stream has it."""
        with at_work, self._mutex:
            if not self._late:
                return
            try:
                with _transaction(self._db) as db:
                    for added in self._late:
                        # Another process may have read it from the stream already.
                        if self.writer.head(db).size == added.made.rows[0][0] - 1:
                            self._add(db, added)
            finally:
                self._late = []

    def _add(self, db: apsw.Connection, added: Added) -> None:
        try:
            self.writer.write(db, added.made)
        except apsw.ConstraintError as error:
            raise apsw.CorruptError(str(error)) from None  # the stream knows better
        for position, digests in added.uses:
            use_blobs(db, position, digests)
        if added.erases:
            self.add_erasing(db, added.erases)

    # --- connections ---

    @contextmanager
    def looking(self) -> Iterator[apsw.Connection]:
        """The writing connection, for statements of the loop that change nothing."""
        with at_work, self._mutex:
            self.add_late()
            yield self._db

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """A write transaction: what happens inside is committed together, or not at all."""
        with at_work, self._mutex:
            self.add_late()
            with _transaction(self._db) as db:
                yield db

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """One snapshot, on any thread."""
        if self._late:
            self.add_late()
        if self.path is None:
            with at_work, self._mutex, one_snapshot(self._db):
                yield self._db
            return
        with at_work:
            pool = self._pool
            db = pool.take() or _reader(self.path)
            try:
                with one_snapshot(db):
                    yield db
            except apsw.Error:
                db.close(force=True)
                raise
            except BaseException:
                pool.give(db)
                raise
            pool.give(db)

    # --- erasing ---

    def add_erasing(self, db: apsw.Connection, positions: Sequence[int]) -> None:
        """A record names these positions: their payloads are gone for readers; what is to be removed is noted."""
        for position in positions:
            found = db.execute("SELECT salt, payload FROM entry WHERE position = ?", (position,)).fetchone()
            if found is None or found[0] is None:
                continue
            parts = int.from_bytes(found[1][1:5], "big") if found[1][:1] == b"\x01" else 0
            db.execute("INSERT OR IGNORE INTO erasing VALUES (?, ?, ?)", (position, found[0], parts))
            db.execute("UPDATE entry SET salt = NULL, payload = NULL WHERE position = ?", (position,))
            named = db.execute("SELECT digest FROM blob_use WHERE position = ?", (position,)).fetchall()
            db.execute("DELETE FROM blob_use WHERE position = ?", (position,))
            for (digest,) in named:
                if not users(db, bytes(digest)):  # type: ignore[arg-type]
                    db.execute("INSERT OR IGNORE INTO unused_blob VALUES (?)", (digest,))

    def end(self) -> None:
        """Close all connections."""
        with at_work, self._mutex:
            self._pool.close()
            try:
                self.add_late()
                self._db.close(force=True)
            except apsw.Error:
                leave_open([self._db])

    def leave(self) -> None:
        """In a forked child: never use the parent's connections again, and never close them."""
        leave_open([self._db, self, *self._pool.leave()])


def users(db: apsw.Connection, digest: bytes) -> int:
    """How many unerased entries name a blob."""
    return int(db.execute("SELECT count(*) FROM blob_use WHERE digest = ?", (digest,)).get)


def use_blobs(db: apsw.Connection, position: int, digests: Sequence[bytes]) -> None:
    """An entry names these blobs."""
    db.executemany("INSERT OR IGNORE INTO blob_use VALUES (?, ?)", [(one, position) for one in digests])
    db.executemany("DELETE FROM unused_blob WHERE digest = ?", [(one,) for one in digests])


def row_at(db: apsw.Connection, position: int) -> Row | None:
    """The row at a position, sealed."""
    return db.execute(f"SELECT {COLUMNS} FROM entry WHERE position = ?", (position,)).fetchone()


def _connected(path: str, ledger_id: str) -> apsw.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600))
    except FileExistsError:
        pass  # never opened this way when it is there: closing it would drop the locks that SQLite holds
    db = apsw.Connection(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
    try:
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}; PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA journal_mode=WAL")
        # NORMAL: after a loss of power it is older, never inconsistent; then the stream is read on from there.
        db.execute("PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON; PRAGMA wal_autocheckpoint=4000")
        with _transaction(db):
            if not _usable(db, ledger_id):
                _make(db, ledger_id)
    except BaseException:
        db.close(force=True)
        raise
    return db


def _reader(path: str) -> apsw.Connection:
    db = apsw.Connection(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
    db.set_busy_timeout(_BUSY_TIMEOUT_MS)
    db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}; PRAGMA trusted_schema=OFF; PRAGMA query_only=ON")
    return db


def _usable(db: apsw.Connection, ledger_id: str) -> bool:
    if db.execute("PRAGMA application_id").get != APPLICATION_ID:
        if db.execute("SELECT count(*) FROM sqlite_schema").get:
            raise apsw.SQLError("another kind of database")
        return False
    if db.execute("PRAGMA user_version").get != VERSION:
        raise apsw.SQLError("another version")
    if db.execute("SELECT ledger_id FROM ledger").get != ledger_id:
        raise apsw.SQLError("another ledger")
    return True


def _make(db: apsw.Connection, ledger_id: str) -> None:
    db.execute(_TABLES)
    db.execute("INSERT INTO ledger VALUES (1, ?)", (ledger_id,))
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={VERSION}")


def _expect_own(path: str) -> None:
    """Never remove what somebody named by mistake: only files that say that they are an index."""
    with open(path, "rb") as file:
        begins = file.read(72)
    if begins[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise LedgerError(f"{path} is no index of a ledger on NATS; remove it, or name another with index=")


def remove_files(path: str) -> None:
    """Remove an index and what SQLite keeps beside it. Raises ``OSError``."""
    for name in (path, path + "-wal", path + "-shm"):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass


@contextmanager
def _transaction(db: apsw.Connection) -> Iterator[apsw.Connection]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    finally:
        if not db.getautocommit():
            db.execute("ROLLBACK")
