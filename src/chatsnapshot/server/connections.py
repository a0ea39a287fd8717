"""Bounds what a connection may cost before and after its requests, and lets a refusal reach a client that still sends."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from chatsnapshot.server.guard import HEADERS
from chatsnapshot.server.problems import Problem, problem_response

__all__ = ["bounded"]

_UNREADABLE = problem_response(
    Problem(
        400,
        "framing",
        "this cannot be read as a request of HTTP, or its head is larger than 64 KiB",
        headers={"Connection": "close"},
    )
)


class _Lingering:
    """A transport that is closed once more when its client still sends: until then what comes is passed over.

    Closed at once, with bytes unread, the system resets the connection, and the answer is lost on its way.
    """

    def __init__(self, transport: Any, connection: _Bounded) -> None:
        self._transport = transport
        self._connection = connection
        self.lingers = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingers or self._transport.is_closing()

    def close(self) -> None:
        if self.lingers or self._transport.is_closing() or not self._connection.expects_more():
            self._transport.close()
            return
        self.lingers = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()


class _Bounded(H11Protocol):
    """uvicorn's protocol with limits that it lacks.

    A connection on which no request is under way ends after ``head_seconds_max``, however many bytes of a head, or of a
    body that nobody wants any more, come. One whose client takes nothing of an answer for ``stall_seconds_max`` ends too.
    Of more than ``connections_max`` the one that is idle for longest makes room.
    """

    head_seconds_max = 15.0
    stall_seconds_max = 60.0
    connections_max = 4_000

    _idle_since: float
    _unsent = 0
    _stalled_since: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Lingering(transport, self))  # type: ignore[arg-type]
        self._idle_since = self.loop.time()
        self._timer = self.loop.call_later(self._every(), self._look)
        if len(self.connections) > self.connections_max:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)

    def expects_more(self) -> bool:
        """Whether the client may still be sending what nobody wants any more."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, as a problem like any other; where an answer has begun it can only end."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        given = {name for name, _ in _UNREADABLE.raw_headers}
        headers = [*_UNREADABLE.raw_headers, *(one for one in HEADERS if one[0] not in given)]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(_UNREADABLE.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self._idle_since = self.loop.time()
        self.transport.close()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def _busy(self) -> bool:
        """Whether a request is under way, whose body the service times itself, or an answer not taken yet."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering or self.transport.get_write_buffer_size() > 0

    def _every(self) -> float:
        return min(self.head_seconds_max, self.stall_seconds_max) / 4

    def _look(self) -> None:
        now = self.loop.time()
        if self._busy():
            self._idle_since = now
        elif now - self._idle_since > self.head_seconds_max:
            self.transport.abort()
            return
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._stalled_since = None
        elif self._stalled_since is None:
            self._stalled_since = now
        elif now - self._stalled_since > self.stall_seconds_max:
            self.transport.abort()
            return
        self._unsent = unsent
        self._timer = self.loop.call_later(self._every(), self._look)

    def _make_room(self) -> None:
        idle = [one for one in self.connections if isinstance(one, _Bounded) and not one._busy()]
        oldest = min(idle, key=lambda one: one._idle_since, default=self)
        oldest.transport.abort()
        self.connections.discard(oldest)


def bounded(
    *, head_seconds_max: float, stall_seconds_max: float, connections_max: int
) -> type[asyncio.Protocol]:
    """The protocol for ``uvicorn.Config(http=…)`` with these limits."""
    limits = {
        "head_seconds_max": head_seconds_max,
        "stall_seconds_max": stall_seconds_max,
        "connections_max": connections_max,
    }
    return type("Bounded", (_Bounded,), limits)
