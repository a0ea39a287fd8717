"""The index of a search: an SQLite file beside the ledger that follows from its entries and can be deleted.

It is caught up at each search, from the position that it has read to. What is erased in the ledger leaves it at once, or
at the next search where that was not possible: rows, words and the pages that held them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import apsw

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.fields import payload_of
from chatsnapshot.projections.lines import who
from chatsnapshot.projections.search.words import apart, words_of
from chatsnapshot.stores.base import Query, Row
from chatsnapshot.stores.matching import matcher

__all__ = ["APPLICATION_ID", "Index", "Line", "connect"]

APPLICATION_ID = 0x43535331  # "CSS1"
VERSION = 1
_BATCH = 1_000
_BUSY_TIMEOUT_MS = 30_000
_ERASED = "ledger.payload_erased"

_TABLES = """
CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  ledger_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  leaf BLOB NOT NULL
) STRICT;
CREATE TABLE event (
  position INTEGER PRIMARY KEY,
  event_id BLOB NOT NULL,
  event_type TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  source TEXT NOT NULL,
  correlation_id TEXT NOT NULL,
  causation_id BLOB,
  attributes TEXT,
  who TEXT
) STRICT;
CREATE VIRTUAL TABLE words USING fts5(text, tokenize="unicode61 remove_diacritics 2");
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
"""
_WIPE = "DROP TABLE IF EXISTS state; DROP TABLE IF EXISTS event; DROP TABLE IF EXISTS words;"
_FOUND = """
SELECT event.position, 0, '', event_id, event_type, timestamp, source, correlation_id, causation_id, NULL, NULL,
  attributes, who, words.rank
FROM words JOIN event ON event.position = words.rowid
WHERE words MATCH ?1 AND words.rowid > ?2 AND words.rowid <= ?3 AND (?4 IS NULL OR correlation_id = ?4)
"""
_ORDERS = {"best": " ORDER BY words.rank, words.rowid DESC", "newest": " ORDER BY words.rowid DESC"}

Line = tuple[Any, ...]
"""Columns 0 to 11 of a row as a store has it, then who acted and the rank (the smaller the better)."""


def connect(path: str, *, write: bool) -> apsw.Connection:
    """A connection to an index; ``:memory:`` is one for this process alone. Raises apsw errors."""
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    db = apsw.Connection(path, flags | (apsw.SQLITE_OPEN_CREATE if path == ":memory:" else 0))
    try:
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        # What is deleted is overwritten; a journal that is emptied at each commit keeps no copy of it either.
        db.execute("PRAGMA secure_delete=ON; PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY")
        if write and Index(db).is_ours():
            db.execute("PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=NORMAL").fetchall()
    except BaseException:
        db.close()
        raise
    return db


class Index:
    """The statements of an index, over a connection that the caller holds."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db

    def is_ours(self) -> bool:
        """Whether the file is an index, or empty; any other file is left alone."""
        found = self.db.execute("PRAGMA application_id").get
        tables = self.db.execute("SELECT count(*) FROM sqlite_schema").get
        return bool(found == APPLICATION_ID or not tables)

    def stands_at(self, ledger: Any) -> int | None:
        """The position that it has read to; ``None`` when it is not one of this history and must be made anew."""
        db = self.db
        if (
            db.execute("PRAGMA application_id").get != APPLICATION_ID
            or db.execute("PRAGMA user_version").get != VERSION
        ):
            return None
        found = db.execute("SELECT ledger_id, position, leaf FROM state").fetchone()
        if found is None:
            return 0
        ledger_id, position, leaf = found
        if ledger_id != ledger.ledger_id or position > ledger.head:
            return None
        entry = next(iter(ledger.read(after=position - 1, until=position)), None)
        return position if entry is not None and entry.leaf == leaf else None

    def catch_up(self, ledger: Any) -> int:
        """Read on to the head of the ledger, a batch in each transaction; gives the position."""
        while True:
            at = self.stands_at(ledger)
            if at is not None and at >= ledger.head:
                return at
            erased = False
            with _transaction(self.db):
                at = self.stands_at(ledger)  # another process may have been faster
                if at is None:
                    self._make()
                    at = 0
                entries = list(islice(ledger.read(after=at), _BATCH))
                for entry in entries:
                    erased |= self._take(entry)
                if entries:
                    last = entries[-1]
                    self.db.execute(
                        "INSERT OR REPLACE INTO state VALUES (1,?,?,?)",
                        (ledger.ledger_id, last.position, last.leaf),
                    )
            if erased:
                self._merge()

    def _make(self) -> None:
        self.db.execute(_WIPE + _TABLES)
        self.db.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION}")

    def _take(self, entry: LedgerEntry) -> bool:
        """Take in an entry; true when it made others leave."""
        db = self.db
        text = words_of(entry)
        if text:
            db.execute("INSERT INTO words (rowid, text) VALUES (?,?)", (entry.position, apart(text)))
            db.execute(
                "INSERT OR REPLACE INTO event VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    entry.position,
                    entry.event_key,
                    entry.event_type,
                    entry.timestamp,
                    entry.source_json,
                    entry.correlation_id,
                    entry.causation_key,
                    entry.attributes_json,
                    who(entry, payload_of(entry)),
                ),
            )
        if entry.event_type != _ERASED or entry.payload_json is None:
            return False
        positions = payload_of(entry).get("positions")
        return self._drop(positions if isinstance(positions, list) else ())

    def _drop(self, positions: Iterable[object]) -> bool:
        """Take out what stands at these positions; true when there was something."""
        left = False
        for position in positions:
            if isinstance(position, int):
                self.db.execute("DELETE FROM words WHERE rowid = ?", (position,))
                left |= self.db.changes() > 0
                self.db.execute("DELETE FROM event WHERE position = ?", (position,))
        return left

    def _merge(self) -> None:
        """Merge all words into one segment, in which nothing of a deleted row is left."""
        self.db.execute("INSERT INTO words (words) VALUES ('optimize')")

    def forget(self, positions: Iterable[int]) -> None:
        """Take out what stands at these positions, for good."""
        if self.db.execute("PRAGMA application_id").get == APPLICATION_ID:
            with _transaction(self.db):
                left = self._drop(positions)
            if left:
                self._merge()

    def find(
        self, expression: str, query: Query, after: int, until: int, limit: int, order: str
    ) -> list[Line]:
        """The lines that match, best or newest first."""
        matches = matcher(query)
        bound = (expression, after, until, query.correlation_id)
        found: list[Line] = []
        for line in self.db.execute(_FOUND + _ORDERS[order], bound):
            row: Row = line
            if matches(row):
                found.append(line)
                if len(found) == limit:
                    break
        return found

    def snippet(self, expression: str, position: int, words: int) -> str:
        """About so many words around the hits at a position, each hit between U+E000 and U+E001."""
        sql = "SELECT snippet(words, 0, '\ue000', '\ue001', '…', ?3) FROM words WHERE words MATCH ?1 AND rowid = ?2"
        return str(self.db.execute(sql, (expression, position, words)).get or "")


@contextmanager
def _transaction(db: apsw.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if not db.getautocommit():
            db.execute("ROLLBACK")
