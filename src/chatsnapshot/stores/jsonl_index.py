"""The SQLite index beside a JSONL ledger: places of lines by position, id, correlation and cause; tiles; the head.

Everything here but the state of projections follows from the lines, and projections can be computed again: the file can
be deleted at any time. It is written in the same lock as the lines and committed after they are durable; ``head`` holds
the stamp that the last segment then had, and a stamp that does not match makes the store read the lines again.
"""

from __future__ import annotations

import array
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import apsw

from chatsnapshot.integrity import TILE_HASHES, Tile
from chatsnapshot.jsonvalue import blob_digests
from chatsnapshot.stores.base import Head, Row
from chatsnapshot.stores.hanging import children_query, hangs_late
from chatsnapshot.stores.jsonl_file import Stamp
from chatsnapshot.stores.jsonl_scan import Damage
from chatsnapshot.stores.jsonl_segments import Place

__all__ = ["IndexHead", "JsonlIndex", "Sealed", "connect", "transaction"]

APPLICATION_ID = 0x43534A31  # "CSJ1"
VERSION = 2
_BUSY_TIMEOUT_MS = 30_000
_CACHE_KIB = 32_768
_CHECKPOINT_PAGES = 4_000

_TABLES = """
CREATE TABLE head (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  ledger_id TEXT NOT NULL,
  size INTEGER NOT NULL,
  frontier BLOB NOT NULL,
  recorded_at TEXT NOT NULL,
  segment INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE segment (
  number INTEGER PRIMARY KEY,
  first INTEGER NOT NULL,
  frontier BLOB NOT NULL,
  recorded_at TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE entry (
  position INTEGER PRIMARY KEY,
  event_id BLOB NOT NULL,
  correlation_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  causation_id BLOB,
  segment INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_event_id ON entry (event_id);
CREATE UNIQUE INDEX entry_correlation ON entry (correlation_id, sequence);
CREATE INDEX entry_child ON entry (causation_id) WHERE sequence = 1 AND causation_id IS NOT NULL;
CREATE INDEX entry_late ON entry (causation_id) WHERE sequence > 1 AND causation_id IS NOT NULL;
CREATE TABLE tile (
  level INTEGER NOT NULL,
  number INTEGER NOT NULL,
  hashes BLOB NOT NULL,
  PRIMARY KEY (level, number)
) STRICT;
CREATE TABLE damage (
  segment INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  position INTEGER NOT NULL,
  until INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE TABLE erasing (record INTEGER NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (position, record))
  STRICT, WITHOUT ROWID;
CREATE TABLE blob_use (digest BLOB NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (digest, position))
  STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_position ON blob_use (position);
"""

