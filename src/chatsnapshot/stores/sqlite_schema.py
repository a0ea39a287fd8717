"""The SQLite schema of ledger format 1, and the connections to it."""

from __future__ import annotations

import array
import os
from urllib.parse import quote

import apsw

from chatsnapshot.clock import time_text
from chatsnapshot.errors import Corrupt, FormatTooNew, NotFound
from chatsnapshot.stores.identity import new_identity
from chatsnapshot.stores.sqlite_views import make_views

__all__ = ["APPLICATION_ID", "FORMAT", "Names", "connect", "create", "is_immutable", "ledger_id"]

APPLICATION_ID = 0x43534C31  # "CSL1"
FORMAT = 1
BUSY_TIMEOUT_MS = 30_000
CACHE_KIB = 65_536
CHECKPOINT_PAGES = 4_000
WAL_BYTES_KEPT = 64 * 1024 * 1024

_TABLES = """
CREATE TABLE {entry} (
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
CREATE UNIQUE INDEX {entry_event_id} ON {entry} (event_id);
CREATE UNIQUE INDEX {entry_correlation} ON {entry} (correlation_id, sequence);
CREATE INDEX {entry_type} ON {entry} (event_type, position);
CREATE INDEX {entry_child} ON {entry} (causation_id) WHERE sequence = 1 AND causation_id IS NOT NULL;

CREATE TABLE {head} (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  size INTEGER NOT NULL,
  frontier BLOB NOT NULL,
  recorded_at TEXT NOT NULL
) STRICT;
INSERT INTO {head} VALUES (1, 0, x'', '');

CREATE TABLE {tile} (
  level INTEGER NOT NULL,
  number INTEGER NOT NULL,
  hashes BLOB NOT NULL,
  PRIMARY KEY (level, number)
) STRICT;

CREATE TABLE {blob} (digest BLOB PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;
CREATE TABLE {blob_part} (
  digest BLOB NOT NULL,
  part INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (digest, part)
) STRICT;
CREATE TABLE {blob_use} (
  digest BLOB NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (digest, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX {blob_use_position} ON {blob_use} (position);

CREATE TABLE {projection} (
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,
  leaf BLOB NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE {projection_state} (
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  key TEXT NOT NULL,
  state BLOB NOT NULL,
  PRIMARY KEY (name, version, key)
) STRICT;
"""

_LATE_INDEX = """CREATE INDEX {entry_late} ON {entry} (causation_id)
  WHERE event_type = 'execution.run_started' AND sequence > 1 AND causation_id IS NOT NULL"""

_TRIGGERS = (
    """CREATE TRIGGER {entry_append} BEFORE INSERT ON {entry}
WHEN new.position IS NOT (SELECT coalesce(max(position), 0) + 1 FROM {entry})
  OR EXISTS (SELECT 1 FROM {entry} WHERE event_id = new.event_id)
  OR EXISTS (SELECT 1 FROM {entry} WHERE correlation_id = new.correlation_id AND sequence = new.sequence)
BEGIN SELECT raise(ABORT, 'append only: an entry goes to the next position, with a new id and sequence'); END""",
    """CREATE TRIGGER {entry_fixed} BEFORE UPDATE OF position, event_id, correlation_id, sequence, event_type, timestamp,
  recorded_at, source, causation_id, schema_version, attributes, leaf, commitment, payload_bytes ON {entry}
BEGIN SELECT raise(ABORT, 'append only: a recorded entry is never changed'); END""",
    """CREATE TRIGGER {entry_erase} BEFORE UPDATE OF payload, salt ON {entry}
WHEN new.payload IS NOT NULL OR new.salt IS NOT NULL
BEGIN SELECT raise(ABORT, 'append only: a payload can be erased, never replaced'); END""",
    """CREATE TRIGGER {entry_kept} BEFORE DELETE ON {entry}
BEGIN SELECT raise(ABORT, 'append only: an entry is never removed'); END""",
    """CREATE TRIGGER {head_forward} BEFORE UPDATE ON {head} WHEN new.id <> 1 OR new.size < old.size
BEGIN SELECT raise(ABORT, 'append only: the head never goes back'); END""",
    """CREATE TRIGGER {head_one} BEFORE INSERT ON {head}
BEGIN SELECT raise(ABORT, 'append only: there is one head'); END""",
    """CREATE TRIGGER {tile_once} BEFORE INSERT ON {tile}
WHEN EXISTS (SELECT 1 FROM {tile} WHERE level = new.level AND number = new.number)
BEGIN SELECT raise(ABORT, 'append only: a full tile is never replaced'); END""",
    """CREATE TRIGGER {head_kept} BEFORE DELETE ON {head}
BEGIN SELECT raise(ABORT, 'append only: the head is never removed'); END""",
    """CREATE TRIGGER {tile_fixed} BEFORE UPDATE ON {tile}
BEGIN SELECT raise(ABORT, 'append only: a full tile is never changed'); END""",
    """CREATE TRIGGER {tile_kept} BEFORE DELETE ON {tile}
BEGIN SELECT raise(ABORT, 'append only: a full tile is never removed'); END""",
)

_DATABASE = """
CREATE TABLE IF NOT EXISTS ledger (
  name TEXT PRIMARY KEY,
  ledger_id TEXT NOT NULL,
  format INTEGER NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
"""


