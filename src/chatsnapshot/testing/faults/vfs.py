"""The files of SQLite, journaled: an apsw VFS that stands under every connection of this process while it is in use.

It needs no help from a store: it is the default VFS while :func:`vfs_under` is open. Nothing is synced for real. A folder
is synced as SQLite does it: with the first sync of a new journal or log, and when a journal is deleted.

One thing is not as with SQLite's own VFS: an error that SQLite passes over (in the checkpoint after a commit, in the last
checkpoint at a close) is raised by apsw all the same. For the first there is :func:`checkpoint_as_sqlite_does`.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from chatsnapshot.testing.faults.journal import Fault, Journal, Step

__all__ = ["JournalVFS", "checkpoint_as_sqlite_does", "vfs_under"]

_LOGS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
_EXTENDED = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "cut": apsw.SQLITE_IOERR_TRUNCATE,
    "remove": apsw.SQLITE_IOERR_DELETE,
}


def _error(fault: Fault) -> apsw.Error:
    """What SQLite's own VFS makes of an errno: only ENOSPC of a write is "full"."""
    if fault.kind == "write" and fault.code == errno.ENOSPC:
        return apsw.FullError("simulated: no space left")
    if fault.kind == "create":
        return apsw.CantOpenError("simulated: cannot create the file")
    error = apsw.IOError(f"simulated: {os.strerror(fault.code)} ({fault.kind})")
    vars(error).update(result=apsw.SQLITE_IOERR, extendedresult=_EXTENDED[fault.kind])
    return error


class _File(apsw.VFSFile):
    def __init__(self, base: str, journal: Journal, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._journal = journal
        self._real: str | None = path
        self._path = None if path is None else journal.inside(path)
        self._fresh = bool(flags[0] & _LOGS)
        new = self._path is not None and not os.path.exists(path)
        if new and flags[0] & apsw.SQLITE_OPEN_CREATE:
            assert self._path is not None
            fault = journal.struck("create", self._path)
            if fault is not None:
                raise _error(fault)
        super().__init__(base, name, flags)
        if self._path is not None:
            journal.meet(self._path)

    def excepthook(self, kind: Any, error: Any, trace: Any) -> bool:
        """Errors are raised where the statement was; nothing is printed."""
        return True

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError:
            # At its end a connection for reading asks for a lock that it cannot have; SQLite goes on without it, while an
            # error that passes through here would be raised by close().
            raise apsw.BusyError("a file opened for reading cannot be locked for writing") from None

    def _mtime(self) -> int:
        assert self._real is not None
        return os.stat(self._real).st_mtime_ns

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._path is None:
            super().xWrite(data, offset)
            return
        fault = self._journal.struck("write", self._path)
        taken = bytes(data)
        if fault is not None:
            taken = taken[: fault.bytes_taken(taken, self._standing(offset, len(taken)))]
        if taken:
            super().xWrite(taken, offset)
            self._journal.note(Step("write", self._path, offset, taken, self._mtime()))
        if fault is not None:
            raise _error(fault)

    def _standing(self, offset: int, count: int) -> bytes:
        """The bytes at a place now."""
        count = min(count, self.xFileSize() - offset)
        return bytes(self.xRead(count, offset)) if count > 0 else b""

    def xTruncate(self, size: int) -> None:
        if self._path is not None:
            fault = self._journal.struck("cut", self._path)
            if fault is not None:
                raise _error(fault)
        super().xTruncate(size)
        if self._path is not None:
            self._journal.note(Step("cut", self._path, size, mtime_ns=self._mtime()))

    def xSync(self, flags: int) -> None:
        if self._path is None:
            super().xSync(flags)
            return
        fault = self._journal.struck("sync", self._path)
        if fault is not None:
            self._journal.note(Step("lost_sync", self._path))
            raise _error(fault)
        self._journal.note(Step("sync", self._path))
        if self._fresh:
            self._fresh = False
            self._journal.note(Step("sync_folder", os.path.dirname(self._path)))


class JournalVFS(apsw.VFS):
    """Writes down what SQLite does below the journal's folder, and fails where the journal says so."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._base = apsw.vfs_names()[0]
        super().__init__(f"journal-{uuid.uuid4()}", self._base, makedefault=True)

    def excepthook(self, kind: Any, error: Any, trace: Any) -> bool:
        """Errors are raised where the statement was; nothing is printed."""
        return True

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self._base, self._journal, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        below = self._journal.inside(filename)
        if below is not None:
            fault = self._journal.struck("remove", below)
            if fault is not None:
                raise _error(fault)
        super().xDelete(filename, syncdir)
        if below is not None:
            self._journal.note(Step("remove", below))
            if syncdir:
                self._journal.note(Step("sync_folder", os.path.dirname(below)))


@contextmanager
def vfs_under(journal: Journal) -> Iterator[JournalVFS]:
    """Every SQLite connection opened inside goes through a :class:`JournalVFS`; close them before the end."""
    vfs = JournalVFS(journal)
    try:
        yield vfs
    finally:
        vfs.unregister()


def checkpoint_as_sqlite_does(db: apsw.Connection, pages: int) -> None:
    """Checkpoint after each commit that leaves so many pages in the log; that it fails does not touch the commit."""

    def after_commit(db: apsw.Connection, name: str, logged: int) -> int:
        if logged >= pages:
            try:
                db.wal_checkpoint(name)
            except apsw.Error:
                pass
        return apsw.SQLITE_OK

    db.set_wal_hook(after_commit)
