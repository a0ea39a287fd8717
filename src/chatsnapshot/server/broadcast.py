"""Follows a ledger once for all its live clients: each entry is read and written as a frame one time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

from chatsnapshot.errors import LedgerError
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import MIB
from chatsnapshot.reading import Reading
from chatsnapshot.stores.base import Query, Row
from chatsnapshot.stores.matching import matcher
from chatsnapshot.tail import Wakeup

__all__ = ["Broadcast", "Frames", "frame"]

_COALESCE_SECONDS = 0.04
"""Entries that come within this time go out together: one write for each client, not one for each entry."""
_PENDING_BYTES_MAX = 4 * MIB
"""A client that is further behind reads on from the ledger instead."""
_IDLE_SECONDS = 5.0
_PAST_ENTRIES = (50, 20_000)
"""Entries that a client which reads the past is given at once, and those of all clients together: at least the first."""
_EVERYTHING = Query()


class Frames(NamedTuple):
    """What goes to a client at once: bytes to send, and the position that has been looked at."""

    data: bytes
    scanned_to: int


class _Batch(NamedTuple):
    first: int
    last: int
    rows: list[Row]
    frames: list[bytes]
    joined: bytes


def frame(position: int, content: bytes) -> bytes:
    """An entry as a server-sent event; its id is its position."""
    return b"id: %d\nevent: entry\ndata: " % position + content + b"\n\n"


class Broadcast:
    """The live end of one ledger. :meth:`follow` is what a client iterates over; nothing runs without clients."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._clients: set[_Client] = set()
        self._task: asyncio.Task[None] | None = None
        self._position = 0
        self._readers = 0
        self._ended = False

    async def follow(self, query: Query, after: int, quiet_seconds: float) -> AsyncGenerator[Frames, None]:
        """Frames of what matches after a position, until the service ends; empty ones where it was quiet for so long."""
        match = None if query == _EVERYTHING else matcher(query)
        position = after
        while not self._ended:
            async with aclosing(self._past(query, position)) as past:
                async for found in past:
                    position = found.scanned_to
                    yield found
            client = _Client(match)
            await self._add(client)
            try:
                if self._position > position:
                    continue  # committed meanwhile: read that first
                while not (client.behind or self._over() or self._ended):
                    batch = await client.next(quiet_seconds)
                    if batch is not None and batch.last > position:
                        data, position = client.data(batch, position), batch.last
                        yield Frames(data, position)
                    elif batch is None and not (client.behind or self._ended):
                        position = max(position, self._position)  # all of it was offered, and taken
                        yield Frames(b"", position)
            finally:
                self._clients.discard(client)
                client.close()

    def end(self) -> None:
        """Let every client come to its end."""
        self._ended = True
        for client in self._clients:
            client.wake()

    async def stop(self) -> None:
        """Send nothing any more."""
        self.end()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _past(self, query: Query, after: int) -> AsyncGenerator[Frames, None]:
        """What is there already, page by page; the more clients read, the smaller are their pages."""
        self._readers += 1
        try:
            exhausted = False
            while not (exhausted or self._ended):
                least, together = _PAST_ENTRIES
                limit = max(least, min(together // self._readers, self.ledger.limits.page_entries_max))
                found, exhausted = await asyncio.to_thread(self._page, query, after, limit)
                if found.scanned_to > after:
                    after = found.scanned_to
                    yield found
        finally:
            self._readers -= 1

    def _page(self, query: Query, after: int, limit: int) -> tuple[Frames, bool]:
        """In a thread: one page, and whether it is the last one."""
        reading = Reading(self.ledger, query, after=after, limit=limit)
        entries = reading.page()
        full = len(entries) == limit
        data = b"".join([frame(entry.position, entry.to_json()) for entry in entries])
        scanned_to = entries[-1].position if full else reading.scanned_to
        return Frames(data, scanned_to), reading.exhausted and not full

    async def _add(self, client: _Client) -> None:
        """Let a client have what is committed from now on; sets where that begins."""
        if self._over():
            position = (await asyncio.to_thread(self.ledger._store.head)).size
            if self._over():
                self._position = position
                self._task = asyncio.ensure_future(self._run())
        self._clients.add(client)

    def _over(self) -> bool:
        return self._task is None or self._task.done()

    async def _run(self) -> None:
        """Read what is new and hand it out, until nobody listens."""
        loop = asyncio.get_running_loop()
        lonely_since: float | None = None
        with Wakeup(self.ledger, None, loop) as wakeup:
            while not self.ledger.closed:
                if self._clients:
                    lonely_since = None
                elif lonely_since is None:
                    lonely_since = loop.time()
                elif loop.time() - lonely_since > _IDLE_SECONDS:
                    return
                wakeup.clear()
                batch = await asyncio.to_thread(self._fetch)
                if batch is None:
                    await wakeup.await_()
                    continue
                wakeup.restart()
                self._position = batch.last
                for client in list(self._clients):
                    client.offer(batch)
                await asyncio.sleep(_COALESCE_SECONDS)

    def _fetch(self) -> _Batch | None:
        """In a thread: what was committed after the last batch, a page of it."""
        try:
            if self.ledger._store.head().size <= self._position:
                return None
            entries = Reading(self.ledger, _EVERYTHING, after=self._position).page()
        except LedgerError:
            return None  # clients are kept; the next look may find the store again
        frames = [frame(entry.position, entry.to_json()) for entry in entries]
        rows = [_row(entry) for entry in entries]
        return _Batch(entries[0].position, entries[-1].position, rows, frames, b"".join(frames))


def _row(entry: object) -> Row:
    names = type(entry).__struct_fields__  # type: ignore[attr-defined]
    return tuple(getattr(entry, name) for name in names[:16])


class _Client:
    """What waits for one client. One that falls behind gets nothing more and reads from the ledger."""

    def __init__(self, match: Callable[[Row], bool] | None) -> None:
        self._match = match
        self._batches: deque[_Batch] = deque()
        self._bytes = 0
        self._there = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_at = 0.0
        self.behind = False

    def offer(self, batch: _Batch) -> None:
        """Take what is new."""
        if self._bytes + len(batch.joined) > _PENDING_BYTES_MAX and self._batches:
            self.behind = True
            self._batches.clear()
        else:
            self._batches.append(batch)
            self._bytes += len(batch.joined)
        self._there.set()

    def wake(self) -> None:
        """Let :meth:`next` return."""
        self._there.set()

    async def next(self, seconds: float) -> _Batch | None:
        """The next batch; ``None`` when none came for so long, or the client fell behind."""
        if not self._batches and not self.behind:
            self._there.clear()
            loop = asyncio.get_running_loop()
            self._quiet_at = loop.time() + seconds
            if self._timer is None:
                self._timer = loop.call_at(self._quiet_at, self._ring)
            await self._there.wait()
        if not self._batches:
            return None
        batch = self._batches.popleft()
        self._bytes -= len(batch.joined)
        return batch

    def _ring(self) -> None:
        """Wake the client if it was quiet for so long; one timer serves many waits, as most are short."""
        loop = asyncio.get_running_loop()
        if self._quiet_at > loop.time():
            self._timer = loop.call_at(self._quiet_at, self._ring)
        else:
            self._timer = None
            self._there.set()

    def close(self) -> None:
        """Let the timer go."""
        if self._timer is not None:
            self._timer.cancel()

    def data(self, batch: _Batch, after: int) -> bytes:
        """What of a batch this client gets."""
        if self._match is None and batch.first > after:
            return batch.joined
        match = self._match
        return b"".join(
            one
            for row, one in zip(batch.rows, batch.frames, strict=True)
            if row[0] > after and (match is None or match(row))
        )
