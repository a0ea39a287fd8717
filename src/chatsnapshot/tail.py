"""Live subscription: starts in the past, goes on live, across threads and processes, and misses nothing.

It pages by position; wake-ups are only hints. Commits of this process wake it at once, those of other processes are found
by looking at the head, every 5 to 50 ms, or less often where the store gives hints (``Store.watch``).
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

__all__ = ["Bell", "Tail", "Wakeup"]

_SOON_SECONDS = 0.005


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
        if after is not None and (isinstance(after, bool) or not isinstance(after, int)):
            raise InvalidEvent(f"after is a position, not {after!r:.80}", path="after")
        head = ledger._store.head().size
        self.position = head if after is None else max(after, 0)

    def close(self) -> None:
        """End the iteration, also one that waits in another thread or task."""
        self._closed = True
        self._ledger._bell.ring()

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
        with Wakeup(self._ledger, self._timeout) as wakeup:
            while not self._over():
                wakeup.clear()
                found = self._fetch()
                for entry in found:
                    if self._over():
                        return
                    self.position = entry.position
                    yield entry
                self.position = max(self.position, self._scanned)
                if found:
                    wakeup.restart()
                elif not wakeup.wait():
                    return

    async def __aiter__(self) -> AsyncIterator[LedgerEntry]:
        import asyncio

        with Wakeup(self._ledger, self._timeout, asyncio.get_running_loop()) as wakeup:
            while not self._over():
                wakeup.clear()
                found = await asyncio.to_thread(self._fetch)
                for entry in found:
                    if self._over():
                        return
                    self.position = entry.position
                    yield entry
                self.position = max(self.position, self._scanned)
                if found:
                    wakeup.restart()
                elif not await wakeup.await_():
                    return


class Wakeup:
    """Waits for the next commit, in a thread or (with ``loop``) a task, until it was quiet for ``timeout`` seconds.

    The bell wakes it at once; without it, it returns every 5 to 50 ms (``Traits.look_seconds``) so that the caller looks
    at the head.
    """

    def __init__(
        self, ledger: Ledger, timeout: float | None, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._ledger = ledger
        self._bell = ledger._bell
        self._timeout = timeout
        self._loop = loop
        self._in_thread = threading.Event()
        if loop is not None:
            import asyncio

            self._in_task = asyncio.Event()
        self._listener = self._in_thread.set if loop is None else self._wake_task
        self.restart()

    def __enter__(self) -> Wakeup:
        self._bell.add(self._listener)
        return self

    def __exit__(self, *error: object) -> None:
        self._bell.remove(self._listener)

    def restart(self) -> None:
        """Something came: quiet time begins anew."""
        self._quiet_since = time.monotonic()
        self._pause = _SOON_SECONDS

    def clear(self) -> None:
        """To be called before looking, so that a commit after the look wakes the wait."""
        self._ledger._store.watch(self._bell.ring)
        if self._loop is None:
            self._in_thread.clear()
        else:
            self._in_task.clear()

    def wait(self) -> bool:
        """Wait in this thread; false when it was quiet for long enough."""
        pause = self._next_pause()
        if pause is None:
            return False
        self._in_thread.wait(pause)
        return True

    async def await_(self) -> bool:
        """Wait in this task; false when it was quiet for long enough."""
        pause = self._next_pause()
        if pause is None or self._loop is None:
            return False
        # Not wait_for: before Python 3.12 it can swallow a cancellation.
        timer = self._loop.call_later(pause, self._in_task.set)
        try:
            await self._in_task.wait()
        finally:
            timer.cancel()
        return True

    def _next_pause(self) -> float | None:
        pause = self._pause
        self._pause = min(pause * 1.5, self._ledger._store.traits.look_seconds)
        if self._timeout is None:
            return pause
        left = self._timeout - (time.monotonic() - self._quiet_since)
        return min(pause, left) if left > 0 else None

    def _wake_task(self) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._in_task.set)
        except RuntimeError:
            pass  # the loop was closed
