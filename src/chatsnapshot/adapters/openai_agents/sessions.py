"""``ChatSnapshotSession``: the history that the OpenAI Agents SDK goes on with, kept in a ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.fields import correlation_text
from chatsnapshot.redaction.base import WITHHELD

__all__ = ["ADDED", "CLEARED", "POPPED", "ChatSnapshotSession"]

ADDED = "openai_agents.session_items_added"
POPPED = "openai_agents.session_item_popped"
CLEARED = "openai_agents.session_cleared"
_TYPES = [ADDED, POPPED, CLEARED]
_SOURCE = {"origin": "system", "runtime": "openai_agents", "name": "ChatSnapshotSession"}
_EVENTS_MIN = 8
_T = TypeVar("_T")


class ChatSnapshotSession:
    """A session of the OpenAI Agents SDK in a ledger: ``Runner.run(agent, "Hi", session=session)``.

    >>> session = ChatSnapshotSession("customer-7", ledger)

    Implements the SDK's ``Session`` protocol. Every change is an event under the correlation
    ``openai_agents.session:<session_id>``: items are added, the last one is taken back, all are cleared; nothing is
    overwritten, and each item is stored once. Reading goes from the newest event back to the last clearing, or as far as
    ``limit`` asks. A change is durable when its call returns; any process that opens the ledger sees it. Safe to use from
    several tasks and processes; they see one order.

    ``settings`` are the SDK's ``SessionSettings`` (or a dict of them): ``limit`` is how many items a run is given.
    Redaction by the ledger (``open(redact=...)``) changes what the agent remembers.

    Raises what recording and reading raise (:class:`StoreUnavailable`, :class:`CommitUncertain`, …).
    """

    def __init__(self, session_id: str, ledger: Any, *, settings: Any = None) -> None:
        if not callable(getattr(ledger, "arecord", None)):
            raise TypeError(f"ChatSnapshotSession keeps its items in a Ledger, not {type(ledger).__name__}")
        self.session_id = str(session_id)
        self.session_settings = settings
        self._ledger = ledger
        self._correlation = correlation_text(f"openai_agents.session:{self.session_id}", ledger.limits)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The history, oldest first; of it the latest ``limit`` items (default: that of the settings, else all)."""
        wanted = self._limit(limit)
        return (await self._newest(wanted))[::-1] if wanted else []

    async def add_items(self, items: list[Any]) -> None:
        """Append items, all of them or none."""
        if items:
            entry = await _settled(
                self._record(ADDED, {"items": list(items)}, attributes={"items": len(items)})
            )
            if entry.payload_json == WITHHELD:
                raise InvalidEvent(
                    f"redaction failed, so nothing of session {self.session_id!r} was kept; mend the redactor",
                    path="redact",
                )

    async def pop_item(self) -> Any | None:
        """Take the latest item back and give it; ``None`` when there is none. The item stays in the ledger's history."""
        last = await self._last()
        if last is None:
            return None
        entry = await _settled(self._record(POPPED))
        # Another process may have been first: it is this event that says which item was taken.
        return last if entry.position is None else await self._last(entry.position - 1)

    async def clear_session(self) -> None:
        """Forget all items. They stay in the ledger's history; ``ledger.erase`` removes them."""
        async with aclosing(self._events(limit=1)) as events:
            last = await anext(events, None)
        if last is not None and last.event_type != CLEARED:
            await _settled(self._record(CLEARED))

    def _limit(self, limit: int | None) -> int:
        """How many items are asked for; -1 for all."""
        if limit is None and self.session_settings is not None:
            from agents.memory.session_settings import resolve_session_limit

            limit = resolve_session_limit(None, self.session_settings)
        return -1 if limit is None or limit < 0 else limit

    async def _last(self, until: int | None = None) -> Any | None:
        newest = await self._newest(1, until)
        return newest[0] if newest else None

    async def _newest(self, wanted: int, until: int | None = None) -> list[Any]:
        """The items that are there, newest first: ``wanted`` of them, or all for -1."""
        found: list[Any] = []
        popped, page = 0, None if wanted < 0 else max(wanted, _EVENTS_MIN)
        while until is None or until > 0:
            seen = 0
            async with aclosing(self._events(until, page)) as events:
                async for entry in events:
                    seen, until = seen + 1, entry.position - 1
                    if entry.event_type == CLEARED:
                        return found
                    if entry.event_type == POPPED:
                        popped += 1
                        continue
                    count = entry.attributes["items"]
                    if popped < count:
                        found += reversed(_items_of(entry)[: count - popped])
                        if 0 <= wanted <= len(found):
                            return found[:wanted]
                    popped = max(popped - count, 0)
            if page is None or seen < page:
                break
        return found

    def _events(
        self, until: int | None = None, limit: int | None = None
    ) -> AsyncGenerator[LedgerEntry, None]:
        options = {"until": until, "limit": limit}
        found: AsyncGenerator[LedgerEntry, None] = self._ledger.aread(
            correlation_id=self._correlation,
            event_type=_TYPES,
            reverse=True,
            **{name: value for name, value in options.items() if value is not None},
        )
        return found

    async def _record(self, event_type: str, payload: Any = None, **options: Any) -> LedgerEntry:
        entry: LedgerEntry = await self._ledger.arecord(
            event_type, payload or {}, correlation_id=self._correlation, source=_SOURCE, **options
        )
        return entry


def _items_of(entry: LedgerEntry) -> list[Any]:
    try:
        items: list[Any] = entry.value()["items"]
    except NotFound:
        return []  # erased for good: the agent goes on without them
    return items


async def _settled(change: Awaitable[_T]) -> _T:
    """The outcome of a change, known even when the caller is cancelled meanwhile; then the cancellation goes on."""
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()
