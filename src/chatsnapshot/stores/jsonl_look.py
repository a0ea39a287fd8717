"""The reader's side of a JSONL ledger: an index to read by, on disk, or in memory where none can be used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import apsw

from chatsnapshot.errors import Corrupt, LedgerError
from chatsnapshot.stores.filelock import FileLock
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.jsonl_file import FileIO, Stamp
from chatsnapshot.stores.jsonl_follow import At, loaded, read_again, read_on
from chatsnapshot.stores.jsonl_index import JsonlIndex, connect, transaction
from chatsnapshot.stores.jsonl_index_nonsense import nonsense_is_damage
from chatsnapshot.stores.jsonl_scan import TornTail
from chatsnapshot.stores.jsonl_segments import Segments
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.sqlite_read import ReaderPool, one_snapshot

__all__ = ["Lookout"]

T = TypeVar("T")


class Lookout:
    """Gives readers an index. Whatever was acknowledged is in the index on disk: it is committed before the answer.

    A ledger opened read-only whose index is missing, behind or unreadable is read through an index in memory.
    """

    def __init__(self, path: str, segments: Segments, lock: FileLock | None, files: FileIO) -> None:
        self._path = path
        self._index_path = path + ".index.db"
        self._segments = segments
        self._lock = lock
        self._files = files
        self._pool = ReaderPool()
        self._inode = -1
        self._memory: apsw.Connection | None = None
        self._memory_at: At | None = None
        self._mutex = threading.Lock()

    @property
    def tail(self) -> TornTail | None:
        """What a reader without write permission found at the end and left as it is."""
        return None if self._memory_at is None else self._memory_at.tail

    # --- the index on disk ---

    def behind(self) -> bool:
        """Whether the index was taken away, or lines were changed that it knows."""
        if self._memory is not None:
            return False
        if self._replaced():
            return True
        found = self.with_index(JsonlIndex.head)
        if found is None:
            return True
        stamp = self._segments.stamp(found.segment)
        if stamp is None or stamp.bytes < found.bytes:
            return True
        # A longer file is a commit under way: what it adds is acknowledged when the index has it.
        return stamp.bytes == found.bytes and stamp.mtime_ns != found.mtime_ns

    def _replaced(self) -> bool:
        stamp = self._files.stamp(self._index_path)
        inode = -1 if stamp is None else stamp.inode
        if inode == self._inode and inode != -1:
            return False
        with self._mutex:
            old, self._pool, known, self._inode = self._pool, ReaderPool(), self._inode, inode
        old.close()
        return inode == -1 or known != -1

    def with_index(self, work: Callable[[JsonlIndex], T]) -> T:
        """``work`` over one snapshot of the index. Raises apsw errors."""
        if self._memory is not None:
            with at_work, self._mutex:
                return work(self._followed())
        with at_work:
            return self._with_file(work)

    def _with_file(self, work: Callable[[JsonlIndex], T]) -> T:
        pool = self._pool
        db = pool.take() or connect(self._index_path, write=False)
        try:
            with one_snapshot(db), nonsense_is_damage(db):
                found = work(JsonlIndex(db))
        except LedgerError:
            pool.give(db)
            raise
        except BaseException:
            db.close()
            raise
        pool.give(db)
        return found

    # --- read-only ---

    def open_read_only(self) -> str:
        """Find an index that agrees with the lines; gives the ledger's id. Raises :class:`Corrupt`."""
        try:
            with self._locked():
                at = self.with_index(self._agreed)
                self._replaced()
            if at is not None:
                return at.ledger_id
        except apsw.Error:
            pass  # there is none, or it cannot be opened here
        return self.use_memory()

    def _agreed(self, index: JsonlIndex) -> At | None:
        if not index.usable():
            return None
        found = loaded(index, self._segments, None, index_tile(index))
        return found if isinstance(found, At) else None

    def use_memory(self) -> str:
        """Read every line into an index in memory; gives the ledger's id."""
        with at_work, self._mutex:
            self._memory = apsw.Connection(":memory:")
            self._memory_at = None
            return self._follow().ledger_id

    def _followed(self) -> JsonlIndex:
        """The index in memory, with the lines that were added since."""
        self._follow()
        assert self._memory is not None
        return JsonlIndex(self._memory)

    def _follow(self) -> At:
        assert self._memory is not None
        index, at = JsonlIndex(self._memory), self._memory_at
        if (
            at is not None
            and self._segments.stamp(at.segment) == at.stamp
            and self._segments.stamp(at.segment + 1) is None
        ):
            return at
        # No further than to what is whole, and under the lock, where there is one, only what is synced.
        with self._locked(), transaction(self._memory):
            found = None
            if at is not None:
                found = read_on(index, self._segments, at)
            if found is None:
                if self._segments.stamp(1) is None:
                    raise Corrupt(f"{self._path} is gone; put it back, it holds entries of this ledger")
                index.make()
                found = read_again(index, self._segments, 1, self._path, index_tile(index))
            end = Stamp(found.stamp.inode, found.end, found.stamp.mtime_ns)
            index.set_head(found.ledger_id, found.head, found.segment, end)
        self._memory_at = found
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.held() if self._lock else nullcontext():
            yield

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: let go of the parent's connections; the index in memory is the child's own."""
        self._mutex = threading.Lock()
        leave_open(self._pool.leave())
        self._pool = ReaderPool()

    def close(self) -> None:
        """Close what is open."""
        with at_work, self._mutex:
            self._pool.close()
            memory, self._memory = self._memory, None
            if memory is not None:
                memory.close()


def index_tile(index: JsonlIndex) -> Callable[[int, int], bytes]:
    """Reads full tiles through an index."""

    def read_tile(level: int, number: int) -> bytes:
        found = index.tile(level, number)
        if found is None:
            raise Corrupt(f"tile {number} of level {level} is missing in the index; delete the index file")
        return found

    return read_tile
