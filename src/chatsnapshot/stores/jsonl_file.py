"""Every touch of a JSONL ledger's files: one small object, so that a simulator of lost power can stand in for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from chatsnapshot.errors import LedgerError, ReadOnly, StoreFull, StoreUnavailable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["FULL", "FileIO", "Stamp", "Unwritten", "io_error", "replace_file", "write_all"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write that say that there is no room."""

_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
_MODE = 0o600


class Stamp(NamedTuple):
    """What tells that a file is as it was: inode, bytes, time of the last change in nanoseconds."""

    inode: int
    bytes: int
    mtime_ns: int


class FileIO:
    """The operating system's files. A subclass may count, fail, or forget what was not synced.

    Methods raise ``OSError`` as the system does. With ``durability="os"`` the sync methods do nothing.
    """

    def __init__(self, durability: str = "full") -> None:
        self.syncs = durability == "full"

    @contextmanager
    def sealing(self) -> Iterator[None]:
        """Inside, the sync methods sync with ``durability="os"`` too: nobody looks at a sealed segment's end again."""
        before, self.syncs = self.syncs, True
        try:
            yield
        finally:
            self.syncs = before

    def open_to_read(self, path: str) -> int:
        """A descriptor for :meth:`read`."""
        return os.open(path, os.O_RDONLY | _CLOSE_ON_EXEC)

    def open_to_append(self, path: str) -> int:
        """A descriptor for :meth:`write` at the end of an existing file."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | _CLOSE_ON_EXEC)

    def open_to_change(self, path: str) -> int:
        """A descriptor for :meth:`overwrite` and :meth:`truncate` of an existing file."""
        return os.open(path, os.O_RDWR | _CLOSE_ON_EXEC)

    def create(self, path: str) -> int:
        """A descriptor for :meth:`write` into a new empty file; one of that name is emptied."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOSE_ON_EXEC, _MODE)

    def close(self, descriptor: int) -> None:
        """Let go of a descriptor."""
        os.close(descriptor)

    def read(self, descriptor: int, count: int, offset: int) -> bytes:
        """Up to ``count`` bytes from ``offset``; fewer at the end of the file."""
        return os.pread(descriptor, count, offset)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write at the end; gives how many bytes went in."""
        return os.write(descriptor, data)

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        """Write over bytes that are there; gives how many."""
        return os.pwrite(descriptor, data, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Bring data and size to the device; F_FULLFSYNC where the system has it."""
        if not self.syncs:
            return
        if _FULL_SYNC is not None:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        else:
            getattr(os, "fdatasync", os.fsync)(descriptor)

    def sync_folder(self, folder: str) -> None:
        """Bring the names in a folder to the device."""
        if not self.syncs:
            return
        descriptor = os.open(folder, os.O_RDONLY | _CLOSE_ON_EXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, path: str, to: str) -> None:
        """Give a file another name; what had that name is gone."""
        os.replace(path, to)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def make_folder(self, path: str) -> None:
        """Make a folder that only its owner can enter."""
        os.mkdir(path, 0o700)

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none when there is no folder."""
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def stamp(self, path: str) -> Stamp | None:
        """The stamp of a file, or ``None`` when there is none."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)

    def chunks(self, descriptor: int, start: int, end: int, size: int = 1 << 20) -> Iterator[bytes]:
        """The bytes from ``start`` to before ``end``, in pieces; ends early where the file does."""
        while start < end:
            data = self.read(descriptor, min(size, end - start), start)
            if not data:
                return
            yield data
            start += len(data)


class Unwritten(Exception):
    """A write failed after ``written`` bytes had gone in; the cause is the ``OSError``."""

    def __init__(self, error: OSError, written: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.written = written


def write_all(files: FileIO, descriptor: int, data: bytes) -> None:
    """Write everything: one call, and more only where the system took a part. Raises :class:`Unwritten`."""
    written = 0
    try:
        written = files.write(descriptor, data)
        while written < len(data):
            step = files.write(descriptor, memoryview(data)[written:])
            if step <= 0:
                raise OSError(errno.EIO, "a write took nothing")
            written += step
    except OSError as error:
        raise Unwritten(error, written) from error


def replace_file(files: FileIO, path: str, parts: Iterator[bytes]) -> None:
    """Put a new file in the place of ``path``: written beside it, synced, renamed, folder synced.

    After a crash the old file is there, or the new one whole. Raises ``OSError``.
    """
    beside = path + ".new"
    descriptor = files.create(beside)
    try:
        for part in parts:
            write_all(files, descriptor, part)
        files.sync(descriptor)
    except Unwritten as failed:
        raise failed.error from failed
    finally:
        files.close(descriptor)
    files.rename(beside, path)
    files.sync_folder(folder_of(path))


def folder_of(path: str) -> str:
    """The folder that a file lies in."""
    return os.path.dirname(path) or "."


def io_error(error: OSError, path: str) -> LedgerError:
    """The error of ours for one that came before anything was written."""
    reason = f"{errno.errorcode.get(error.errno or 0, '?')}: {error.strerror or error}"
    if error.errno in FULL:
        return StoreFull(f"no space left to write to {path} ({reason}); nothing was stored, free some space")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ReadOnly(
            f"{path} cannot be used ({reason}); check its permissions or open with read_only=True"
        )
    return StoreUnavailable(f"{path} cannot be used ({reason}); nothing was stored, try again")
