"""Lets a process fork only while no thread is inside a database library.

A child inherits the library's memory as it is at the fork: a lock that another thread held there is held for ever, and
a file lock is believed to be its own. So a fork waits for the statements under way, and new ones wait for the fork.
"""

from __future__ import annotations

import os
import threading
import time

__all__ = ["at_work"]

WAIT_SECONDS = 2.0
"""After this a fork goes on, whatever is under way."""


class _AtWork:
    """``with at_work:`` around every use of a database library.

    Threads are counted by name, so that what Ctrl-C left counted is made good by the next use of the same thread.
    """

    def __init__(self) -> None:
        # Ctrl-C can come between the steps of a Condition written in Python, not of a lock: blocks take the lock.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._inside: set[int] = set()
        self._forking = 0

    def __enter__(self) -> None:
        with self._lock:
            while self._forking:
                self._changed.wait()
            self._inside.add(threading.get_ident())

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside.discard(threading.get_ident())
            if self._forking:
                self._changed.notify_all()

    def before_fork(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        with self._lock:
            self._forking += 1
            while self._inside - {threading.get_ident()} and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())

    def after_fork_in_parent(self) -> None:
        with self._lock:
            self._forking -= 1
            self._changed.notify_all()

    def after_fork_in_child(self) -> None:
        self.__init__()  # type: ignore[misc]


at_work = _AtWork()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=at_work.before_fork,
        after_in_parent=at_work.after_fork_in_parent,
        after_in_child=at_work.after_fork_in_child,
    )
