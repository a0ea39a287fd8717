"""Hints for tails: a change stream on the head document of a ledger, in a thread of its own while somebody waits.

Hints are never relied on: a tail looks at the head by itself too, more often while there is no stream.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.errors import MAPPED

__all__ = ["Watcher"]

AWAIT_MS = 500
"""The server answers a waiting stream after this at the latest, so that a close is noticed."""

_IDLE_SECONDS = 10.0
_PAUSE_SECONDS_MAX = 5.0
_JOIN_SECONDS = 2.0
_REFUSED = frozenset({13, 40573, 40324, 115, 59})
"""No privilege, or a server without change streams: not asked again."""


class Watcher:
    """Calls back when the head of one ledger has changed; ends when nobody has asked for ten seconds."""

    def __init__(self, collections: Callable[[], Collections], ledger: str) -> None:
        self._collections = collections
        self._ledger = ledger
        self._lock = threading.Lock()
        self._wakes: dict[Callable[[], None], float] = {}
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._refused = False
        self.live = False
        """Whether hints come."""

    def watch(self, wake: Callable[[], None]) -> None:
        """See ``Store.watch``."""
        with self._lock:
            self._wakes[wake] = time.monotonic()
            if self._thread is not None or self._refused or self._ended.is_set():
                return
            self._thread = threading.Thread(target=self._run, name="chatsnapshot-mongodb-watch", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter is shutting down
                self._thread = None

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        pause = 0.05
        while self._wanted():
            try:
                self._follow()
                pause = 0.05
            except MAPPED as error:
                if getattr(error, "code", None) in _REFUSED:
                    self._refused = True
                    break
                self._ended.wait(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            finally:
                self.live = False
        with self._lock:
            self._thread = None

    def _follow(self) -> None:
        """Follow one stream; the driver resumes it where it was after what can be resumed from."""
        wanted: list[Document] = [{"$match": {"documentKey._id": self._ledger}}, {"$project": {"_id": 1}}]
        with self._collections().head.watch(wanted, max_await_time_ms=AWAIT_MS) as stream:
            self.live = True
            self._wake()  # for what came between the look of a tail and the opening of the stream
            while self._wanted() and stream.alive:
                if stream.try_next() is not None:
                    self._wake()

    def _wanted(self) -> bool:
        if self._ended.is_set():
            return False
        since = time.monotonic() - _IDLE_SECONDS
        with self._lock:
            self._wakes = {wake: asked for wake, asked in self._wakes.items() if asked > since}
            return bool(self._wakes)

    def _wake(self) -> None:
        with self._lock:
            wakes = list(self._wakes)
        for wake in wakes:
            wake()
