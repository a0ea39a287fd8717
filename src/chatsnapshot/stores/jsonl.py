"""The JSONL store: a ledger as lines that people and ``jq`` can read, for many threads and processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import apsw

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import LedgerClosed, NotFound, ReadOnly, StoreFull, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores import jsonl_states
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
from chatsnapshot.stores.imports import check_rows, named_positions
from chatsnapshot.stores.jsonl_blobs import BlobFolder
from chatsnapshot.stores.jsonl_errors import erasing_error, index_error
from chatsnapshot.stores.jsonl_examine import examine
from chatsnapshot.stores.jsonl_file import FileIO, io_error
from chatsnapshot.stores.jsonl_index import JsonlIndex, transaction
from chatsnapshot.stores.jsonl_index_nonsense import nonsense_is_damage
from chatsnapshot.stores.jsonl_look import Lookout
from chatsnapshot.stores.jsonl_read import read_page, rows_at
from chatsnapshot.stores.jsonl_segments import Segments
from chatsnapshot.stores.jsonl_write import JsonlWriter
from chatsnapshot.stores.planning import Plan, known_ids, plan
from chatsnapshot.stores.statekeys import state_keys

__all__ = ["JsonlStore"]

T = TypeVar("T")

_SEQUENCES_KEPT = 100_000
_BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.IOError)
"""Errors that say that the index is no longer one; it is made again."""


class JsonlStore:
    """A ledger in a JSONL file, with blobs and a rebuildable index beside it.

    The lines are the truth. Every commit takes the file lock, reads what others have added, writes one batch of lines
    with one call, syncs, and only then tells the index; readers read no further than the index has been told.
    """

    def __init__(
        self,
        url: str,
        path: str,
        *,
        create: bool,
        read_only: bool,
        durability: str,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
        files: FileIO | None = None,
        identity: str = "",
    ) -> None:
        """``files`` stands in for the operating system's files, in tests of lost power."""
        self.url = url
        self.path = path
        self.traits = Traits(
            name="jsonl",
            durable=durability == "full",
            processes=True,
            guarded=False,
            erases_in_commit=False,
        )
        self._limits = limits
        self._watch = ClockWatch(clock, entropy)
        self._sequences: dict[str, int] = {}
        self._closed = False
        real = os.path.realpath(path)
        self._files = files or FileIO(durability)
        self._segments = Segments(real, self._files)
        self._blobs = BlobFolder(real + ".blobs", self._files, limits.blob_part_bytes)
        if not os.path.exists(real) and (read_only or not create):
            raise NotFound(f"no ledger at {path}; record something there first, or check the path")
        self._read_only = read_only
        may_lock = not read_only or os.access(real + ".lock", os.R_OK | os.W_OK)
        self._lock = file_lock(real + ".lock") if may_lock else None
        self._writer = JsonlWriter(
            real, self._files, self._segments, self._blobs, clock, limits.segment_bytes_max
        )
        self._lookout = Lookout(real, self._segments, self._lock, self._files)
        try:
            self.ledger_id = self._find(create, identity)
        except BaseException:
            self.close()
            raise

    def _find(self, create: bool, identity: str) -> str:
        """Open the files, make what is missing, mend the end, and give the ledger's id."""
        try:
            if self._read_only:
                return self._lookout.open_read_only()
            assert self._lock is not None
            with self._lock.held(), at_work:
                return self._writer.open(create, identity).ledger_id
        except OSError as error:
            raise io_error(error, self.path) from error
        except apsw.Error as error:
            raise index_error(error, self.path) from error

    # --- writing ---

    @contextmanager
    def _writing(self) -> Iterator[JsonlIndex]:
        """The lock, and an index that agrees with the lines; what is not committed inside is rolled back."""
        if self._read_only or self._lock is None:
            raise ReadOnly(f"{self.path} was opened read-only; open it with read_only=False to record")
        hold = self._lock.held()
        with hold, at_work:
            if self._closed:
                raise LedgerClosed(f"the ledger {self.path} was closed; open it again to record")
            done = False
            try:
                before = self._writer.at
                at = self._writer.follow()
                if at is not before:
                    self._sequences.clear()
                index = self._writer.index
                with nonsense_is_damage(index.db):
                    yield index
                done = True
            except _BROKEN as error:
                self._writer.remove_index()
                raise StoreUnavailable(
                    f"the index of {self.path} was damaged ({error}) and is made again from the lines at the next "
                    "call; nothing was stored, try again"
                ) from error
            except apsw.Error as error:
                raise index_error(error, self.path) from error
            except OSError as error:
                raise io_error(error, self.path) from error
            finally:
                if not done and hold.current:  # not when Ctrl-C ended this use, and it is finalised only now
                    self._undo()

    def _undo(self) -> None:
        self._sequences.clear()
        self._writer.roll_back()

    def watch(self, wake: Callable[[], None]) -> None:
        """Gives no hints: a look at the file is cheap."""

    @interruptible
    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        with self._writing() as index:
            made = self._plan(index, groups)
            if made.rows:
                blobs = {blob.digest: blob.data for draft in made.drafts for blob in draft.blobs}
                self._commit(made, blobs)
            return made.outcomes[: len(groups)]

    def _plan(self, index: JsonlIndex, groups: Sequence[Group]) -> Plan:
        """Decide under the lock what is stored; raises :class:`Corrupt` for a ledger with damaged lines."""
        at = self._writer.sound()
        recorded_at, stamped = self._watch.stamp(at.recorded_at, groups)
        known = {row[3]: row for row in rows_at(index, self._segments, index.known(known_ids(stamped)))}
        return plan(stamped, at.tree, recorded_at, known, index.last_sequence, self._sequences)

    def _commit(self, made: Plan, blobs: Mapping[bytes, bytes], erasing: Sequence[int] = ()) -> None:
        self._writer.commit(made, blobs, {made.rows[0][0]: erasing} if erasing else {})
        self._watch.committed()
        if len(self._sequences) > _SEQUENCES_KEPT:
            self._sequences.clear()

    @interruptible
    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store the record, then overwrite payloads and salts in place; a crash between is made good at the next open."""
        with self._writing() as index:
            made = self._plan(index, [Group([record])])
            outcome = made.outcomes[0]
            if not isinstance(outcome, list):
                raise outcome
            if made.rows:
                self._commit(made, {}, positions)
            self._finish_erasing()
            # States of projections may have held them: the log of the index must not.
            index.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return outcome[0]

    def _finish_erasing(self) -> None:
        """Raises :class:`StoreUnavailable` when the record is stored and the payloads are not all gone."""
        try:
            self._writer.finish_erasing(self._writer.sound())
        except OSError as error:
            raise erasing_error(error, self.path) from error

    @interruptible
    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        if not rows:
            return
        with self._writing() as index:
            at = self._writer.sound()
            if rows[0][0] != at.tree.size + 1:
                raise StoreUnavailable(
                    f"the next position of {self.path} is {at.tree.size + 1}, not {rows[0][0]}; import from the head on"
                )
            check_rows(
                rows,
                at.recorded_at,
                index.last_sequence,
                lambda ids: {key for key in ids if index.known([key])},
            )
            tree = at.tree.copy()
            tiles = tree.extend([row[12] for row in rows])
            self._sequences.clear()
            made = Plan(list(rows), tiles, tree, rows[-1][2], [], [])
            erasing = {row[0]: named for row in rows if (named := named_positions(row))}
            self._writer.commit(made, blobs, erasing, foreign=True)
            self._finish_erasing()

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
        saved = False
        with self._writing() as index, transaction(index.db):
            if jsonl_states.load_checkpoint(index.db, name, version) == before:
                jsonl_states.save_states(index.db, name, version, after, states)
                saved = True
        return saved

    @interruptible
    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""
        with self._writing() as index, transaction(index.db):
            jsonl_states.drop_states(index.db, name, version)

    @interruptible
    def sweep_blobs(self) -> int:
        """Remove blobs that no entry names, and what a lost process left half written; gives how many files."""
        with self._writing() as index:
            used = [bytes(digest) for (digest,) in index.db.execute("SELECT DISTINCT digest FROM blob_use")]
            return self._blobs.sweep(used)

    # --- reading ---

    def _reading(self, work: Callable[[JsonlIndex], T]) -> T:
        """``work`` over one snapshot of an index that is not behind what was acknowledged."""
        if self._closed:
            raise LedgerClosed(f"the ledger {self.path} was closed; open it again to read")
        try:
            for _ in range(2):
                try:
                    if self._lookout.behind():
                        self._mend()
                    return self._lookout.with_index(work)
                except _BROKEN:
                    self._mend(broken=True)
                except apsw.CantOpenError:
                    self._mend()
            return self._lookout.with_index(work)
        except OSError as error:
            raise io_error(error, self.path) from error
        except apsw.Error as error:
            raise index_error(error, self.path) from error

    @interruptible
    def _mend(self, broken: bool = False) -> None:
        """Somebody has changed the lines or taken the index away: look at both under the lock."""
        if self._read_only:
            if broken:
                self._lookout.use_memory()
            else:
                self._lookout.open_read_only()
            return
        try:
            with self._writing():
                if broken:
                    self._writer.make_index_again()
        except (StoreFull, StoreUnavailable):
            self._lookout.use_memory()  # no index can be written: what is there is readable all the same

    def head(self) -> Head:
        """The committed head."""

        def work(index: JsonlIndex) -> Head:
            found = index.head()
            if found is None:
                raise StoreUnavailable(f"the index of {self.path} is being made; try again")
            return found.head

        return self._reading(work)

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows; see the contract. Raises :class:`Corrupt` where a page begins with damage."""

        def work(index: JsonlIndex) -> Page:
            found = index.head()
            size = 0 if found is None else found.head.size
            return read_page(
                index, self._segments, self._limits, size, query, after, until, limit, reverse, hint
            )

        return self._reading(work)

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids."""
        return self._reading(
            lambda index: {row[3]: row for row in rows_at(index, self._segments, index.known(event_ids))}
        )

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        return self._reading(lambda index: index.last_sequence(correlation_id))

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        return self._reading(lambda index: index.children(correlation_id))

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        return self._reading(lambda found: found.tile(level, index))

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The parts of a blob."""
        try:
            return self._blobs.parts(digest)
        except OSError as error:
            raise io_error(error, self.path) from error

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""
        return self._reading(
            lambda index: [(digest, size, index.users(digest)) for digest, size in self._blobs.all()]
        )

    def examine(self) -> Iterable[Finding]:
        """Lines against the index: damage, strays, a torn tail, headers of segments, what the index leaves out."""
        return self._reading(lambda index: examine(index, self._segments, self._blobs, self._lookout.tail))

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        return self._reading(lambda index: jsonl_states.load_checkpoint(index.db, name, version))

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        return self._reading(lambda index: jsonl_states.load_state(index.db, name, version, key))

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        wanted = (name, version, prefix, after, limit, reverse)
        return self._reading(lambda index: state_keys(index.db, "projection_state", *wanted))

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connections alone and open others at the next use."""
        self._lookout.after_fork()
        self._writer.after_fork()
        self._segments.after_fork()
        self._sequences.clear()

    def close(self) -> None:
        """Close what is open and let go of the lock file."""
        if self._closed:
            return
        if self._lock is None:
            self._closed = True
        else:
            if self._read_only:
                self._closed = True
            else:
                with self._lock.held(), at_work:
                    self._closed = True
                    self._writer.close()
            self._lock.close()
        self._lookout.close()
        self._segments.forget()
