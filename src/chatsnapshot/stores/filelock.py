"""One writer at a time on one file: a POSIX record lock between processes, a thread lock inside one.

A record lock is not inherited by fork and is gone with its owner, so a killed writer never leaves it behind. Closing any
descriptor of a file drops the process's record locks on it: the side file is therefore opened once a process and path.
"""

from __future__ import annotations

import errno
import os
import threading

from chatsnapshot.errors import StoreUnavailable

try:
    import fcntl
except ImportError:  # Windows is untested: processes are not kept apart there
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock", "file_lock"]


class FileLock:
    """The lock of one path in this process; ``with lock:`` takes it, for any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.users = 0
        # Re-entrant, so that what Ctrl-C left held is taken over by the next call of the same thread.
        self._thread = threading.RLock()
        self._held = False
        self._descriptor = -1

    def __enter__(self) -> FileLock:
        try:
            self._thread.acquire()
            if self._held:
                self._thread.release()  # one level of the two is the one that was left
            self._held = True
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if fcntl is not None:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            self._abandon()
            reason = errno.errorcode.get(error.errno or 0, "?")
            raise StoreUnavailable(
                f"the lock file {self.path} cannot be taken ({reason}: {error.strerror}); "
                "check that the folder is writable, or open the ledger with read_only=True"
            ) from error
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if fcntl is not None:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._held = False
            self._thread.release()

    def _abandon(self) -> None:
        """Let go of whatever of the two locks this thread has."""
        if not self._thread.acquire(blocking=False):
            return  # another thread has them
        try:
            self._held = False
            if fcntl is not None and self._descriptor >= 0:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._thread.release()
            try:
                self._thread.release()
            except RuntimeError:
                pass  # it was not held before

    def close(self) -> None:
        """One user fewer; the last one closes the descriptor."""
        with _registry:
            self.users -= 1
            if self.users > 0:
                return
            if _locks.get(self.path) is self:
                del _locks[self.path]
            # Inside the registry's lock: closing would drop the record lock of a successor on the same path.
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)

    def after_fork(self) -> None:
        """In a forked child: a new thread lock and, at the next use, a descriptor of its own."""
        self._thread = threading.RLock()
        self._held = False
        if self._descriptor >= 0:
            os.close(self._descriptor)  # the parent's record lock is not touched by this
            self._descriptor = -1


_registry = threading.Lock()
_locks: dict[str, FileLock] = {}


def file_lock(path: str) -> FileLock:
    """The one lock of this process for a path; call :meth:`FileLock.close` when done with it."""
    path = os.path.realpath(path)
    with _registry:
        lock = _locks.get(path)
        if lock is None:
            lock = _locks[path] = FileLock(path)
        lock.users += 1
        return lock


def _after_fork_in_child() -> None:
    global _registry
    _registry = threading.Lock()
    for lock in _locks.values():
        lock.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
