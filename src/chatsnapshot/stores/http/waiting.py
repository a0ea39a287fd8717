"""Waits for the head of a ledger on a service to move, on a thread of its own while somebody follows: a hint, no more."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.http import wire
from chatsnapshot.stores.http.asking import Asking
from chatsnapshot.stores.http.connection import Lost

__all__ = ["Waiter"]

ASKED_SECONDS = 20.0
"""How long the service holds an answer back while nothing happens."""
_GRACE_SECONDS = 5.0
_IDLE_SECONDS = 10.0
"""So long after the last look of a follower, nobody is waited for any more."""
_PAUSE_SECONDS = (0.2, 5.0)


class Waiter:
    """Wakes followers. :meth:`want` is called by each of them again and again, and keeps it going."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._wakes: dict[Callable[[], None], float] = {}
        self._thread: threading.Thread | None = None
        self._sock: socket.socket | None = None
        self._over = threading.Event()

    def want(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when the head has moved, for as long as this is called now and then."""
        with self._lock:
            self._wakes[wake] = time.monotonic()
            if self._thread is None and not self._over.is_set():
                thread = threading.Thread(target=self._run, name="chatsnapshot-http-waiter", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return  # at exit: the follower looks by itself
                self._thread = thread

    def _wanted(self) -> list[Callable[[], None]]:
        with self._lock:
            late = time.monotonic() - _IDLE_SECONDS - ASKED_SECONDS
            self._wakes = {wake: at for wake, at in self._wakes.items() if at > late}
            if not self._wakes or self._over.is_set():
                self._thread = None
                return []
            return list(self._wakes)

    def _run(self) -> None:
        pause, position = _PAUSE_SECONDS[0], -1
        while wakes := self._wanted():
            try:
                found = self._ask(position)
            except (LedgerError, Lost):
                self._over.wait(pause)
                pause = min(pause * 2, _PAUSE_SECONDS[1])
                continue
            pause = _PAUSE_SECONDS[0]
            if found > position:
                position = found
                for wake in wakes:
                    wake()

    def _ask(self, position: int) -> int:
        body = wire.encode((position, ASKED_SECONDS))
        answer = self._asking.call("POST", "/store/wait", body, ASKED_SECONDS + _GRACE_SECONDS, self._use)
        self._sock = None
        found: int = self._asking.value(answer, int)
        return found

    def _use(self, sock: socket.socket) -> None:
        self._sock = sock

    def after_fork(self) -> None:
        """In a forked child the thread is gone."""
        self._reset()

    def close(self) -> None:
        """End the thread, also one that waits for an answer."""
        self._over.set()
        sock, thread = self._sock, self._thread
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)
