"""Answers that are sent piece by piece: while their request still arrives, or without end until the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from chatsnapshot.limits import KIB
from chatsnapshot.server.guard import BODY
from chatsnapshot.server.problems import Problem

__all__ = ["Streamed"]

_PART_BYTES = 256 * KIB


class Streamed(Response):
    """Sends pieces as they come.

    It reads from the request only where ``disconnected`` is given, to notice a client that goes away: without it the
    body belongs to whoever makes the pieces (Starlette's own streaming response would eat it). A client that takes
    nothing for ``stall_seconds`` is given up. ``after`` is called at the end, whatever the end was.
    """

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        *,
        status_code: int,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        disconnected: Receive | None = None,
        stall_seconds: float | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        self._pieces = pieces
        self._disconnected = disconnected
        self._stall_seconds = stall_seconds
        self._after = after
        super().__init__(status_code=status_code, media_type=media_type, headers=dict(headers or {}))
        del self.headers["content-length"]

    def also_after(self, act: Callable[[], None]) -> None:
        """Call something more at the end."""
        first = self._after

        def both() -> None:
            if first is not None:
                first()
            act()

        self._after = both

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send, scope.get(BODY, send)))
        waiting = [sending]
        if self._disconnected is not None:
            waiting.append(asyncio.ensure_future(_gone(self._disconnected)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            close = getattr(self._pieces, "aclose", None)
            if close is not None:
                await close()
            if self._after is not None:
                self._after()
        with suppress(asyncio.CancelledError):
            sending.result()

    async def _send(self, send: Send, send_body: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self._pieces:
            # In parts: the server holds what was given to it until the client has taken it.
            for start in range(0, len(piece), _PART_BYTES):
                part = piece if len(piece) <= _PART_BYTES else piece[start : start + _PART_BYTES]
                sent = send_body({"type": "http.response.body", "body": part, "more_body": True})
                if self._stall_seconds is None:
                    await sent
                else:
                    await _Within(self._stall_seconds, sent)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Within:
    """Waits for something; gives the whole answer up when it takes longer. Costs nothing where it does not wait."""

    __slots__ = ("_seconds", "_sent")

    def __init__(self, seconds: float, sent: Awaitable[None]) -> None:
        self._seconds = seconds
        self._sent = sent

    def __await__(self) -> Generator[Any, None, None]:
        steps = self._sent.__await__()
        try:
            first = next(steps)
        except StopIteration:
            return
        task = asyncio.current_task()
        assert task is not None
        timer = asyncio.get_running_loop().call_later(self._seconds, task.cancel)
        try:
            yield from _resumed(first, steps)
        finally:
            timer.cancel()


def _resumed(value: Any, steps: Generator[Any, None, None]) -> Generator[Any, None, None]:
    """A generator that has given its first value already, gone on with; what is thrown in comes to it."""
    try:
        while True:
            try:
                yield value
            except BaseException as error:
                value = steps.throw(error)
            else:
                value = next(steps)
    except StopIteration:
        return


async def _gone(receive: Receive) -> None:
    while True:
        try:
            if (await receive())["type"] == "http.disconnect":
                return
        except Problem:
            pass  # the key holds no longer: who makes the pieces finds that too, and ends the answer as an answer ends
