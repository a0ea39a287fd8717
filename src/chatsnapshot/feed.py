"""Feeds for consumers that must see everything: batches after a durable cursor, at least once, in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from chatsnapshot import cursors
from chatsnapshot.cursors import Cursor
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, InvalidEvent, LedgerClosed, LedgerError, NotFound
from chatsnapshot.fields import checked_text
from chatsnapshot.reading import Reading
from chatsnapshot.stores.base import Query
from chatsnapshot.tail import Wakeup

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["Feed", "FeedBatch"]

_REST_SECONDS = 1.0
"""While following, a stretch in which nothing matched moves the stored cursor at most this often."""

_log = logging.getLogger("chatsnapshot.feed")


class FeedBatch(msgspec.Struct, frozen=True, eq=False):
    """Matching entries with ``after`` < position <= ``position``; up to there the ledger was looked at.

    A batch that was not committed comes again with the same bounds, also after a crash, in another process and with
    another ``batch`` size: its bounds can name what is made of it. ``for entry in batch`` and ``len`` work.
    """

    name: str
    entries: tuple[LedgerEntry, ...]
    after: int
    position: int
    _feed: Any
    _moved: list[bool]

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<FeedBatch {self.name!r} {self.after} < position <= {self.position}, {len(self)} entries>"

    def commit(self) -> bool:
        """Say that all of it is dealt with: it will not come again. Durable when it returns.

        True when this batch moved the cursor; false when it no longer counts, because another consumer of the same name
        committed it first, or because the feed was reset meanwhile. Raises what the store raises, and :class:`NotFound`
        when the feed was dropped.
        """
        committed: bool = self._feed._commit(self)
        return committed

    async def acommit(self) -> bool:
        """As :meth:`commit`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.commit)


