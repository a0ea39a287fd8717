"""The NATS JetStream store: a ledger in a replicated stream, for many threads, processes and machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import apsw

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import LedgerClosed, LedgerError, ReadOnly, StoreUnavailable
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
from chatsnapshot.stores.hanging import children_query
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.nats.address import read_address
from chatsnapshot.stores.nats.answers import ApiError, Denied, Unanswered, Unsent, mapped
from chatsnapshot.stores.nats.blobs import BlobRecord
from chatsnapshot.stores.nats.engine import Engine
from chatsnapshot.stores.nats.examining import examine
from chatsnapshot.stores.nats.index import NAMES
from chatsnapshot.stores.nats.looping import LoopThread
from chatsnapshot.stores.nats.writing import BATCH_EVENTS_MAX
from chatsnapshot.stores.open import Location
from chatsnapshot.stores.sqlite_read import read_page, rows_by_id
from chatsnapshot.stores.sqlite_write import SqliteWriter
from chatsnapshot.stores.statekeys import state_keys

__all__ = ["NatsStore"]

T = TypeVar("T")

_LOOK_SECONDS = 0.5
_TRIES = 3


class _Core(NamedTuple):
    """What runs behind a store."""

    thread: LoopThread
    engine: Engine


class NatsStore:
    """A ledger in a JetStream stream, with a vault of keys beside it and a local index that can be rebuilt.

    Position is the sequence of the stream. Every call that must see what others have committed asks the stream for its
    head and reads on; a commit needs no look, because it says which head it follows.
    """

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
        self.traits = Traits(
            name="nats",
            durable=True,
            processes=True,
            guarded=True,
            erases_in_commit=False,
            group_events_max=BATCH_EVENTS_MAX,
            batch_events_max=BATCH_EVENTS_MAX,
            look_seconds=_LOOK_SECONDS,
        )
        self._address = read_address(location)
        self._read_only = read_only
        self._clock, self._entropy, self._limits = clock, entropy, limits
        self._mutex = threading.RLock()
        self._core: _Core | None = None
        self._closed = False
        self._wakes: set[Callable[[], None]] = set()
        self.ledger_id = self._start(create and not read_only, location.identity)

    # --- the loop ---

    def _start(self, create: bool, identity: str) -> str:
        engine: list[Engine] = []

        async def finish() -> None:
            if engine:
                await engine[0].close()

        async def begin() -> str:
            engine.append(Engine(self._address, self._clock, self._entropy, self._limits))
            return await engine[0].open(create, identity, not self._read_only)

        thread = LoopThread(finish)
        try:
            with self._mapped():
                ledger_id = thread.call(begin)
        except BaseException:
            thread.end()
            raise
        self._core = _Core(thread, engine[0])
        return ledger_id

    def _running(self) -> _Core:
        core = self._core
        if core is not None and core.thread.alive:
            return core
        with self._mutex:
            if self._closed:
                raise LedgerClosed(f"the ledger {self.url} was closed; open it again to use it")
            if self._core is None:  # after a fork
                found = self._start(False, "")
                if found != self.ledger_id:
                    raise StoreUnavailable(f"another ledger is now at {self.url}; open it again to use it")
            assert self._core is not None
            return self._core

    def _call(self, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        core = self._running()
        with self._mapped():
            return core.thread.call(lambda: work(core.engine))

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Errors of the driver and of the index, as ours."""
        try:
            yield
        except (Unsent, Unanswered, Denied, ApiError) as error:
            raise mapped(error, self.url) from None
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(
                f"the local index of {self.url} cannot be used ({type(error).__name__}: {error}); nothing was stored, "
                "remove it or name another with index="
            ) from error

    def _reading(self, work: Callable[[apsw.Connection], T]) -> T:
        """``work`` over one snapshot of the index; a damaged one is made again from the stream."""
        engine = self._running().engine
        for tried in range(_TRIES):
            try:
                with engine.index.reading() as db:
                    return work(db)
            except (apsw.Error, OSError) as error:
                if tried == _TRIES - 1:
                    with self._mapped():
                        raise
                self._call(lambda engine, error=error: _mend(engine, error))  # type: ignore[misc]
        raise AssertionError

    def _following(self, work: Callable[[apsw.Connection], T]) -> T:
        """``work`` over an index that has everything acknowledged before the call."""
        self._call(lambda engine: engine.follow())
        return self._reading(work)

    def _opened(self, rows: Sequence[Row]) -> list[Row]:
        found = self._running().engine.opener.at_once(rows)
        return found if found is not None else self._call(lambda engine: engine.open_rows(rows))

    def _writable(self) -> None:
        if self._read_only:
            raise ReadOnly(f"{self.url} was opened read-only; open it with read_only=False to record")

    # --- writing ---

    def watch(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called when another process says that it has committed."""
        if wake not in self._wakes:
            self._wakes.add(wake)
            try:
                self._call(lambda engine: engine.watch(wake))
            except LedgerError:
                pass  # a hint: the tail looks by itself

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        self._writable()
        return self._call(lambda engine: engine.append(groups))

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store the record, then remove the keys; what is not done when it fails is done at the next open."""
        self._writable()
        return self._call(lambda engine: engine.erase(record))

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        self._writable()
        if rows:
            self._call(lambda engine: engine.import_rows(rows, blobs))

    # --- reading ---

    def head(self) -> Head:
        """The committed head."""
        engine = self._running().engine
        return self._following(engine.index.writer.head)

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows; see the contract."""
        engine = self._running().engine

        def work(db: apsw.Connection) -> Page:
            return read_page(db, NAMES, self._limits, query, after, until, limit, reverse, hint)

        if self._reading(engine.index.writer.head).size < until:
            self._call(lambda engine: engine.follow())
        page = self._reading(work)
        return page._replace(rows=self._opened(page.rows))

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids."""
        found = self._following(lambda db: rows_by_id(db, NAMES, event_ids))
        return {row[3]: row for row in self._opened(list(found.values()))}

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        engine = self._running().engine
        return self._following(lambda db: engine.index.writer.last_sequence(db, correlation_id))

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        return self._following(
            lambda db: [str(found) for found, _ in db.execute(children_query("entry"), (correlation_id,))]
        )

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        engine = self._running().engine
        return self._reading(lambda db: engine.index.writer.tile(db, level, index))

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The parts of a blob; each is fetched when it is asked for."""
        record = self._call(lambda engine: engine.blob_record(digest))
        return None if record is None else self._parts(digest, record)

    def _parts(self, digest: bytes, record: BlobRecord) -> Iterator[bytes]:
        for number in range(1, record.parts + 1):
            yield self._call(lambda engine, number=number: engine.blob_part(digest, record, number))  # type: ignore[misc]

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""
        return self._call(lambda engine: engine.all_blobs())

    def examine(self) -> Iterable[Finding]:
        """The stream and the vault against the index: what is missing, was changed, or is configured otherwise."""
        return self._call(examine)

    # --- projections ---

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        engine = self._running().engine
        return self._reading(lambda db: engine.index.writer.checkpoint(db, name, version))

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        engine = self._running().engine
        return self._reading(lambda db: engine.index.writer.load_state(db, name, version, key))

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        return self._reading(
            lambda db: state_keys(db, "projection_state", name, version, prefix, after, limit, reverse)
        )

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together, with compare-and-set, in the index."""
        self._writable()

        def save(db: apsw.Connection, writer: SqliteWriter) -> bool:
            if writer.checkpoint(db, name, version) != before:
                return False
            writer.save_states(db, name, version, after, states)
            return True

        return self._call(lambda engine: engine.change_index(save))

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""
        self._writable()

        self._call(
            lambda engine: engine.change_index(lambda db, writer: writer.drop_states(db, name, version))
        )

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connection and thread alone, and begin anew at the next use."""
        self._mutex = threading.RLock()
        core, self._core = self._core, None
        self._wakes.clear()
        if core is not None:
            leave_open([core])
            if hasattr(core.engine, "index"):
                core.engine.index.leave()

    def close(self) -> None:
        """Close the connection and end its thread."""
        with self._mutex:
            self._closed = True
            core, self._core = self._core, None
        if core is not None:
            core.thread.end()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.thread.end(wait=False)


async def _mend(engine: Engine, error: Exception) -> None:
    engine.mend(error)
    await engine.follow()
