"""Hints for tails: a thread that listens for commits of other processes, on a connection of its own."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.postgresql.connections import Connection, Connections
from chatsnapshot.stores.postgresql.driver import psycopg

__all__ = ["Listener"]

_PAUSE_SECONDS_MIN = 0.1
_PAUSE_SECONDS_MAX = 5.0


class Listener:
    """Calls everybody who waits when a commit was announced, and each time it is connected anew.

    The thread begins with the first who waits. While the connection is gone, tails look at the head by themselves.
    """

    def __init__(self, connections: Connections, ledger: int) -> None:
        self._connections = connections
        self._channel = f"chatsnapshot_{ledger:d}"
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._pipe: tuple[int, int] | None = None
        self._over = False

    def add(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` from now on; a second time changes nothing."""
        if wake in self._waiting:
            return
        with self._lock:
            if self._over or wake in self._waiting:
                return
            self._waiting.append(wake)
            if self._thread is None:
                self._pipe = os.pipe()
                # A daemon: a ledger that nobody closes does not keep the process alive.
                self._thread = threading.Thread(target=self._run, name="chatsnapshot-listen", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread and its connection."""
        with self._lock:
            self._over = True
            thread, self._thread = self._thread, None
        if thread is None or self._pipe is None:
            return
        os.write(self._pipe[1], b"x")
        if thread is not threading.current_thread():
            thread.join()
        for descriptor in self._pipe:
            os.close(descriptor)
        self._pipe = None

    def leave(self) -> None:
        """In a forked child: the thread is the parent's; the connection is left open."""
        if self._connection is not None:
            leave_open([self._connection])
        for descriptor in self._pipe or ():
            os.close(descriptor)
        self.__init__(self._connections, int(self._channel.rpartition("_")[2]))  # type: ignore[misc]

    def _run(self) -> None:
        pause = _PAUSE_SECONDS_MIN
        while not self._over:
            try:
                connection = self._connections.connect()
                self._connection = connection
                try:
                    connection.execute(f'LISTEN "{self._channel}"')
                    self._wake()  # what was announced meanwhile is lost
                    pause = _PAUSE_SECONDS_MIN
                    self._listen(connection)
                finally:
                    self._connection = None
                    connection.close()
            except (psycopg.Error, LedgerError, OSError):
                pass  # the server is away, or refuses: tails look by themselves, and this tries again
            if self._ended(pause):
                return
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def _listen(self, connection: Connection) -> None:
        """Until the connection is lost or the listener is closed."""
        assert self._pipe is not None
        while not self._over:
            ready, _, _ = select.select([connection.pgconn.socket, self._pipe[0]], [], [])
            if self._pipe[0] in ready:
                return
            connection.pgconn.consume_input()
            announced = False
            while connection.pgconn.notifies() is not None:
                announced = True
            if announced:
                self._wake()

    def _ended(self, seconds: float) -> bool:
        """Wait that long; true when the listener was closed."""
        pipe = self._pipe
        return self._over or pipe is None or bool(select.select([pipe[0]], [], [], seconds)[0])

    def _wake(self) -> None:
        for wake in self._waiting:
            wake()
