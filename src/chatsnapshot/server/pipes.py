"""Hands a body that arrives on the event loop to a thread that reads it, with a bound on what is between them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from chatsnapshot.limits import KIB

__all__ = ["Pipe"]

_BYTES_MAX = 512 * KIB
_QUIET_SECONDS = 0.05
"""So long nothing arrives before what is there is committed: a batch is not cut by the gaps between packets."""


class Pipe:
    """Filled with :meth:`feed` on the loop, read with :meth:`read1` in a thread (a ``ByteStream``)."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._room.set()
        self._there = threading.Condition()
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._ended = False
        self._error: BaseException | None = None
        self._abandoned = False

    async def feed(self, piece: bytes) -> bool:
        """Add a piece, waiting for room; false when nobody reads any more."""
        await self._room.wait()
        with self._there:
            if self._abandoned:
                return False
            self._pieces.append(piece)
            self._bytes += len(piece)
            if self._bytes >= _BYTES_MAX:
                self._room.clear()
            self._there.notify()
        return True

    def end(self, error: BaseException | None = None) -> None:
        """No more will come; ``error`` is raised where the reader comes to the end."""
        with self._there:
            self._ended, self._error = True, error
            self._there.notify()

    def abandon(self) -> None:
        """Called by the reader: nobody reads on."""
        with self._there:
            self._abandoned = True
            self._pieces.clear()
        self._make_room()

    def more(self) -> bool:
        """Whether something is there, or comes within a moment."""
        with self._there:
            return bool(self._there.wait_for(lambda: self._pieces or self._ended, _QUIET_SECONDS))

    def read1(self, size: int, /) -> bytes:
        """What is there, one piece; waits for it; empty at the end."""
        with self._there:
            while not self._pieces:
                if self._error is not None:
                    raise self._error
                if self._ended:
                    return b""
                self._there.wait()
            piece = self._pieces.popleft()
            if len(piece) > size:
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            before = self._bytes
            self._bytes -= len(piece)
            room = before >= _BYTES_MAX > self._bytes
        if room:
            self._make_room()
        return piece

    def _make_room(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._room.set)
        except RuntimeError:
            pass  # the loop is over, and nobody feeds any more
