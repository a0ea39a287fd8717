"""A network that fails on command: between client and server it forwards, cuts, loses, stalls, refuses, delays bytes."""

from __future__ import annotations

import os
import select
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec

__all__ = ["Address", "Counts", "Proxy"]

Address = tuple[str, int] | str
"""Host and port, or the path of a unix socket."""

_CHUNK_BYTES = 65_536
_HELD_BYTES_MAX = 1_048_576
"""So many bytes wait for a receiver that takes none; then the sender waits too."""
_CONNECT_SECONDS_MAX = 10.0
_ANSWER_SECONDS_MAX = 20.0


class Counts(msgspec.Struct):
    """What went through. A request is one piece of bytes from the client, an answer one from the server."""

    connections: int = 0
    requests: int = 0
    answers: int = 0
    bytes_to_server: int = 0
    bytes_to_client: int = 0
    bytes_dropped: int = 0
    cuts: int = 0
    """Connections that were cut."""
    lost: int = 0
    """Requests and answers that were lost as told by ``lose_request`` and ``lose_answer``."""


class _Side:
    """One direction of a connection: read from ``source``, held until it is due, written to ``target``."""

    def __init__(self, source: socket.socket, target: socket.socket, to_server: bool) -> None:
        self.source = source
        self.target = target
        self.to_server = to_server
        self.held: deque[tuple[float, bytes]] = deque()
        self.held_bytes = 0
        self.over = False
        """The source has said that it sends no more."""
        self.done = False
        """The target was told so."""


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.sides = (_Side(client, server, True), _Side(server, client, False))