class Feed:
    """What one named consumer has not dealt with yet, in batches; ``for`` and ``async for``; made by ``Ledger.feed``.

    One loop at a time. A loop hands out one batch, and the next one when that is committed: with ``auto_commit`` asking
    for the next batch commits the last one, so a loop left by an error, ``break`` or kill sees its batch again.
    """

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        filters: Query,
        batch: int,
        after: int | Literal["now"],
        follow: bool,
        timeout: float | None,
        auto_commit: bool,
    ) -> None:
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise InvalidEvent(f"batch is a number of entries, 1 or more, not {batch!r:.80}", path="batch")
        if timeout is not None and not follow:
            raise InvalidEvent(
                "timeout says how long to wait for more; it goes with follow=True", path="timeout"
            )
        ledger._check_writable()
        self.name = checked_text(name, "name", ledger.limits.id_chars_max)
        self._ledger = ledger
        self._store = ledger._store
        self._filters = _in_order(filters)
        self._batch = batch
        self._follow = follow
        self._timeout = timeout
        self._auto_commit = auto_commit
        self._closed = False
        self._lock = threading.RLock()
        self._loop: object = None
        self._handed: FeedBatch | None = None
        self._looked = 0
        self._rested = time.monotonic()
        self._cursor = self._opened(after)

    def _opened(self, after: int | Literal["now"]) -> Cursor:
        """The cursor, made when there is none."""
        found = None
        while found is None:
            cursors.list_name(self._store, self.name)
            found = cursors.load(self._store, self.name)
            if found is None:
                start = self._ledger.head if after == "now" else self._checked(after, "after")
                mark = cursors.new_mark(self._store, self._filters)
                found = cursors.move(self._store, self.name, None, start, mark)
        return found

    def _checked(self, position: object, what: str) -> int:
        head = self._ledger.head
        if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position <= head:
            raise InvalidEvent(f"{what} is a position from 0 to {head}, not {position!r:.80}", path=what)
        return position

    def __repr__(self) -> str:
        return f"<Feed {self.name!r} of {self._ledger.url}>"

    # --- the cursor ---

    @property
    def position(self) -> int:
        """Everything up to here was committed."""
        return self._stored().position

    @property
    def lag(self) -> int:
        """Positions of the ledger after ``position``, whether they match or not."""
        return max(self._ledger.head - self.position, 0)

    def reset(self, position: int = 0) -> None:
        """Go on after another position; 0 is the beginning.

        Batches handed out before it no longer count, also those of consumers that are at work: these go on from the new
        place. It also takes a cursor of another history into this one. The filters stay as the feed was made with.
        Raises :class:`InvalidEvent` for a position beyond the head.
        """
        wanted = self._checked(position, "position")
        with self._lock:
            cursors.list_name(self._store, self.name)
            while True:
                before = cursors.load(self._store, self.name)
                filters = self._filters if before is None else before.mark.filters
                mark = cursors.new_mark(self._store, filters)
                moved = cursors.move(self._store, self.name, before, wanted, mark)
                if moved is not None:
                    self._take(moved)
                    return

    def _stored(self) -> Cursor:
        cursor = cursors.load(self._store, self.name)
        if cursor is None:
            raise NotFound(f"feed {self.name!r} was dropped; make it anew with feed()")
        return cursor

    def _take(self, cursor: Cursor) -> None:
        """Go on from where the cursor stands; what was handed out from another place no longer counts."""
        self._cursor = cursor
        self._handed = None
        self._looked = cursor.position

    def _commit(self, batch: FeedBatch) -> bool:
        with self._lock:
            if self._handed is batch:
                self._move(batch.position, 0)
            return batch._moved[0]

    def _move(self, position: int, claimed: int) -> bool:
        """Store where the cursor stands; false, and go on from there, when somebody else has moved it."""
        mark = msgspec.structs.replace(self._cursor.mark, claimed=claimed)
        moved = cursors.move(self._store, self.name, self._cursor, position, mark)
        if moved is None:
            self._take(self._stored())
            _log.info(
                "feed %r of %s was moved by somebody else; this consumer goes on after position %d",
                self.name, self._ledger.url, self._cursor.position,
            )  # fmt: skip
            return False
        if self._handed is not None:
            self._handed._moved[0] = True
        self._take(moved)
        self._rested = time.monotonic()
        return True

    # --- one loop ---

    def _begin(self) -> tuple[object, int]:
        """A loop of its own, from the stored cursor on; gives its mark and the head of now."""
        with self._lock:
            cursor = self._stored()
            why = cursors.fault(self._store, cursor)
            if why is not None:
                raise Corrupt(
                    f"the cursor of feed {self.name!r} is not of this history: {why}; "
                    "say where to go on with reset(position)",
                    position=cursor.position,
                )
            if cursor.mark.filters != self._filters:
                made, asked = map(cursors.told, map(cursors.shown, (cursor.mark.filters, self._filters)))
                raise InvalidEvent(
                    f"feed {self.name!r} was made with {made}, and is asked for with {asked}; "
                    "ask with the same, use another name, or drop the feed first",
                    path="name",
                )
            self._take(cursor)
            self._loop = object()
            return self._loop, self._ledger.head

    def _step(self, loop: object, end: int) -> FeedBatch | None:
        """Commit what the loop is done with and hand out the next batch; ``None`` when there is nothing more now."""
        try:
            with self._lock:
                return self._go_on(loop, end)
        except LedgerClosed:
            if self._ledger.closed:
                return None  # closed in this very moment: the end of the loop, no error
            raise

    def _go_on(self, loop: object, end: int) -> FeedBatch | None:
        if self._loop is not loop:
            raise LedgerError(
                f"another loop over this object of feed {self.name!r} began; make one for each with feed()"
            )
        handed = self._handed
        if handed is not None and not self._auto_commit:
            if self._over():
                return None
            raise LedgerError(
                f"the batch up to position {handed.position} of feed {self.name!r} is not committed; "
                "call its commit() before the loop asks for the next one"
            )
        while not self._ledger.closed:
            if self._closed:
                if handed is not None and self._handed is handed:
                    self._move(handed.position, 0)
                return None
            until = self._ledger.head if self._follow else end
            found = self._next(until)
            if found is not None:
                return found
            if self._looked >= until and self._handed is None:
                return None
        return None

    def _next(self, until: int) -> FeedBatch | None:
        """One batch; ``None`` when nothing matched so far, when there is no more, or when the cursor was moved."""
        claimed = self._cursor.mark.claimed if self._handed is None else 0
        after = self._looked if self._handed is None else self._handed.position
        entries, scanned = self._read(after, claimed or until, whole=bool(claimed))
        if not entries:
            self._rest(scanned, until)
            return None
        # What was handed out before is committed together with the claim of the next: one write a batch.
        if not claimed and not self._move(after, scanned):
            return None
        self._handed = FeedBatch(self.name, tuple(entries), after, scanned, self, [False])
        return self._handed

    def _read(self, after: int, until: int, *, whole: bool) -> tuple[list[LedgerEntry], int]:
        """Matching entries and the position scanned to; one stretch, or the whole range when that was handed out."""
        if until <= after:
            return [], after
        limit = None if whole else self._batch
        reading = Reading(self._ledger, self._filters, after=after, until=until, limit=limit)
        entries: list[LedgerEntry] = []
        stretch = self._ledger.limits.scan_entries_max
        while not reading.exhausted and (whole or reading.scanned_to - after < stretch):
            entries += reading.page()
        return entries, reading.scanned_to

    def _rest(self, scanned: int, until: int) -> None:
        """Nothing matched up to ``scanned``: let the stored cursor follow, while following not all the time."""
        due = (
            self._handed is not None
            or self._cursor.mark.claimed
            or not self._follow
            or scanned - self._cursor.position >= self._ledger.limits.scan_entries_max
            or time.monotonic() - self._rested >= _REST_SECONDS
        )
        if self._handed is None and scanned <= self._cursor.position:
            return
        if due:
            self._move(scanned, 0)
        else:
            self._looked = scanned

    def _end(self, loop: object) -> None:
        """A loop is over: store how far it has looked."""
        with self._lock:
            if self._loop is loop and not self._ledger.closed and self._looked > self._cursor.position:
                self._move(self._looked, 0)

    # --- iteration ---

    def __iter__(self) -> Iterator[FeedBatch]:
        loop, end = self._begin()
        with Wakeup(self._ledger, self._timeout) as wakeup:
            while True:
                wakeup.clear()
                batch = self._step(loop, end)
                if batch is not None:
                    yield batch
                    wakeup.restart()
                elif not self._follow or self._over() or not wakeup.wait():
                    break
        self._end(loop)

    async def __aiter__(self) -> AsyncIterator[FeedBatch]:
        import asyncio

        loop, end = await asyncio.to_thread(self._begin)
        with Wakeup(self._ledger, self._timeout, asyncio.get_running_loop()) as wakeup:
            while True:
                wakeup.clear()
                batch = await asyncio.to_thread(self._step, loop, end)
                if batch is not None:
                    yield batch
                    wakeup.restart()
                elif not self._follow or self._over() or not await wakeup.await_():
                    break
        await asyncio.to_thread(self._end, loop)

    def _over(self) -> bool:
        return self._closed or self._ledger.closed

    def close(self) -> None:
        """End the iteration, also one that waits in another thread or task; the cursor stays."""
        self._closed = True
        self._ledger._bell.ring()

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Feed:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


def _in_order(query: Query) -> Query:
    """The same filters written one way, so that two spellings compare equal."""
    return msgspec.structs.replace(
        query,
        event_types=None if query.event_types is None else tuple(sorted(set(query.event_types))),
        type_prefixes=None if query.type_prefixes is None else tuple(sorted(set(query.type_prefixes))),
    )
