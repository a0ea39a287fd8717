"""One writer at a time on one file: a POSIX record lock between processes, a thread lock inside one.

A record lock is not inherited by fork and is gone with its owner, so a killed writer never leaves it behind. Closing any
descriptor of a file drops the process's record locks on it: the side file is therefore opened once a process and path.
"""

from __future__ import annotations

import errno
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from chatsnapshot.errors import LedgerError, StoreUnavailable

try:
    import fcntl
except ImportError:  # Windows is untested: processes are not kept apart there
    fcntl = None  # type: ignore[assignment]

__all__ = ["PATIENCE_SECONDS", "FileLock", "Hold", "file_lock", "interruptible"]


PATIENCE_SECONDS = 30.0
"""How long a look at a ledger or a copy of it waits for the lock, as SQLite does for its own."""

_POLL_SECONDS = 0.002


class FileLock:
    """The lock of one path in this process; ``with lock.held():`` takes it, for any thread. It does not nest.

    Ctrl-C may come between any two steps of the main thread, and can leave the lock taken. So each use is a
    :class:`Hold` of its own, and the next use by the same thread takes over what an interrupted one left.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.users = 0
        self._thread = threading.RLock()
        self._holder: Hold | None = None
        self._descriptor = -1

    def held(self, within: float | None = None) -> Hold:
        """The lock for one ``with`` block; entering raises :class:`StoreUnavailable` after ``within`` seconds."""
        return Hold(self, within)

    def take(self, holder: Hold, within: float | None) -> None:
        """Lock out other threads, then other processes; raises :class:`StoreUnavailable`."""
        deadline = None if within is None else time.monotonic() + within
        try:
            if not self._thread.acquire(timeout=-1 if within is None else within):
                raise self._kept(within)
            if self._holder is not None:
                self._thread.release()  # one of the two levels is the one that was left
            self._holder = holder
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if fcntl is not None:
                while not self._locked(deadline is None):
                    if deadline is not None and time.monotonic() > deadline:
                        raise self._kept(within)
                    time.sleep(_POLL_SECONDS)
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

    def _locked(self, wait: bool) -> bool:
        """Lock out other processes, unless one of them has the lock and this may not ``wait``."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except (BlockingIOError, PermissionError):
            if wait:
                raise
            return False  # EAGAIN or EACCES, as the system likes

    def _kept(self, within: float | None) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.path} stayed locked by another writer for {within:g} s; nothing was changed, find who holds it "
            "with chatsnapshot doctor, or try again"
        )

    def give(self, holder: Hold) -> None:
        """Unlock, unless a later use has taken over from this one."""
        if self._holder is not holder:
            return
        try:
            if fcntl is not None:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._holder = None
            self._thread.release()

    def recover(self, undo: Callable[[], None]) -> None:
        """Undo, then unlock, if this thread was interrupted while it had the lock."""
        if not self._thread.acquire(blocking=False):
            return
        mine = self._holder is not None
        self._thread.release()
        try:
            if mine:
                undo()
        finally:
            self._abandon()  # also where it was taken, and nothing more

    def _abandon(self) -> None:
        """Let go of whatever of the two locks this thread has."""
        if not self._thread.acquire(blocking=False):
            return  # another thread has them
        try:
            self._holder = None
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
        self._holder = None
        if self._descriptor >= 0:
            os.close(self._descriptor)  # the parent's record lock is not touched by this
            self._descriptor = -1


class Hold:
    """One use of a lock."""

    __slots__ = ("_lock", "_within")

    def __init__(self, lock: FileLock, within: float | None = None) -> None:
        self._lock = lock
        self._within = within

    @property
    def current(self) -> bool:
        """Whether the lock is held by this use, and not by a later one."""
        return self._lock._holder is self

    def __enter__(self) -> None:
        self._lock.take(self, self._within)

    def __exit__(self, *error: object) -> None:
        self._lock.give(self)


class Interruptible(Protocol):
    """A store whose writing methods are :func:`interruptible`."""

    _lock: FileLock | None

    def _undo(self) -> None:
        """Take back what an interrupted method had begun; called with the lock held."""


S = TypeVar("S", bound=Interruptible)
P = ParamSpec("P")
R = TypeVar("R")


def interruptible(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method leave no lock behind when Ctrl-C, or an error of a signal handler, ends it between two steps."""

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **options: P.kwargs) -> R:
        try:
            return method(self, *args, **options)
        except LedgerError:
            raise
        except BaseException:
            while self._lock is not None:
                try:
                    self._lock.recover(self._undo)
                    break
                except KeyboardInterrupt:
                    continue  # again; the first one goes on below
            raise

    return call


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
