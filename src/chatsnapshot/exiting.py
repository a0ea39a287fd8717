"""Notices that the interpreter begins to shut down, and lets every recorder store what it has accepted.

Threads that are not daemons are joined before ``atexit`` handlers run, so a handler would come too late. One watch thread
a process joins the main thread instead, which returns exactly when shutdown begins.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

__all__ = ["begun", "start", "watch"]


class Drainable(Protocol):
    """Something that can be told to take nothing more and to finish."""

    def shut(self, reason: str) -> None:
        """Take nothing more."""


_open: weakref.WeakSet[Drainable] = weakref.WeakSet()
_lock = threading.Lock()
_watch: threading.Thread | None = None
_main = threading.main_thread()


def watch(recorder: Drainable) -> None:
    """Have a recorder shut when the interpreter ends."""
    with _lock:
        _open.add(recorder)


def begun() -> bool:
    """Whether the interpreter is shutting down."""
    return not _main.is_alive()


def start() -> None:
    """Start the watch thread, once a process."""
    global _watch
    with _lock:
        if _watch is None:
            _watch = threading.Thread(target=_run, name="chatsnapshot-exit", daemon=False)
            _watch.start()


def _run() -> None:
    _main.join()
    with _lock:
        recorders = list(_open)
    for recorder in recorders:
        recorder.shut("the interpreter is shutting down")


def _after_fork_in_child() -> None:
    global _lock, _watch, _main
    _lock = threading.Lock()
    _watch = None
    _main = threading.main_thread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