class Proxy:
    """Stands in front of a server at ``target``; clients connect to :attr:`address`, a free port or a unix socket.

    Commands may be given from any thread and have been carried out when they return. The proxy lives in a thread of its
    own until :meth:`close`; ``with`` closes it.
    """

    def __init__(self, target: Address) -> None:
        self.target = target
        self._folder = ""
        if isinstance(target, str):
            self._folder = tempfile.mkdtemp(prefix="cs-")
            self._address: Address = os.path.join(self._folder, os.path.basename(target))
        else:
            self._address = ("127.0.0.1", 0)
        self._counts = Counts()
        self._connections: list[_Connection] = []
        self._stalled = False
        self._delay_seconds = 0.0
        self._plan: tuple[bool, int] | None = None
        self._told: deque[tuple[Callable[[], Any], threading.Event]] = deque()
        self._reader, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._listener: socket.socket | None = None
        self._listen()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        """Where clients connect to."""
        return self._address

    @property
    def counts(self) -> Counts:
        """The counts as they are now, complete up to what any client or server has seen."""
        if not self._closing:
            self._do(lambda: None)  # what the thread has sent, it has counted too
        return msgspec.structs.replace(self._counts)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- commands ---

    def cut(self) -> None:
        """Cut every connection now, with a reset where it is TCP; bytes on their way are lost. New ones are taken."""
        self._do(self._cut_all)

    def lose_request(self, after: int = 0) -> None:
        """Let so many pieces of bytes from clients pass; the next is not forwarded, and every connection is cut."""
        self._do(lambda: self._set_plan(True, after))

    def lose_answer(self, after: int = 0) -> None:
        """Let so many pieces of bytes from the server pass; the next is dropped, and every connection is cut.

        The server has done what it was asked, and the client never gets to know: the lost acknowledgement.
        """
        self._do(lambda: self._set_plan(False, after))

    def stall(self) -> None:
        """Forward nothing in either direction, and close nothing; new connections are taken and stall too."""
        self._do(lambda: self._set_stalled(True))

    def slow(self, seconds: float) -> None:
        """Hold every piece of bytes back for so long, in each direction; 0 ends it."""
        self._do(lambda: setattr(self, "_delay_seconds", seconds))

    def refuse(self) -> None:
        """Refuse new connections, as when no server listens, and cut those there are."""

        def refuse() -> None:
            self._deaf()
            self._cut_all()

        self._do(refuse)

    def heal(self) -> None:
        """Forward everything and take connections again, at the same address; what was cut stays cut."""

        def heal() -> None:
            self._plan, self._delay_seconds = None, 0.0
            self._set_stalled(False)
            if self._listener is None:
                self._listen()

        self._do(heal)

    def close(self) -> None:
        """Cut every connection and end; a second close does nothing."""
        if self._closing:
            return
        self._closing = True
        self._wake()
        self._thread.join(_ANSWER_SECONDS_MAX)
        os.close(self._waker)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _do(self, command: Callable[[], Any]) -> None:
        if self._closing:
            raise RuntimeError("the proxy was closed")
        done = threading.Event()
        self._told.append((command, done))
        self._wake()
        if not done.wait(_ANSWER_SECONDS_MAX):
            raise TimeoutError("the thread of the proxy does not answer")

    def _wake(self) -> None:
        try:
            os.write(self._waker, b"x")
        except BlockingIOError:
            pass  # it is full: the thread wakes anyway
        except BrokenPipeError:
            pass  # it was awake, has seen that it is to end, and has ended

    # --- in the thread of the proxy ---

    def _set_plan(self, requests: bool, after: int) -> None:
        self._plan = (requests, after)

    def _set_stalled(self, stalled: bool) -> None:
        self._stalled = stalled

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX if self._folder else socket.AF_INET)
        if not self._folder:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(self._address)
        listener.listen(128)
        listener.setblocking(False)
        if not self._folder:
            host, port = listener.getsockname()
            self._address = (host, port)
        self._listener = listener

    def _deaf(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            if isinstance(self._address, str):
                os.unlink(self._address)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            self._deaf()
            self._cut_all()
            os.close(self._reader)

    def _turn(self) -> None:
        """Wait for something that can be done, and do it."""
        now = time.monotonic()
        wanted, due = self._wanted(now)
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        ready = dict(poll.poll(None if due is None else max(due - now, 0) * 1000))
        if self._reader in ready:
            os.read(self._reader, 4096)
            while self._told:
                command, done = self._told.popleft()
                command()
                done.set()
            return  # what was ready may not be there any more
        for connection in list(self._connections):
            for side in connection.sides:
                if connection in self._connections:
                    self._serve(connection, side, ready)
        if self._listener is not None and self._listener.fileno() in ready:
            self._take()

    def _wanted(self, now: float) -> tuple[dict[int, int], float | None]:
        """What to wait for on which descriptor, and until when at most."""
        wanted: dict[int, int] = {}
        due: float | None = None
        if self._stalled:
            return wanted, due
        for connection in self._connections:
            for side in connection.sides:
                if not side.over and side.held_bytes < _HELD_BYTES_MAX:
                    wanted[side.source.fileno()] = wanted.get(side.source.fileno(), 0) | select.POLLIN
                if side.held and side.held[0][0] <= now:
                    wanted[side.target.fileno()] = wanted.get(side.target.fileno(), 0) | select.POLLOUT
                elif side.held:
                    due = side.held[0][0] if due is None else min(due, side.held[0][0])
        return wanted, due

    def _take(self) -> None:
        assert self._listener is not None
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        self._counts.connections += 1
        server = socket.socket(socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET)
        try:
            server.settimeout(_CONNECT_SECONDS_MAX)
            server.connect(self.target)
        except OSError:
            server.close()
            _reset(client)  # nobody is there: as near to "refused" as can be once a connection was taken
            return
        for one in (client, server):
            one.setblocking(False)
            if one.family == socket.AF_INET:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.append(_Connection(client, server))

    def _serve(self, connection: _Connection, side: _Side, ready: dict[int, int]) -> None:
        try:
            if not side.over and ready.get(side.source.fileno(), 0) & ~select.POLLOUT:
                self._receive(connection, side)
            if connection in self._connections:
                self._send(connection, side)
        except BlockingIOError:
            pass
        except OSError:
            self._cut(connection)  # one end is gone: the other gets to know

    def _receive(self, connection: _Connection, side: _Side) -> None:
        if side.held_bytes >= _HELD_BYTES_MAX:
            return
        data = side.source.recv(_CHUNK_BYTES)
        if not data:
            side.over = True
            return
        if side.to_server:
            self._counts.requests += 1
        else:
            self._counts.answers += 1
        if self._plan is not None and self._plan[0] == side.to_server:
            requests, left = self._plan
            if left <= 0:
                self._plan = None
                self._counts.lost += 1
                self._counts.bytes_dropped += len(data)
                self._cut_all()
                return
            self._plan = (requests, left - 1)
        side.held.append((time.monotonic() + self._delay_seconds, data))
        side.held_bytes += len(data)

    def _send(self, connection: _Connection, side: _Side) -> None:
        now = time.monotonic()
        while side.held and side.held[0][0] <= now:
            due, data = side.held[0]
            sent = side.target.send(data)
            side.held_bytes -= sent
            if side.to_server:
                self._counts.bytes_to_server += sent
            else:
                self._counts.bytes_to_client += sent
            if sent < len(data):
                side.held[0] = (due, data[sent:])
                return
            side.held.popleft()
        if side.over and not side.held and not side.done:
            side.done = True
            if all(one.done for one in connection.sides):
                self._connections.remove(connection)
                connection.client.close()
                connection.server.close()
            else:
                side.target.shutdown(socket.SHUT_WR)

    def _cut_all(self) -> None:
        for connection in list(self._connections):
            self._cut(connection)

    def _cut(self, connection: _Connection) -> None:
        self._connections.remove(connection)
        self._counts.cuts += 1
        self._counts.bytes_dropped += sum(side.held_bytes for side in connection.sides)
        _reset(connection.client)
        _reset(connection.server)


def _reset(one: socket.socket) -> None:
    """Close with a reset instead of a farewell, where the family has one."""
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    one.close()
