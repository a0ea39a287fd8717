"""Notices that the interpreter begins to shut down, and lets every recorder store what it has accepted.

Threads that are not daemons are joined before ``atexit`` handlers run, so a handler would come too late. One watch thread
a process joins the main thread instead, and then every other thread that is not a daemon: they are part of a normal
exit and may record to their end.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Protocol

__all__ = ["begun", "own", "start", "wait_for_others", "waits", "watch"]


class Drainable(Protocol):
    """Something that can be told to take nothing more and to finish."""

    def shut(self, reason: str) -> None:
        """Take nothing more."""


_open: weakref.WeakSet[Drainable] = weakref.WeakSet()
_own: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_waiting: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_lock = threading.Lock()
_watch: threading.Thread | None = None
_main = threading.main_thread()


def watch(recorder: Drainable) -> None:
    """Have a recorder shut when the interpreter ends."""
    with _lock:
        _open.add(recorder)


def own(thread: threading.Thread) -> None:
    """Say that a thread is one of ours: it ends when it is told to, so nobody waits for it here."""
    _own.add(thread)


def waits(thread: threading.Thread) -> None:
    """Say that a thread calls :func:`wait_for_others`: recorders stay open for it, and no other such one waits."""
    _waiting.add(thread)


def wait_for_others() -> None:
    """Wait until the main thread has ended, and every other thread that the interpreter waits for."""
    _main.join()
    while others := [thread for thread in _others() if thread not in _waiting]:
        others[0].join()


def begun() -> bool:
    """Whether the interpreter is shutting down: the main thread and all other threads but daemons have ended."""
    return _main_ended() and not _others()


def _main_ended() -> bool:
    if threading.get_ident() != _main.ident or sys.version_info >= (3, 13):
        return not _main.is_alive()
    # Before 3.13 is_alive() of one's own thread, interrupted by Ctrl-C, marks the thread as ended.
    return bool(getattr(_main, "_is_stopped", False))


def _others() -> list[threading.Thread]:
    """Threads that the interpreter waits for at its end, other than the main thread and ours."""
    return [
        thread
        for thread in threading.enumerate()
        if not thread.daemon and thread is not _main and thread not in _own and thread.is_alive()
    ]


def start() -> None:
    """Start the watch thread, once a process."""
    global _watch
    with _lock:
        if _watch is None:
            watching = threading.Thread(target=_run, name="chatsnapshot-exit", daemon=False)
            _own.add(watching)
            watching.start()
            _watch = watching


def _run() -> None:
    _main.join()
    while others := _others():
        others[0].join()
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
