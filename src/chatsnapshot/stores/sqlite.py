"""The SQLite store (apsw): one file, many threads and processes, durable at every commit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import apsw

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import (
    CommitUncertain,
    Corrupt,
    LedgerClosed,
    LedgerError,
    NotFound,
    ReadOnly,
    StorePoisoned,
    StoreUnavailable,
)
from chatsnapshot.integrity import Tree
from chatsnapshot.limits import Limits
from chatsnapshot.stores import sqlite_schema
from chatsnapshot.stores.base import (
    Checkpoint,
    Draft,
    Finding,
    Group,
    Head,
    Outcome,
    Page,
    Query,
    Row,
    Traits,
)
from chatsnapshot.stores.clockwatch import ClockWatch
from chatsnapshot.stores.filelock import file_lock, interruptible
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.hanging import children_query
from chatsnapshot.stores.imports import check_rows, named_positions
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.planning import Plan, known_ids, plan
from chatsnapshot.stores.sqlite_errors import is_full, is_unwritten, mapped
from chatsnapshot.stores.sqlite_examine import examine
from chatsnapshot.stores.sqlite_read import ReaderPool, one_snapshot, read_page, rows_by_id
from chatsnapshot.stores.sqlite_write import SqliteWriter
from chatsnapshot.stores.statekeys import state_keys

__all__ = ["SqliteStore"]

_PARTS_AT_ONCE_BYTES = 4 * 1024 * 1024
_SEQUENCES_KEPT = 100_000


class SqliteStore:
    """A ledger in an SQLite file.

    Writers take the file lock, then ``BEGIN IMMEDIATE``; the next position is head + 1. Readers use connections of their
    own and hold no transaction between pages.
    """

    def __init__(
        self,
        url: str,
        path: str,
        ledger: str,
        *,
        create: bool,
        read_only: bool,
        durability: str,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
        identity: str = "",
    ) -> None:
        self.url = url
        self.path = path
        self.traits = Traits(
            name="sqlite", durable=durability == "full", processes=True, guarded=True, erases_in_commit=True
        )
        self._ledger = ledger
        self._names = sqlite_schema.Names(ledger)
        self._durability = durability
        self._read_only = read_only
        self._limits = limits
        self._watch = ClockWatch(clock, entropy)
        self._readers = ReaderPool()
        self._db: apsw.Connection | None = None
        self._writer = SqliteWriter(self._names, limits)
        self._tree = Tree()
        self._sequences: dict[str, int] = {}
        self._poisoned = False
        self._closed = False
        if not os.path.exists(path) and (read_only or not create):
            raise NotFound(f"no ledger at {path}; record something there first, or check the path")
        self._lock = None if read_only else file_lock(os.path.realpath(path) + ".lock")
        try:
            self.ledger_id = self._find(create, identity)
        except BaseException:
            self.close()
            raise

    def _find(self, create: bool, identity: str) -> str:
        """Open the file, make what is missing, and give the ledger's id."""
        if self._lock is None:
            with self._reading() as db:
                return sqlite_schema.ledger_id(db, self._ledger, self.path)
        try:
            with self._lock.held(), at_work:
                db = self._connected()
                if create:
                    found = sqlite_schema.create(db, self._ledger, time.time_ns(), identity)
                else:
                    found = sqlite_schema.ledger_id(db, self._ledger, self.path)
                sqlite_schema.complete(db, self._ledger)
                return found
        except apsw.Error as error:
            raise mapped(error, self.path) from error

    # --- writing ---

    def watch(self, wake: Callable[[], None]) -> None:
        """Gives no hints: a look at the head is cheap."""

    @interruptible
    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        with self._writing() as db:
            head = self._writer.head(db)
            self._follow(db, head)
            recorded_at, stamped = self._watch.stamp(head.recorded_at, groups)
            known = rows_by_id(db, self._names, known_ids(stamped))
            made = plan(
                stamped,
                self._tree,
                recorded_at,
                known,
                lambda correlation: self._writer.last_sequence(db, correlation),
                self._sequences,
            )
            if made.rows:
                self._writer.write(db, made)
                self._commit(db, made)
            return made.outcomes[: len(groups)]

    @interruptible
    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store the record and remove the payloads in one transaction, then scrub the log."""
        with self._writing() as db:
            head = self._writer.head(db)
            self._follow(db, head)
            recorded_at, groups = self._watch.stamp(head.recorded_at, [Group([record])])
            made = plan(
                groups,
                self._tree,
                recorded_at,
                rows_by_id(db, self._names, known_ids(groups)),
                lambda correlation: self._writer.last_sequence(db, correlation),
                self._sequences,
            )
            outcome = made.outcomes[0]
            if not isinstance(outcome, list):
                raise outcome
            if made.rows:
                self._writer.write(db, made)
            self._writer.erase(db, positions)
            self._commit(db, made)
            # Readers that hold an older snapshot keep the log from being emptied: the next checkpoint does it then.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return outcome[0]

    @interruptible
    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        if not rows:
            return
        with self._writing() as db:
            head = self._writer.head(db)
            self._follow(db, head)
            if rows[0][0] != head.size + 1:
                raise StoreUnavailable(
                    f"the next position of {self.path} is {head.size + 1}, not {rows[0][0]}; import from the head on"
                )
            users = check_rows(
                rows,
                head.recorded_at,
                lambda correlation: self._writer.last_sequence(db, correlation),
                lambda ids: rows_by_id(db, self._names, ids),
            )
            tree = self._tree.copy()
            tiles = tree.extend([row[12] for row in rows])
            made = Plan(list(rows), tiles, tree, rows[-1][2], [], [])
            self._writer.write(db, made)
            self._writer.import_blobs(db, users, blobs)
            erased = [position for row in rows for position in named_positions(row)]
            self._writer.erase(db, erased)
            self._sequences.clear()
            self._commit(db, made)
            if erased:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @interruptible
    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together, with compare-and-set."""
        with self._writing() as db:
            if self._writer.checkpoint(db, name, version) != before:
                return False
            self._writer.save_states(db, name, version, after, states)
            self._commit(db, None)
            return True

    @interruptible
    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""
        with self._writing() as db:
            self._writer.drop_states(db, name, version)
            self._commit(db, None)

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        """The lock, a sound connection and an open write transaction; what is not committed inside is rolled back."""
        if self._lock is None:
            raise ReadOnly(f"{self.path} was opened read-only; open it with read_only=False to record")
        hold = self._lock.held()
        with hold, at_work:
            try:
                db = self._connected()
                if db.in_transaction:  # Ctrl-C came before it could be rolled back
                    self._roll_back(db)
                    db = self._connected()
                db.execute("BEGIN IMMEDIATE")
                yield db
            except UnicodeDecodeError as error:
                raise self._no_text(error) from error
            except apsw.Error as error:
                self._sequences.clear()  # SQLite may have rolled back by itself, as it does when the disk is full
                raise mapped(error, self.path, self._db) from error
            finally:
                if hold.current:  # not when Ctrl-C ended this use, and it is finalised only now
                    self._undo()

    def _undo(self) -> None:
        left = self._db
        if left is not None and left.in_transaction:
            self._roll_back(left)

    def _roll_back(self, db: apsw.Connection) -> None:
        self._sequences.clear()
        try:
            db.execute("ROLLBACK")
        except apsw.Error:
            # SQLite has rolled back by itself, or the connection is broken: the next call opens a new one.
            self._drop_connection()

    def _commit(self, db: apsw.Connection, made: Plan | None) -> None:
        """Make the transaction durable; from here on an error leaves open whether it is."""
        try:
            db.execute("COMMIT")
        except apsw.BusyError:
            raise
        except apsw.Error as error:
            if is_unwritten(error) and self._struck_out(db):
                raise  # definite: nothing of it can be found in the log any more
            self._poisoned = True
            self._drop_connection()
            raise CommitUncertain(
                f"the commit to {self.path} failed ({type(error).__name__}: {error}), so it is open whether these "
                "events are stored; retry with record_many(error.events)"
            ) from error
        if made is not None and made.rows:
            self._tree = made.tree
            self._watch.committed()
            if len(self._sequences) > _SEQUENCES_KEPT:
                self._sequences.clear()

    def _struck_out(self, db: apsw.Connection) -> bool:
        """Whether a commit of which a write failed is gone for good.

        Its frames lie in the log behind the last commit, and a part that was not written can be as it must be from an
        earlier use of the log: a process that recovers the log would take the commit for whole. A commit that changes
        nothing is written over its first frame.
        """
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
            db.execute(f"PRAGMA user_version={sqlite_schema.FORMAT}")
        except apsw.Error:
            return False
        return True

    def _connected(self) -> apsw.Connection:
        """The writing connection, opened anew when there is none or the last commit was uncertain."""
        if self._closed:
            raise LedgerClosed(f"the ledger {self.path} was closed; open it again to record")
        if self._db is None:
            try:
                db = sqlite_schema.connect(self.path, write=True, durability=self._durability)
            except apsw.Error as error:
                if self._poisoned:
                    raise self._unsettled(error) from error
                raise
            if self._poisoned:
                self._settle(db)
            self._db = db
            self._sequences.clear()
            self._tree = Tree()  # the one before reads tiles through the connection that is gone
        return self._db

    def _settle(self, db: apsw.Connection) -> None:
        """After an uncertain commit: write the doubtful bytes into the database file and sync it."""
        try:
            busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
        except apsw.Error as error:
            unsettled = self._unsettled(error, db)
            _let_go(db)
            raise unsettled from error
        if busy:
            _let_go(db)
            raise StorePoisoned(
                f"an uncertain commit to {self.path} waits for a reader to finish; nothing was stored, try again"
            )
        self._poisoned = False

    def _unsettled(self, error: apsw.Error, db: apsw.Connection | None = None) -> StorePoisoned:
        why = f"no space left: {error}" if is_full(error, db) else str(error)
        return StorePoisoned(
            f"an uncertain commit to {self.path} cannot be settled yet ({why}); nothing was stored, try again"
        )

    def _drop_connection(self) -> None:
        db, self._db = self._db, None
        self._sequences.clear()
        if db is not None:
            _let_go(db)

    def _follow(self, db: apsw.Connection, head: Head) -> None:
        """Bring the tree to the head when another process has written since."""
        size, frontier = self._tree.head()
        if size == head.size and frontier == head.frontier:
            return
        self._sequences.clear()
        self._tree = self._writer.caught_up(db, self._tree, head) or self._writer.tree(db, head)

    # --- reading ---

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        with at_work, self._borrowed() as db:
            yield db

    @contextmanager
    def _borrowed(self) -> Iterator[apsw.Connection]:
        """A reading connection of the pool, or a new one; a connection that failed does not go back."""
        if self._closed:
            raise LedgerClosed(f"the ledger {self.path} was closed; open it again to read")
        try:
            db = self._readers.take() or sqlite_schema.connect(self.path, write=False)
        except apsw.Error as error:
            raise mapped(error, self.path) from error
        try:
            yield db
        except apsw.Error as error:
            db.close()
            raise mapped(error, self.path) from error
        except UnicodeDecodeError as error:
            db.close()
            raise self._no_text(error) from error
        except LedgerError:
            self._readers.give(db)
            raise
        except BaseException:
            db.close()
            raise
        self._readers.give(db)

    def _no_text(self, error: UnicodeDecodeError) -> Corrupt:
        return Corrupt(
            f"{self.path} is damaged: a text column is not UTF-8 ({error}); keep a copy of it and run chatsnapshot verify"
        )

    def head(self) -> Head:
        """The committed head."""
        with self._reading() as db:
            return self._writer.head(db)

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows; see the contract."""
        with self._reading() as db, one_snapshot(db):
            return read_page(db, self._names, self._limits, query, after, until, limit, reverse, hint)

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids."""
        with self._reading() as db, one_snapshot(db):
            return rows_by_id(db, self._names, event_ids)

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        with self._reading() as db:
            return self._writer.last_sequence(db, correlation_id)

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        query = children_query(self._names["entry"])
        with self._reading() as db:
            return [found for found, _ in db.execute(query, (correlation_id,))]

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        with self._reading() as db:
            return self._writer.tile(db, level, index)

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The parts of a blob; those of a large one are read as they are asked for."""
        with self._reading() as db, one_snapshot(db):
            size = db.execute(f"SELECT bytes FROM {self._names['blob']} WHERE digest = ?", (digest,)).get
            if size is None:
                return None
            if size > _PARTS_AT_ONCE_BYTES:
                return self._blob_parts(digest, size)
            sql = f"SELECT data FROM {self._names['blob_part']} WHERE digest = ? ORDER BY part"
            return [bytes(data) for (data,) in db.execute(sql, (digest,))]

    def _blob_parts(self, digest: bytes, size: int) -> Iterator[bytes]:
        sql = f"SELECT data FROM {self._names['blob_part']} WHERE digest = ? AND part = ?"
        part = read = 0
        while True:
            with self._reading() as db:
                data = db.execute(sql, (digest, part)).get
            if data is None:
                break
            yield bytes(data)
            part, read = part + 1, read + len(data)
        if read < size and self.blob(digest) is None:  # else it is damaged, which its hash tells
            raise NotFound(f"the blob sha256:{digest.hex()} of {self.path} was erased while it was read")

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""
        names = self._names
        with self._reading() as db:
            found = db.execute(
                f"SELECT digest, bytes, (SELECT count(*) FROM {names['blob_use']} AS used WHERE used.digest = b.digest) "
                f"FROM {names['blob']} AS b ORDER BY digest"
            )
            return [(bytes(digest), size, users) for digest, size, users in found]

    def examine(self) -> Iterable[Finding]:
        """Rows and tiles beyond the head, blobs and their uses, and SQLite's own check of tables and indexes."""
        with self._reading() as db, one_snapshot(db):
            return list(examine(db, self._names))

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        with self._reading() as db:
            return self._writer.checkpoint(db, name, version)

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        with self._reading() as db:
            return self._writer.load_state(db, name, version, key)

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        table = self._names["projection_state"]
        with self._reading() as db:
            return state_keys(db, table, name, version, prefix, after, limit, reverse)

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connections alone and open others at the next use."""
        left = self._readers.leave()
        if self._db is not None:
            left.append(self._db)
            self._db = None
        leave_open(left)
        self._sequences.clear()

    def close(self) -> None:
        """Close the connections and let go of the lock file."""
        if self._closed:
            return
        with at_work:
            self._readers.close()
        if self._lock is None:
            self._closed = True
            return
        with self._lock.held(), at_work:
            ended = self._end()
        if ended:
            self._lock.close()

    def _end(self) -> bool:
        """Close the writing connection, unless another thread was faster."""
        if self._closed:
            return False
        self._closed = True
        if self._db is not None:
            self._empty_log(self._db)
        self._drop_connection()
        return True

    def _empty_log(self, db: apsw.Connection) -> None:
        """Bring the log into the file, so that a copy of the file alone is whole; not while others use the ledger."""
        try:
            db.set_busy_timeout(0)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except apsw.Error:
            pass  # what is in the log is durable there, and the next writer brings it over


def _let_go(db: apsw.Connection) -> None:
    """Close a connection of which nothing more is wanted; its errors say nothing new."""
    try:
        db.close(force=True)
    except apsw.Error:
        leave_open([db])