class Names(dict[str, str]):
    """Quoted names of one ledger's tables: plain for ``main``, ``table@name`` for every other ledger of the file."""

    def __init__(self, ledger: str) -> None:
        super().__init__()
        self.suffix = "" if ledger == "main" else f"@{ledger}"

    def __missing__(self, key: str) -> str:
        name = self[key] = f'"{key}{self.suffix}"'
        return name


def connect(path: str, *, write: bool, durability: str = "full") -> apsw.Connection:
    """Open one connection to an existing file (or, for writing, a new one), with everything set as the format asks.

    Raises apsw errors, :class:`FormatTooNew` and :class:`Corrupt`.
    """
    if write:
        _make_private(path)
        db = apsw.Connection(
            path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
        )
    else:
        db = _read_only(path)
    try:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        _check(db, path)
        db.execute(f"PRAGMA cache_size=-{CACHE_KIB}; PRAGMA trusted_schema=OFF")
        if write:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")
            db.execute("PRAGMA fullfsync=ON; PRAGMA checkpoint_fullfsync=ON")
            # From the first write on: a page that is split must leave no copy behind of what is erased later.
            db.execute("PRAGMA secure_delete=ON")
            db.execute(
                f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}; PRAGMA journal_size_limit={WAL_BYTES_KEPT}"
            )
            keep = array.array("i", [1])
            db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, keep.buffer_info()[0])
        else:
            db.execute("PRAGMA query_only=ON")
    except BaseException:
        db.close()
        raise
    return db


def _make_private(path: str) -> None:
    """Make a missing file so that only its owner can read it; SQLite gives its log the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600))
    except FileExistsError:
        pass  # never opened this way when it is there: closing it would drop the locks that SQLite holds
    except OSError as error:
        raise apsw.CantOpenError(str(error)) from error


def _read_only(path: str) -> apsw.Connection:
    """Open without write permission; when no log lies beside the file, nothing can change under the reader."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOMUTEX
    db = apsw.Connection(path, flags)
    try:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        return db
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        db.close()
        log = path + "-wal"
        if os.path.exists(log) and os.path.getsize(log) > 0:
            raise
        return apsw.Connection(
            f"file:{quote(os.path.abspath(path))}?immutable=1", flags | apsw.SQLITE_OPEN_URI
        )


def is_immutable(db: apsw.Connection) -> bool:
    """Whether a connection takes the file for one that nobody changes: good for one look, and stale after it."""
    return bool(db.open_flags & apsw.SQLITE_OPEN_URI)


def _check(db: apsw.Connection, path: str) -> None:
    """Refuse files that are no ledger or too new, before anything is changed."""
    application = db.execute("PRAGMA application_id").get
    found = db.execute("PRAGMA user_version").get
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if tables and application != APPLICATION_ID:
        raise Corrupt(f"{path} is an SQLite database, but not a ChatSnapshot ledger; give another path")
    if found > FORMAT:
        raise FormatTooNew(
            f"{path} has ledger format {found}, and this version reads up to {FORMAT}; upgrade chatsnapshot"
        )


def create(db: apsw.Connection, ledger: str, now_ns: int, identity: str = "") -> str:
    """Make the ledger's tables when they are not there; gives the ledger's id. The caller holds the file lock.

    ``identity`` is what a ledger that is made is made with; without one it gets an id of its own.
    """
    known = _known_id(db, ledger)
    if known is not None:
        return known
    db.execute("BEGIN IMMEDIATE")
    try:
        if db.execute("PRAGMA application_id").get != APPLICATION_ID:
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={FORMAT}")
        db.execute(_DATABASE)
        names = Names(ledger)
        db.execute(_TABLES.format_map(names))
        db.execute(_LATE_INDEX.format_map(names))
        for trigger in _TRIGGERS:
            db.execute(trigger.format_map(names))
        make_views(db, names)
        made = new_identity(identity)
        db.execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", (ledger, made, FORMAT, time_text(now_ns)))
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    return made


def complete(db: apsw.Connection, ledger: str) -> None:
    """Give a ledger that was made earlier what came later: views, an index. The caller holds the file lock.

    Where the file cannot be written now, the ledger stays as it is: it is read as before, an index only makes it faster.
    """
    names = Names(ledger)
    wanted = {
        kind: names[name].strip('"') for kind, name in (("view", "ledger_runs"), ("index", "entry_late"))
    }
    there = set(db.execute("SELECT type, name FROM sqlite_schema WHERE name IN (?, ?)", (*wanted.values(),)))
    missing = [kind for kind, name in wanted.items() if (kind, name) not in there]
    if not missing:
        return
    try:
        db.execute("BEGIN IMMEDIATE")
        try:
            if "view" in missing:
                make_views(db, names)
            if "index" in missing:
                db.execute(_LATE_INDEX.format_map(names))
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
    except (apsw.ReadOnlyError, apsw.BusyError, apsw.FullError):
        pass


def _known_id(db: apsw.Connection, ledger: str) -> str | None:
    if not db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ledger'").get:
        return None
    known = db.execute("SELECT ledger_id FROM ledger WHERE name = ?", (ledger,)).get
    return None if known is None else str(known)


def ledger_id(db: apsw.Connection, ledger: str, path: str) -> str:
    """The id of an existing ledger; raises :class:`NotFound`."""
    known = _known_id(db, ledger)
    if known is not None:
        return known
    raise NotFound(f"no ledger {ledger!r} in {path}; record something there first, or check the name")
