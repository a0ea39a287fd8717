"""Connections to one database: made as a ledger needs them, handed from thread to thread, left behind in a fork.

A pool of our own, because that of the driver has threads, which do not follow a fork and would keep a process alive.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from chatsnapshot.errors import LedgerClosed, LedgerError, StoreUnavailable
from chatsnapshot.stores.leaving import leave_open
from chatsnapshot.stores.postgresql.answering import AnsweringConnection, Stalled
from chatsnapshot.stores.postgresql.arrays import register
from chatsnapshot.stores.postgresql.driver import psycopg
from chatsnapshot.stores.postgresql.errors import is_lost, mapped, not_connected

__all__ = ["Connection", "Connections", "parameters"]

T = TypeVar("T")

Connection = psycopg.Connection[Any]

_IDLE_MAX = 4
_DEFAULTS = {
    "application_name": "chatsnapshot",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    # A dead network is noticed within a minute, where the system's defaults take hours.
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


def parameters(target: str, shown: str, *, read_only: bool) -> dict[str, str]:
    """What libpq is given: the URL taken apart, over defaults of ours. Raises :class:`LedgerError`, without secrets."""
    try:
        given = psycopg.conninfo.conninfo_to_dict(target)
    except psycopg.Error as error:
        text = str(error).strip().partition("\n")[0]
        if ":" in text and "option" not in text and "parameter" not in text:
            text = "it is no URL that libpq can read"
        raise LedgerError(f"{shown} cannot be used ({text}); correct the URL") from None
    found = {**_DEFAULTS, **{key: str(value) for key, value in given.items()}}
    if read_only:
        options = found.get("options", os.environ.get("PGOPTIONS", ""))
        found["options"] = f"{options} -c default_transaction_read_only=on".strip()
    return found


class Connections:
    """Lends connections; each is used by one thread at a time, and one that failed does not come back."""

    def __init__(self, target: str, shown: str, *, read_only: bool = False) -> None:
        self.shown = shown
        self._parameters = parameters(target, shown, read_only=read_only)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"Connections({self.shown!r})"

    def connect(self) -> Connection:
        """A new connection, in autocommit; raises :class:`StoreUnavailable`."""
        try:
            # By keywords: libpq's own environment variables and password file fill in what is missing.
            made = AnsweringConnection.connect("", autocommit=True, **self._parameters)  # type: ignore[arg-type]
        except psycopg.Error as error:
            raise not_connected(error, self.shown, self._parameters.get("password")) from None
        register(made)
        made.ask_about = self._is_at_work
        return made

    def _is_at_work(self, process: int) -> bool | None:
        """Whether the server does something for one of its processes, asked on another connection."""
        try:
            with psycopg.connect("", autocommit=True, **self._parameters) as other:  # type: ignore[arg-type]
                found = other.execute(
                    "SELECT state FROM pg_stat_activity WHERE pid = %s", (process,)
                ).fetchone()
        except psycopg.Error:
            return False
        return None if found is None or found[0] is None else not found[0].startswith("idle")

    def ask(self, question: Callable[[Connection], T]) -> T:
        """The answer to what only reads; asked once more when the connection is lost meanwhile."""
        try:
            with self.lent() as connection:
                return question(connection)
        except StoreUnavailable as error:
            cause = error.__cause__
            if not isinstance(cause, psycopg.Error) or isinstance(cause, Stalled) or not is_lost(cause):
                raise
        with self.lent() as connection:
            return question(connection)

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection for one ``with`` block; an error of the driver becomes one of ours, with nothing committed."""
        connection = self._take()
        try:
            yield connection
        except psycopg.Error as error:
            self._give(connection, sound=False)
            raise mapped(error, self.shown) from error
        except LedgerError:
            self._give(connection)
            raise
        except BaseException:
            self._give(connection, sound=False)
            raise
        self._give(connection)

    def _take(self) -> Connection:
        while True:
            with self._lock:
                if self._closed:
                    raise LedgerClosed(f"the ledger {self.shown} was closed; open it again")
                found = self._idle.pop() if self._idle else None
            if found is None:
                found = self.connect()
            elif not _is_alive(found):
                found.close()
                continue
            with self._lock:
                self._used.add(found)
            return found

    def _give(self, connection: Connection, sound: bool = True) -> None:
        """Take a connection back; it is closed when it failed, is inside a transaction, or enough are idle."""
        sound = sound and not connection.closed and connection.info.transaction_status == _IDLE
        with self._lock:
            self._used.discard(connection)
            if sound and not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def leave(self) -> None:
        """In a forked child: give up the connections, also those that threads of the parent use, without closing them."""
        self._lock = threading.Lock()
        left = [*self._idle, *self._used]
        self._idle, self._used = [], set()
        leave_open(left)

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


_IDLE = psycopg.pq.TransactionStatus.IDLE


def _is_alive(connection: Connection) -> bool:
    """Whether an idle connection can be used: a server that has gone away has left its farewell to be read."""
    try:
        if not _readable(connection.pgconn.socket):
            return True
        connection.pgconn.consume_input()
        return not _readable(connection.pgconn.socket)
    except (psycopg.Error, OSError, ValueError):
        return False


if hasattr(select, "poll"):

    def _readable(descriptor: int) -> bool:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return bool(poller.poll(0))

else:

    def _readable(descriptor: int) -> bool:
        return bool(select.select([descriptor], [], [], 0)[0])
