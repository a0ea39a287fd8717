"""Copies a JSONL ledger while others write to it, and puts a copy in the place of another.

Sealed segments and blobs are copied without the lock, since nobody changes them but an erasure; under the lock follow the
last segment and whatever has changed. A torn tail is copied too; who opens the copy for writing sets it aside.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext

import apsw

from chatsnapshot.errors import Corrupt, LedgerError, NotFound, StoreFull, StoreUnavailable
from chatsnapshot.stores import filelock
from chatsnapshot.stores.filelock import file_lock
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.jsonl_file import FULL, FileIO, Stamp, Unwritten, folder_of, io_error, write_all
from chatsnapshot.stores.jsonl_repair import has_torn_header
from chatsnapshot.stores.jsonl_segments import Segments
from chatsnapshot.stores.placing import exists, place_new, second_name

__all__ = ["copy_lines", "place_lines", "sync_lines"]

_IN_USE_MS = 1_000
_BESIDE = (".index.db", ".index.db-wal", ".index.db-shm", ".doubt")
"""What says something about the lines and means nothing for others."""


def copy_lines(path: str, target: str, progress: Callable[[int, int], None]) -> None:
    """Copy segments and blobs as they are at one moment to the new ledger ``target``; not synced.

    ``progress`` gets bytes done and bytes in all, as far as they are known. Raises :class:`StoreFull` when the target's
    disk is full, :class:`StoreUnavailable` when the ledger is written and this account may not take its lock.
    """
    real = os.path.realpath(path)
    may_lock = os.access(real + ".lock", os.R_OK | os.W_OK)
    lock = file_lock(real + ".lock") if may_lock else None
    copying = _Copying(real, target, progress)
    try:
        copying.sealed()
        with lock.held(filelock.PATIENCE_SECONDS) if lock is not None else nullcontext():
            copying.rest()
            if lock is None and copying.changed():
                raise StoreUnavailable(
                    f"{path} is being written, and this account may not take {real}.lock; copy as the account that "
                    "records, or while nobody does"
                )
    except Unwritten as failed:
        raise _unwritten(failed.error, target) from failed.error
    except OSError as error:
        raise io_error(error, path) from error
    finally:
        if lock is not None:
            lock.close()


def _unwritten(error: OSError, target: str) -> LedgerError:
    if error.errno in FULL:
        return StoreFull(
            f"no space left to copy to {target} ({error.strerror}); free some space there, the ledger is as it was"
        )
    return StoreUnavailable(f"{target} cannot be written ({error}); the ledger is as it was")


class _Copying:
    """What is copied so far, and how each file looked just before."""

    def __init__(self, real: str, target: str, progress: Callable[[int, int], None]) -> None:
        self.files = FileIO("os")
        self.real = real
        self.source = Segments(real, self.files)
        self.goal = Segments(target, self.files)
        self.blobs, self.goal_blobs = real + ".blobs", target + ".blobs"
        self.stamps: dict[str, Stamp | None] = {}
        self.progress = progress
        self.done = 0
        self.whole = 0

    def sealed(self) -> None:
        """Everything that nobody appends to."""
        count = self.source.count()
        paths = [self.source.path(number) for number in range(1, count + 1)] + list(self.blob_files())
        self.whole = sum(stamp.bytes for path in paths if (stamp := self.files.stamp(path)) is not None)
        for number in range(1, count):
            self.segment(number)
        for path in self.blob_files():
            self.blob(path)

    def rest(self) -> None:
        """Under the lock: what was added or changed, and the last segment."""
        count = self.source.count()
        if not count:
            raise NotFound(f"no ledger at {self.real}; record something there first, or check the path")
        if count == 1 and has_torn_header(self.files, self.real):
            raise Corrupt(
                f"{self.real} has not even a whole header; open it for writing, or restore it from a copy"
            )
        for number in range(1, count):
            path = self.source.path(number)
            if path not in self.stamps or self.stamps[path] != self.files.stamp(path):
                self.segment(number)
        path = self.source.path(count)
        self.stamps[path] = self.files.stamp(path)
        self.copy(path, self.goal.path(count))
        there = set(self.blob_files())
        for path in there - self.stamps.keys():
            self.blob(path)
        for path in self.stamps.keys() - there:
            if folder_of(path) == self.blobs:  # erased since
                os.unlink(os.path.join(self.goal_blobs, os.path.basename(path)))

    def changed(self) -> bool:
        """Whether any file is no longer as it was when it was copied."""
        return any(self.files.stamp(path) != stamp for path, stamp in self.stamps.items())

    def blob_files(self) -> list[str]:
        """The blobs that are there; what a lost process left half written has another name."""
        return [os.path.join(self.blobs, name) for name in self.files.names(self.blobs) if len(name) == 64]

    def segment(self, number: int) -> None:
        path = self.source.path(number)
        self.stamps[path] = self.files.stamp(path)
        self.copy(path, self.goal.path(number))

    def blob(self, path: str) -> None:
        if not os.path.isdir(self.goal_blobs):
            self.files.make_folder(self.goal_blobs)
        stamp = self.files.stamp(path)
        try:
            self.copy(path, os.path.join(self.goal_blobs, os.path.basename(path)))
        except FileNotFoundError:
            return  # erased in this moment
        self.stamps[path] = stamp

    def copy(self, path: str, to: str) -> None:
        """One file."""
        source = self.files.open_to_read(path)
        try:
            goal = self.files.create(to)
            try:
                for data in self.files.chunks(source, 0, 1 << 62):
                    write_all(self.files, goal, data)
                    self.done += len(data)
                    self.whole = max(self.whole, self.done)
                    self.progress(self.done, self.whole)
            finally:
                self.files.close(goal)
        finally:
            self.files.close(source)


def _pieces(path: str) -> list[str]:
    """What a ledger consists of, its first segment last; without its lock file and what was once set aside."""
    segments = Segments(path, FileIO("os"))
    numbered = [segments.path(number) for number in range(segments.count(), 1, -1)]
    return [name for name in (path + ".blobs", *numbered, path) if os.path.lexists(name)]


def sync_lines(path: str) -> int:
    """Make a copy durable, file by file; gives the bytes of its files. Raises ``OSError``."""
    files = FileIO()
    size = 0
    for piece in _pieces(path):
        folder = os.path.isdir(piece)
        for name in [os.path.join(piece, name) for name in files.names(piece)] if folder else [piece]:
            descriptor = files.open_to_change(name)
            try:
                files.sync(descriptor)
                size += os.fstat(descriptor).st_size
            finally:
                files.close(descriptor)
        files.sync_folder(piece if folder else folder_of(piece))
    return size


def place_lines(made: str, target: str, *, force: bool, aside: str, keep: bool) -> str | None:
    """Put the finished ledger ``made`` at ``target``; gives where what was there is kept, if anywhere.

    The first segment comes last: a ledger is there when it is. Without ``force`` nothing is replaced. With it, what is
    there is first in the folder ``aside`` too, which is removed at the end unless it is to be kept. A ledger of one
    segment is replaced in one step; with more, for an instant no ledger is at the target, and both are whole on the
    disk. What cannot be finished is taken back. Raises :class:`StoreUnavailable` while somebody uses the ledger that is
    to be replaced, ``OSError``.
    """
    if os.path.lexists(target) and (not force or os.path.isdir(target)):
        raise exists(target)
    before = _pieces(target)
    if before and not force:
        raise LedgerError(
            f"{before[0]} belongs to another ledger, or to a copy that was interrupted; move it away, or give --force "
            "to have it set aside"
        )
    _refuse_in_use(target)
    beside = [target + name for name in _BESIDE if os.path.lexists(target + name)]
    if not before and not beside:
        _put(made, target)
        return None
    os.mkdir(aside, 0o700)
    if target in before and not any(Segments(path, FileIO("os")).count() > 1 for path in (target, made)):
        _replace_one(made, target, aside, beside)
    else:
        _replace_many(made, target, aside, before + beside)
    if not keep:
        shutil.rmtree(aside)
        return None
    return aside


def _put(made: str, target: str) -> None:
    """Give the pieces of a finished ledger their names, where nothing is."""
    for piece in _pieces(made):
        if piece == made:
            place_new(made, target)
        else:
            os.rename(piece, target + piece[len(made) :])


def _replace_one(made: str, target: str, aside: str, beside: list[str]) -> None:
    """Replace a ledger of one segment by another in one step. Blobs of both lie side by side for a while."""
    files = FileIO("os")
    kept, old, new = os.path.join(aside, os.path.basename(target)), target + ".blobs", made + ".blobs"
    held = set(files.names(old))
    brought = set(files.names(new))
    try:
        second_name(target, kept)
        if os.path.isdir(old):
            os.mkdir(kept + ".blobs", 0o700)
            for name in held:
                second_name(os.path.join(old, name), os.path.join(kept + ".blobs", name))
        if brought and not os.path.isdir(old):
            files.make_folder(old)
        for name in brought - held:
            os.rename(os.path.join(new, name), os.path.join(old, name))
        for piece in beside:  # the index of one ledger says nothing of another
            os.rename(piece, os.path.join(aside, os.path.basename(piece)))
        os.replace(made, target)
    except BaseException:
        _moved_back(aside, target, beside)
        for name in brought - held:
            if os.path.exists(os.path.join(old, name)):
                os.unlink(os.path.join(old, name))
        shutil.rmtree(aside)
        raise
    for name in held - brought:
        os.unlink(os.path.join(old, name))


def _replace_many(made: str, target: str, aside: str, pieces: list[str]) -> None:
    """Move away what is there, its first segment first, and put the other in its place."""
    try:
        for piece in reversed(pieces):
            os.rename(piece, os.path.join(aside, os.path.basename(piece)))
        _put(made, target)
    except BaseException:
        _moved_back(aside, target, pieces)
        os.rmdir(aside)
        raise


def _moved_back(aside: str, target: str, pieces: list[str]) -> None:
    for piece in pieces:  # the first segment is last among those that make up the ledger
        there = os.path.join(aside, os.path.basename(piece))
        if os.path.lexists(there):
            if os.path.isdir(piece):
                shutil.rmtree(piece)
            os.rename(there, piece)


def _refuse_in_use(target: str) -> None:
    """Raise when somebody has the ledger open: whoever reads or writes it has a connection to its index."""
    index = target + ".index.db"
    if not os.path.exists(index):
        return
    with at_work:
        try:
            db = apsw.Connection(index, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
        except apsw.Error:
            return
        try:
            db.set_busy_timeout(_IN_USE_MS)
            # Leaving the write-ahead log works only for a connection that is the only one.
            used = db.execute("PRAGMA journal_mode=DELETE").get != "delete"
        except (apsw.BusyError, apsw.LockedError):
            used = True
        except apsw.Error:
            used = False  # no index that SQLite can read: it goes with the rest
        finally:
            db.close()
    if used:
        raise StoreUnavailable(
            f"{target} is in use by another process, or another part of this one; close it there, then replace it"
        )
