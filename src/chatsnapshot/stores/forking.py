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
"""After this a fork goes on whatever is under way, because the forking thread itself may be in there."""


class _AtWork:
    """``with at_work:`` around every use of a database library."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._forking = 0

    def __enter__(self) -> None:
        with self._changed:
            while self._forking:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._inside -= 1
            if self._forking:
                self._changed.notify_all()

    def before_fork(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        with self._changed:
            self._forking += 1
            while self._inside and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())

    def after_fork_in_parent(self) -> None:
        with self._changed:
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
