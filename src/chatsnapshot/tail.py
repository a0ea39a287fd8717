"""Live subscription: starts in the past, goes on live, across threads and processes, and misses nothing.

It pages by position; wake-ups are only hints. Commits of this process wake it at once, those of other processes are found
by looking at the head, every 5 to 50 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, LedgerClosed
from chatsnapshot.reading import Reading
from chatsnapshot.stores.base import Query

if TYPE_CHECKING:
    import asyncio

    from chatsnapshot.ledger import Ledger

__all__ = ["Bell", "Tail"]

_SOON_SECONDS = 0.005
_LATE_SECONDS = 0.05


class Bell:
    """Rings when this process has committed; listeners are plain callables."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[object, ...] = ()

    def ring(self) -> None:
        """Wake everybody who listens."""
        for listener in self._listeners:
            listener()  # type: ignore[operator]

    def add(self, listener: object) -> None:
        """Listen."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: object) -> None:
        """Stop listening."""
        with self._lock:
            self._listeners = tuple(known for known in self._listeners if known is not listener)


class Tail:
    """Entries from ``after`` on, without end; ``for`` and ``async for``.

    It ends on :meth:`close` (from any thread), when the ledger is closed, or when nothing matching came for ``timeout``
    seconds. ``position`` is the position looked at so far: start a later tail with ``after=tail.position``.
    """

    def __init__(self, ledger: Ledger, query: Query, after: int | None, timeout: float | None) -> None:
        self._ledger = ledger
        self._query = query
        self._timeout = timeout
        self._closed = False
        self._wake = threading.Event()
        if after is not None and (isinstance(after, bool) or not isinstance(after, int)):
            raise InvalidEvent(f"after is a position, not {after!r:.80}", path="after")
        head = ledger._store.head().size
        self.position = head if after is None else max(after, 0)

    def close(self) -> None:
        """End the iteration, also one that waits in another thread or task."""
        self._closed = True
        self._ledger._bell.ring()
        self._wake.set()

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Tail:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def _over(self) -> bool:
        return self._closed or self._ledger.closed

    def _fetch(self) -> list[LedgerEntry]:
        """What has been committed since ``position``, one page of it."""
        try:
            return self._page()
        except LedgerClosed:
            if self._over():
                return []  # closed in this very moment: the end of the tail, no error
            raise

    def _page(self) -> list[LedgerEntry]:
        if self._ledger._store.head().size <= self.position:
            return []
        reading = Reading(self._ledger, self._query, after=self.position)
        found = reading.page()
        while not found and not reading.exhausted:
            found = reading.page()
        self._scanned = reading.scanned_to
        return found

    _scanned = 0

    def __iter__(self) -> Iterator[LedgerEntry]:
        wake = self._wake
        ring = wake.set
        self._ledger._bell.add(ring)
        try:
            quiet_since = time.monotonic()
            pause = _SOON_SECONDS
            while not self._over():
                wake.clear()
                found = self._fetch()
                if found:
                    for entry in found:
                        if self._over():
                            return
                        self.position = entry.position
                        yield entry
                    quiet_since, pause = time.monotonic(), _SOON_SECONDS
                self.position = max(self.position, self._scanned)
                if found:
                    continue
                left = self._left(quiet_since)
                if left is not None and left <= 0:
                    return
                wake.wait(pause if left is None else min(pause, left))
                pause = min(pause * 1.5, _LATE_SECONDS)
        finally:
            self._ledger._bell.remove(ring)

    async def __aiter__(self) -> AsyncIterator[LedgerEntry]:
        import asyncio

        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

        def ring() -> None:
            _set_from_any_thread(loop, wake)

        self._ledger._bell.add(ring)
        try:
            quiet_since = time.monotonic()
            pause = _SOON_SECONDS
            while not self._over():
                wake.clear()
                found = await asyncio.to_thread(self._fetch)
                if found:
                    for entry in found:
                        if self._over():
                            return
                        self.position = entry.position
                        yield entry
                    quiet_since, pause = time.monotonic(), _SOON_SECONDS
                self.position = max(self.position, self._scanned)
                if found:
                    continue
                left = self._left(quiet_since)
                if left is not None and left <= 0:
                    return
                # Not wait_for: before Python 3.12 it can swallow a cancellation.
                timer = loop.call_later(pause if left is None else min(pause, left), wake.set)
                try:
                    await wake.wait()
                finally:
                    timer.cancel()
                pause = min(pause * 1.5, _LATE_SECONDS)
        finally:
            self._ledger._bell.remove(ring)

    def _left(self, quiet_since: float) -> float | None:
        return None if self._timeout is None else self._timeout - (time.monotonic() - quiet_since)


def _set_from_any_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        pass  # the loop was closed
