"""Answers that are sent piece by piece: while their request still arrives, or without end until the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from chatsnapshot.limits import KIB

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
        sending = asyncio.ensure_future(self._send(send))
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

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self._pieces:
            # In parts: the server holds what was given to it until the client has taken it.
            for start in range(0, len(piece), _PART_BYTES):
                part = piece if len(piece) <= _PART_BYTES else piece[start : start + _PART_BYTES]
                sent = send({"type": "http.response.body", "body": part, "more_body": True})
                if self._stall_seconds is None:
                    await sent
                else:
                    await _within(self._stall_seconds, sent)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _within(seconds: float, sent: Awaitable[None]) -> None:
    """Wait for it; give the whole answer up when it takes longer. Costs no task of its own where it does not wait."""
    task = asyncio.current_task()
    assert task is not None
    timer = asyncio.get_running_loop().call_later(seconds, task.cancel)
    try:
        await sent
    finally:
        timer.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
