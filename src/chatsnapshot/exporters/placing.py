"""Puts an export in its place whole: written beside under another name, synced, then renamed; or nothing is left."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.exporters.base import Sink
from chatsnapshot.stores.open import locate
from chatsnapshot.stores.placing import exists, place_new

__all__ = ["Counting", "check_not_of_ledger", "placed"]

_BESIDE = re.compile(r"(-wal|-shm|-journal|\.(lock|index|states|blobs|torn|doubt|\d+)\b.*)?", re.DOTALL)
"""What follows the name of a ledger in the names of its own files."""


class Counting:
    """Passes bytes on and counts them; looks enough like a file for libraries that write to one."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.bytes = 0

    def write(self, data: bytes) -> int:
        """Pass the bytes on."""
        self._sink.write(data)
        size = memoryview(data).nbytes
        self.bytes += size
        return size

    def tell(self) -> int:
        """How many bytes were written."""
        return self.bytes

    def flush(self) -> None:
        """The owner of the stream flushes it."""

    def close(self) -> None:
        """The owner of the stream closes it."""


def check_not_of_ledger(path: str, url: str) -> None:
    """Refuse to write over a file of the ledger at ``url``."""
    ledger = locate(url)
    if not ledger.path:
        return  # in memory, or on a server
    path, own = os.path.realpath(path), os.path.realpath(ledger.path)
    if (path.startswith(own) and _BESIDE.fullmatch(path[len(own) :])) or (
        os.path.exists(path) and os.path.samefile(path, own)
    ):
        raise InvalidEvent(f"{path} belongs to the ledger that is exported; name another file")


@contextmanager
def placed(path: str, *, force: bool) -> Iterator[IO[bytes]]:
    """A file that gets the name ``path`` when the block ends well, and is removed when it does not.

    It can be read by its owner alone; one that replaces a file (``force``) takes over that file's mode. Raises
    :class:`~chatsnapshot.errors.LedgerError` for a name that is taken, :class:`InvalidEvent` for one that is no place
    for a file, ``OSError``.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        raise InvalidEvent(f"{path} is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise InvalidEvent(f"the folder {folder} does not exist; create it first")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise InvalidEvent(f"{path} is no regular file; export to standard output for that")
    if os.path.lexists(path) and not force:
        raise exists(path)
    mode = os.stat(path).st_mode & 0o777 if os.path.lexists(path) else 0o600
    # Short, so that a name of any length that is allowed has one beside it.
    part = os.path.join(folder, f".export-{secrets.token_hex(8)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with open(descriptor, "wb", buffering=256 * 1024) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            os.chmod(part, mode)
            os.replace(part, path)
        else:
            place_new(part, path)
        _sync_folder(folder)
    finally:
        try:
            os.unlink(part)
        except FileNotFoundError:
            pass


def _sync_folder(folder: str) -> None:
    """Make a new name durable where the file system lets folders be synced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