_PROJECTIONS = """
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

_NAMES = (
    "head",
    "segment",
    "entry",
    "tile",
    "damage",
    "erasing",
    "blob_use",
    "projection",
    "projection_state",
)
_CHILDREN = children_query("entry", "{of}.sequence > 1")
_INSERT = "INSERT INTO entry VALUES (?,?,?,?,?,?,?,?)"
_PLACE = "position, segment, offset, length"


class IndexHead(NamedTuple):
    """What the index knows as committed, and how the last segment looked then."""

    ledger_id: str
    head: Head
    segment: int
    bytes: int
    mtime_ns: int

    def matches(self, stamp: Stamp | None) -> bool:
        """Whether the last segment is still as it was."""
        return stamp is not None and (self.bytes, self.mtime_ns) == stamp[1:]


class Sealed(NamedTuple):
    """A segment: its first position, and the head in front of it."""

    number: int
    first: int
    frontier: bytes
    recorded_at: str
    bytes: int
    mtime_ns: int


def connect(path: str, *, write: bool) -> apsw.Connection:
    """A connection to an index file; for writing it is made when it is missing. Raises apsw errors."""
    if write:
        try:
            # Made here so that only its owner can read it; never opened again this way, which would drop locks.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise apsw.CantOpenError(str(error)) from error
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    db = apsw.Connection(path, flags | apsw.SQLITE_OPEN_NOMUTEX)
    try:
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}; PRAGMA trusted_schema=OFF")
        if write:
            db.execute("PRAGMA journal_mode=WAL")
            # NORMAL: after a loss of power it is older, never inconsistent; then the lines are read again.
            db.execute(
                f"PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON; PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}"
            )
            keep = array.array("i", [1])
            db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, keep.buffer_info()[0])
        else:
            db.execute("PRAGMA query_only=ON")
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[None]:
    """What happens inside is committed together, or not at all; nests."""
    if db.getautocommit():
        # At once for writing: SQLite would not wait for the lock of a process that is just being killed later on.
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        finally:
            if not db.getautocommit():
                db.execute("ROLLBACK")
    else:
        with db:
            yield


class JsonlIndex:
    """The statements of the index, over a connection that the caller holds."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db

    # --- the whole ---

    def usable(self) -> bool:
        """Whether this is an index of this version."""
        db = self.db
        return bool(
            db.execute("PRAGMA application_id").get == APPLICATION_ID
            and db.execute("PRAGMA user_version").get == VERSION
        )

    def make(self) -> None:
        """Make all tables anew, in the caller's transaction."""
        known = [name for (name,) in self.db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for name in known:
            if name in _NAMES:
                self.db.execute(f"DROP TABLE {name}")
        self.db.execute(_TABLES + _PROJECTIONS)
        self.db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        self.db.execute(f"PRAGMA user_version={VERSION}")

    def head(self) -> IndexHead | None:
        """What is committed, or ``None`` before the first commit of the index."""
        found = self.db.execute(
            "SELECT ledger_id, size, frontier, recorded_at, segment, bytes, mtime_ns FROM head"
        ).fetchone()
        if found is None:
            return None
        ledger_id, size, frontier, recorded_at, segment, length, mtime_ns = found
        return IndexHead(ledger_id, Head(size, frontier, recorded_at), segment, length, mtime_ns)

    def set_head(self, ledger_id: str, head: Head, segment: int, stamp: Stamp) -> None:
        """State what is committed."""
        self.db.execute(
            "INSERT OR REPLACE INTO head VALUES (1,?,?,?,?,?,?,?)",
            (ledger_id, *head, segment, stamp.bytes, stamp.mtime_ns),
        )

    def cut(self, segment: int, first: int) -> None:
        """Forget a segment and all after it; ``first`` is its first position."""
        db = self.db
        db.execute("DELETE FROM segment WHERE number >= ?", (segment,))
        db.execute("DELETE FROM damage WHERE segment >= ?", (segment,))
        for table in ("entry", "blob_use"):
            db.execute(f"DELETE FROM {table} WHERE position >= ?", (first,))
        db.execute("DELETE FROM erasing WHERE record >= ?", (first,))
        highest = db.execute("SELECT coalesce(max(level), -1) FROM tile").get
        for level in range(int(highest) + 1):
            full = (first - 1) // TILE_HASHES ** (level + 1)
            db.execute("DELETE FROM tile WHERE level = ? AND number >= ?", (level, full))

    def segments(self) -> list[Sealed]:
        """Every segment, in order."""
        return [
            Sealed(*found)
            for found in self.db.execute(
                "SELECT number, first, frontier, recorded_at, bytes, mtime_ns FROM segment ORDER BY number"
            )
        ]

    def add_segment(self, segment: Sealed) -> None:
        """A segment begins."""
        self.db.execute("INSERT OR REPLACE INTO segment VALUES (?,?,?,?,?,?)", segment)

    def restamp(self, number: int, stamp: Stamp) -> None:
        """A segment was sealed, or changed by an erasure."""
        self.db.execute(
            "UPDATE segment SET bytes = ?, mtime_ns = ? WHERE number = ?",
            (stamp.bytes, stamp.mtime_ns, number),
        )

    # --- entries ---

    def add(self, rows: Sequence[Row], segment: int, offset: int, lengths: Sequence[int]) -> None:
        """Rows whose lines stand one after another from ``offset``."""
        places: list[tuple[object, ...]] = []
        for row, length in zip(rows, lengths, strict=False):
            cause = row[8] if row[1] == 1 or hangs_late(row[4], row[1], row[8]) else None
            places.append((row[0], row[3], row[7], row[1], cause, segment, offset, length))
            offset += length
        if len(places) == 1:
            self.db.execute(_INSERT, places[0])
        else:
            self.db.executemany(_INSERT, places)
        for row in rows:
            payload = row[9]
            if payload is not None and b"$blob" in payload:
                self.use_blobs(row[0], blob_digests(payload))

    def add_tiles(self, tiles: Iterable[Tile]) -> None:
        """Tiles that became full."""
        self.db.executemany("INSERT OR REPLACE INTO tile VALUES (?,?,?)", tiles)

    def tile(self, level: int, number: int) -> bytes | None:
        """A full tile."""
        found = self.db.execute("SELECT hashes FROM tile WHERE level = ? AND number = ?", (level, number)).get
        return None if found is None else bytes(found)

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation; 0 when it is new."""
        found = self.db.execute(
            "SELECT sequence FROM entry WHERE correlation_id = ? ORDER BY sequence DESC LIMIT 1",
            (correlation_id,),
        ).get
        return 0 if found is None else int(found)

    def places(self, low: int, high: int, limit: int, *, reverse: bool = False) -> list[Place]:
        """Where the entries with low < position <= high are."""
        order = "DESC" if reverse else "ASC"
        return list(
            map(
                Place._make,
                self.db.execute(
                    f"SELECT {_PLACE} FROM entry WHERE position > ? AND position <= ? "
                    f"ORDER BY position {order} LIMIT ?",
                    (low, high, limit),
                ),
            )
        )

    def members(
        self, correlation_id: str, low: int, high: int, hint: int | None, limit: int, *, reverse: bool
    ) -> list[Place]:
        """The same for one correlation; ``hint`` is the sequence to go on from."""
        order, compare = ("DESC", "<") if reverse else ("ASC", ">")
        start = hint if hint is not None else (1 << 62 if reverse else 0)
        return list(
            map(
                Place._make,
                self.db.execute(
                    f"SELECT {_PLACE} FROM entry WHERE correlation_id = ? AND sequence {compare} ? "
                    f"AND position > ? AND position <= ? ORDER BY sequence {order} LIMIT ?",
                    (correlation_id, start, low, high, limit),
                ),
            )
        )

    def known(self, event_ids: Iterable[bytes]) -> list[Place]:
        """Where the events with these ids are, in order."""
        found: list[Place] = []
        for event_id in event_ids:
            row = self.db.execute(f"SELECT {_PLACE} FROM entry WHERE event_id = ?", (event_id,)).fetchone()
            if row is not None:
                found.append(Place(*row))
        return sorted(set(found))

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        return [found for found, _ in self.db.execute(_CHILDREN, (correlation_id,))]

    # --- damage, erasing, blobs ---

    def add_damage(self, segment: int, damage: Damage) -> None:
        """Lines that cannot be read, or are missing."""
        self.db.execute(
            "INSERT INTO damage VALUES (?,?,?,?,?)",
            (segment, damage.offset, damage.position, damage.until, damage.reason),
        )

    def damages(self, low: int = 0, high: int = 1 << 62) -> Iterator[tuple[int, Damage]]:
        """Damage that concerns low < position <= high, with its segment, in order."""
        for segment, offset, position, until, reason in self.db.execute(
            "SELECT segment, offset, position, until, reason FROM damage "
            "WHERE max(position, until) > ? AND position <= ? ORDER BY position, offset",
            (low, high),
        ):
            yield segment, Damage(position, until, offset, 0, reason)

    def add_erasing(self, record: int, positions: Iterable[int]) -> None:
        """A record names these positions; it stays here until their payloads are gone."""
        self.db.executemany(
            "INSERT OR IGNORE INTO erasing VALUES (?,?)", [(record, position) for position in positions]
        )

    def erasing(self) -> list[int]:
        """Positions whose payload must go."""
        return [found for (found,) in self.db.execute("SELECT DISTINCT position FROM erasing ORDER BY 1")]

    def is_erasing(self, position: int) -> bool:
        """Whether the payload at this position must go, or is just going."""
        return self.db.execute("SELECT 1 FROM erasing WHERE position = ?", (position,)).get is not None

    def erased(self, positions: Iterable[int]) -> list[bytes]:
        """The payloads at these positions are gone; gives the blobs that nobody names any more."""
        unused: list[bytes] = []
        for position in positions:
            named: list[tuple[bytes]] = self.db.execute(  # type: ignore[assignment]
                "SELECT digest FROM blob_use WHERE position = ?", (position,)
            ).fetchall()
            self.db.execute("DELETE FROM blob_use WHERE position = ?", (position,))
            self.db.execute("DELETE FROM erasing WHERE position = ?", (position,))
            unused += [digest for (digest,) in named if not self.users(digest)]
        return unused

    def use_blobs(self, position: int, digests: Iterable[bytes]) -> None:
        """The entry names these blobs."""
        self.db.executemany(
            "INSERT OR IGNORE INTO blob_use VALUES (?,?)", [(digest, position) for digest in digests]
        )

    def users(self, digest: bytes) -> int:
        """How many unerased entries name a blob."""
        found: int = self.db.execute("SELECT count(*) FROM blob_use WHERE digest = ?", (digest,)).get
        return found
