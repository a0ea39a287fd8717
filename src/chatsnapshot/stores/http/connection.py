"""Connections to a service: kept and used again, each call within its time, and what is known when one is lost."""

from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.http.address import Address

__all__ = ["Answer", "Connections", "Lost", "Silent", "Unreached"]

_KEPT = 8
_CONNECT_SECONDS = 5.0
_ANSWER_BYTES_MAX = 1024 * 1024 * 1024


class Unreached(Exception):
    """No connection could be made: nothing was sent."""


class Lost(Exception):
    """The connection went after something was sent: what the server did of it is not known."""


class Silent(Lost):
    """The server did not answer in time."""


class Answer(NamedTuple):
    """An answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """The connections of one store in this process. Safe for threads; every call has a connection of its own."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False
        self._used: set[http.client.HTTPConnection] = set()
        self._tls = _tls(address) if address.secure else None
        self._headers = {"Host": _host(address), "User-Agent": "chatsnapshot"}
        if address.key is not None:
            self._headers["Authorization"] = f"Bearer {address.key}"

    def call(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        seconds: float,
        started: Callable[[socket.socket], None] | None = None,
    ) -> Answer:
        """One request and its answer. ``seconds`` bounds each wait for bytes; ``started`` is given the socket in use.

        Raises :class:`Unreached`, :class:`Lost`, :class:`Silent`.
        """
        connection = self._take(seconds)
        whole = False
        with self._lock:
            self._used.add(connection)
        try:
            sock = connection.sock
            sock.settimeout(seconds)
            if started is not None:
                started(sock)
            connection.request(
                method, self._address.base + path, body=body, headers={**self._headers, **headers}
            )
            response = connection.getresponse()
            if (response.length or 0) > _ANSWER_BYTES_MAX:
                raise ValueError("the answer is too large")
            data = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            whole = response.isclosed() and not response.will_close
            return Answer(response.status, found, data)
        except TimeoutError:
            raise Silent(f"no answer within {seconds:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Lost(_told(error)) from None
        finally:
            with self._lock:
                self._used.discard(connection)
            if whole:
                self._give(connection)
            else:
                connection.close()

    def _take(self, seconds: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect(seconds)
            if _is_usable(connection):
                return connection
            connection.close()

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        address, within = self._address, min(seconds, _CONNECT_SECONDS)
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=within, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=within)
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise Unreached(_told(error)) from None
        except BaseException:
            connection.close()
            raise
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _give(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def after_fork(self) -> None:
        """In a forked child: the parent's connections are not ours; ending our copies does not end them."""
        self._lock = threading.Lock()
        idle, self._idle = [*self._idle, *self._used], []
        self._used = set()
        for connection in idle:
            if connection.sock is not None:
                os.close(connection.sock.detach())

    def abort(self) -> None:
        """Cut off the calls that are under way: they raise :class:`Lost`."""
        with self._lock:
            used = list(self._used)
        for connection in used:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except (OSError, AttributeError):
                pass

    def close(self) -> None:
        """End the connections that are not in use; those in use end with their call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        for connection in getattr(self, "_idle", ()):
            connection.close()


def _is_usable(connection: http.client.HTTPConnection) -> bool:
    """Whether a connection that was idle is still there: a server that ended it makes it readable."""
    sock = connection.sock
    if sock is None or sock.fileno() < 0:
        return False
    try:
        poll = select.poll()
        poll.register(sock, select.POLLIN | select.POLLERR | select.POLLHUP)
        return not poll.poll(0)
    except AttributeError:  # no poll on this system
        return not select.select([sock], [], [], 0)[0]
    except OSError:
        return False


def _tls(address: Address) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=address.ca_file)
    except OSError as error:  # also of ssl itself
        raise LedgerError(
            f"the certificates in ca_file={address.ca_file} cannot be read: {_told(error)}"
        ) from None


def _host(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else host_text(address.host)
    return host if address.port == (443 if address.secure else 80) else f"{host}:{address.port}"


def host_text(host: str) -> str:
    """A host name as it stands in a header."""
    return host if host.isascii() else host.encode("idna").decode()


def _told(error: BaseException) -> str:
    """An error in few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    text = getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
