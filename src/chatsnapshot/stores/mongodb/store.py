"""The MongoDB store: ledgers in a replica set, one transaction a commit, acknowledged when a majority has it on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import Corrupt, LedgerClosed, LedgerError, ReadOnly
from chatsnapshot.limits import Limits
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
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.mongodb import parts, reading, states
from chatsnapshot.stores.mongodb.committing import Committer
from chatsnapshot.stores.mongodb.connecting import (
    Client,
    Collections,
    check_server,
    collections_of,
    connect,
    is_guarded,
)
from chatsnapshot.stores.mongodb.driver import pymongo
from chatsnapshot.stores.mongodb.errors import MAPPED, mapped
from chatsnapshot.stores.mongodb.examining import blobs_of, examine
from chatsnapshot.stores.mongodb.schema import find_ledger, make_ledger
from chatsnapshot.stores.mongodb.watching import Watcher

if TYPE_CHECKING:
    from chatsnapshot.stores.open import Location

__all__ = ["MongodbStore"]

_LOOK_SECONDS = 0.25
_WATCHED_LOOK_SECONDS = 1.0
_CLOSE_SECONDS = 2.0


class MongodbStore:
    """A ledger in a MongoDB database: the connection, and reading; commits are the :class:`Committer`'s."""

    def __init__(
        self,
        location: Location,
        *,
        create: bool,
        read_only: bool,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
    ) -> None:
        self.url = location.url
        self._target = location.target
        self._ledger = location.ledger
        self._read_only = read_only
        self._limits = limits
        self._closed = False
        self._lock = threading.Lock()
        self._connection: tuple[Client, Collections] | None = None
        self._watcher = Watcher(self._collections, self._ledger)
        self._committer = Committer(
            self._ledger,
            self.url,
            self._target,
            self._connected,
            self._mapped,
            read_tile=self._read_tile,
            clock=clock,
            entropy=entropy,
            limits=limits,
        )
        guarded = False
        try:
            with self._using() as on:
                check_server(on.database, self.url)
                if create and not read_only:
                    self.ledger_id = make_ledger(on, self._ledger, self.url, location.identity)
                else:
                    self.ledger_id = find_ledger(on, self._ledger, self.url)
                status = on.database.command({"connectionStatus": 1, "showPrivileges": True})
                guarded = is_guarded(status, on.database.name, on.entry.name)
        except BaseException:
            self.close()
            raise
        self._unwatched = Traits(
            name="mongodb",
            durable=True,
            processes=True,
            guarded=guarded,
            erases_in_commit=True,
            look_seconds=_LOOK_SECONDS,
        )
        self._watched = msgspec.structs.replace(self._unwatched, look_seconds=_WATCHED_LOOK_SECONDS)

    @property
    def traits(self) -> Traits:
        """What the store claims."""
        return self._watched if self._watcher.live else self._unwatched

    # --- connection ---

    def _connected(self) -> tuple[Client, Collections]:
        """Client and collections; made when they are first used, and anew in a forked child."""
        found = self._connection
        if found is None:
            with self._lock:
                if self._closed:
                    raise LedgerClosed(f"the ledger {self.url} was closed; open it again to go on")
                found = self._connection
                if found is None:
                    client = connect(self._target, self.url)
                    found = self._connection = client, collections_of(client)
        return found

    def _collections(self) -> Collections:
        return self._connected()[1]

    @contextmanager
    def _using(self) -> Iterator[Collections]:
        """The collections, for one use of the driver; its errors are made ours."""
        try:
            yield self._collections()
        except MAPPED as error:
            raise self._mapped(error) from error

    def _mapped(self, error: Exception) -> LedgerError:
        if self._closed and isinstance(error, pymongo.errors.InvalidOperation):
            return LedgerClosed(f"the ledger {self.url} was closed; open it again to go on")
        return mapped(error, self.url, self._target, self._read_only)

    # --- writing ---

    def watch(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when the head has changed."""
        if not self._closed:
            self._watcher.watch(wake)

    def _writer(self) -> Committer:
        if self._read_only:
            raise ReadOnly(f"{self.url} was opened read-only; open it with read_only=False to record")
        return self._committer

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        return self._writer().append(groups)

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store the record and remove the payloads in one transaction."""
        return self._writer().erase(positions, record)

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        self._writer().import_rows(rows, blobs)

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together, with compare-and-set."""
        return self._writer().save_states(name, version, before, after, states)

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""
        self._writer().drop_states(name, version)

    # --- reading ---

    def head(self) -> Head:
        """The committed head."""
        with self._using() as on:
            head = reading.head_of(on.head.find_one({"_id": self._ledger}), self.url)
        self._committer.top = max(self._committer.top, head.size)
        return head

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows; see the contract."""
        # Entries up to a head that was seen are there and stay, so that a page within it needs no other look.
        top = self._committer.top
        if until > top:
            top = self.head().size
        with self._using() as on:
            return reading.read_page(
                on, self._ledger, self._limits, query, after, until, limit, reverse, hint, top
            )

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids."""
        with self._using() as on:
            return reading.rows_by_id(on, self._ledger, event_ids)

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        with self._using() as on:
            return reading.last_sequences(on, self._ledger, [correlation_id])[correlation_id]

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        with self._using() as on:
            return reading.children_of(on, self._ledger, correlation_id)

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        with self._using() as on:
            found = on.tile.find_one({"_id": f"{self._ledger}/{level}/{index}"})
        return None if found is None else bytes(found["hashes"])

    def _read_tile(self, level: int, index: int) -> bytes:
        found = self.tile(level, index)
        if found is None:
            raise Corrupt(f"tile {index} of level {level} is missing in {self.url}; run chatsnapshot verify")
        return found

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The parts of a blob."""
        with self._using() as on:
            return parts.read_blob(on, self._ledger, digest)

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""
        with self._using() as on:
            return blobs_of(on, self._ledger)

    def examine(self) -> Iterable[Finding]:
        """Documents beyond the head, blobs and their parts, and indexes that are not there."""
        size = self.head().size
        with self._using() as on:
            return list(examine(on, self._ledger, size))

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        with self._using() as on:
            return states.checkpoint(on, self._ledger, name, version)

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        with self._using() as on:
            return states.load_state(on, self._ledger, name, version, key)

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        with self._using() as on:
            return states.state_keys(on, self._ledger, name, version, prefix, after, limit, reverse)

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: leave the parent's client alone and make another at the next use."""
        left, self._connection = self._connection, None
        leave_open([] if left is None else [left])
        self._lock = threading.Lock()
        self._watcher = Watcher(self._collections, self._ledger)
        self._committer.after_fork()

    def close(self) -> None:
        """End the change stream and close the connections; a second close does nothing."""
        self._watcher.close()
        with self._lock:
            self._closed = True
            left, self._connection = self._connection, None
        if left is not None:
            with pymongo.timeout(_CLOSE_SECONDS):
                left[0].close()
