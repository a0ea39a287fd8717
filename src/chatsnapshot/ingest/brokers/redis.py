"""Follows a stream of Redis as a consumer of a group: acknowledged after the commit, in the stream's order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.ingest.brokers.following import Following, Job, Note, own_group
from chatsnapshot.ingest.brokers.redisaddress import RedisStream
from chatsnapshot.ingest.brokers.redisentry import Entry, entries_of, message_of
from chatsnapshot.ingest.brokers.redislink import Link, Lost, Refusal, sentence
from chatsnapshot.ingest.brokers.settling import pause
from chatsnapshot.ingest.brokers.taking import BrokerReport, Taker

__all__ = ["follow"]

_BLOCK_MS, _IDLE_MS = 1_000, 100
"""How long new entries are waited for in one command; the shorter time with ``until_idle``."""
_AGAIN_SECONDS_MAX = 2.0
_FIRST, _NEW = "0-0", ">"


async def follow(
    source: RedisStream,
    taker: Taker,
    stop: asyncio.Event,
    *,
    until_idle: bool = False,
    progress: Callable[[BrokerReport], None] | None = None,
    note: Note | None = None,
) -> BrokerReport:
    """Take entries until ``stop`` is set, or with ``until_idle`` until there are no more; gives the report.

    What was fetched is committed and acknowledged before it ends. ``note`` is told in words what it waits for. Raises
    :class:`StoreUnavailable` for a server that cannot be reached and for a ledger that takes nothing for a minute, and
    :class:`LedgerError` for a server that refuses.
    """
    work = _Following(Job(source, taker, stop, until_idle, progress, note))
    try:
        await work.run()
    except Refusal as refusal:
        raise sentence(refusal, source) from None
    finally:
        await work.close()
    return taker.report


class _GroupGone(Exception):
    """Deleted with its stream, or lost with a server that kept nothing: the next session makes it anew."""


class _Following(Following[RedisStream]):
    def __init__(self, job: Job[RedisStream]) -> None:
        super().__init__(job)
        self._link = Link(job.source)
        self._group = own_group(job.source.group, job.taker.ledger.ledger_id)
        self._reached = False
        self._begun = False
        self._may_make = True

    async def close(self) -> None:
        await self._link.close()

    async def run(self) -> None:
        """Sessions, one after the other: each ends with its connection, and the next takes what it left first."""
        tries = 0
        while not self._stop.is_set():
            try:
                await self._session()
                return
            except _GroupGone:
                await pause(0.1, self._stop)
            except Lost as lost:
                await self._link.close()
                if not self._reached and not lost.answered:
                    raise self._unreachable(lost) from None
                tries = 1 if self._silent_since is None else tries + 1
                if self._too_silent(str(lost)):
                    raise self._unreachable(lost) from None
                await pause(min(0.1 * 2**tries, _AGAIN_SECONDS_MAX), self._stop)

    def _unreachable(self, why: Lost) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._source.url} cannot be reached ({why!s:.200}); check that the server runs there, and the credentials"
        )

    # --- a session ---

    async def _session(self) -> None:
        await self._link.open()
        self._reached = True
        self._count = 1  # and more as they turn out to be small
        await self._make_group()
        await self._take_own()
        if not self._begun:
            await self._take_others()
            self._begun = True
        loop = asyncio.get_running_loop()
        look_at = loop.time() + self._source.ack_wait / 2
        while not self._stop.is_set():
            entries = await self._fetch(_NEW)
            await self._settle(entries)
            if loop.time() >= look_at:
                await self._take_over()
                look_at = loop.time() + self._source.ack_wait / 2
            if self._until_idle and not entries and not await self._pending():
                return

    async def _make_group(self) -> None:
        """The group, made where there is none; it keeps how far this ledger is. All of the stream comes to a new one."""
        make = ("XGROUP", "CREATE", self._source.stream, self._group, "0")
        try:
            await self._link.call(*make)
            if self._begun:
                self._note(
                    f"the group {self._group!r} was gone and is made anew; what is known is not stored twice"
                )
        except Refusal as refusal:
            if refusal.code == "BUSYGROUP":
                return
            if refusal.code == "NOPERM":
                self._may_make = False  # it has to be there
                return
            if "MKSTREAM" not in str(refusal):
                raise
            source = self._source
            where = f"there is no stream {source.stream!r} in database {source.database} of {source.url}"
            if self._until_idle:
                raise LedgerError(f"{where}; the first XADD makes it") from None
            await self._link.call(*make, "MKSTREAM")
            self._note(f"{where} yet; it is made empty, and waited for")

    async def _take_own(self) -> None:
        """What was given to this consumer before and not acknowledged: before anything new, so that the order stays."""
        after = _FIRST
        while not self._stop.is_set():
            entries = await self._fetch(after)
            if not entries:
                return
            await self._settle(entries)
            after = entries[-1].id

    async def _take_others(self) -> None:
        """What other consumers hold comes before anything new as well, if they let go of it or are dead."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._source.ack_wait + 0.5
        told = False
        while not self._stop.is_set():
            await self._take_over()
            pending = await self._pending()
            if not pending or loop.time() > deadline:
                return
            if not told:
                told = True
                self._note(
                    f"waiting {self._source.ack_wait:g} s for {pending:,} entries that other consumers have not "
                    "acknowledged"
                )
            await pause(0.2, self._stop)

    async def _take_over(self) -> None:
        """Take what a consumer has held for ``ack_wait`` and longer without a word."""
        idle = int(self._source.ack_wait * 1000)
        start = _FIRST
        while not self._stop.is_set():
            words = ("XAUTOCLAIM", self._source.stream, self._group, self._source.consumer, idle, start)
            answer = await self._call_group(*words, "COUNT", self._count)
            # Of what was deleted meanwhile, Redis 7 gives the ids; before it did not, and those are this consumer's now.
            deleted = [[one, None] for one in answer[2]] if len(answer) > 2 else []
            await self._settle(entries_of([*(one for one in answer[1] if one), *deleted]))
            if not all(answer[1]):
                await self._take_own()
            start = answer[0].decode("ascii")
            if start == _FIRST:
                return

    # --- commands ---

    async def _fetch(self, after: str) -> list[Entry]:
        """New entries, waited for a little; or those pending of this consumer after an id."""
        words: list[str | int] = ["XREADGROUP", "GROUP", self._group, self._source.consumer]
        words += ["COUNT", self._count]
        if after == _NEW:
            words += ["BLOCK", _IDLE_MS if self._until_idle else _BLOCK_MS]
        answer = await self._call_group(*words, "STREAMS", self._source.stream, after)
        self._silent_since = None
        return entries_of(answer[0][1] if answer else None)

    async def _pending(self) -> int:
        """How many entries are given to a consumer of the group and not acknowledged."""
        answer = await self._call_group("XPENDING", self._source.stream, self._group)
        return int(answer[0])

    async def _call_group(self, *words: str | int) -> Any:
        try:
            return await self._link.call(*words)
        except Refusal as refusal:
            if refusal.code != "NOGROUP":
                raise
            if not self._may_make:
                raise LedgerError(
                    f"there is no group {self._group!r} of {self._source.stream!r} at {self._source.url}, and this user "
                    f"may not make it; do XGROUP CREATE {self._source.stream} {self._group} 0"
                ) from None
            raise _GroupGone from None

    async def _settle(self, entries: list[Entry]) -> None:
        """Commit, then acknowledge: a crash between the two brings the entries again, and they are known then."""
        if not entries:
            return
        # What was set aside is in the ledger too, and acknowledged as the rest is.
        await self._stored(
            [message_of(one, self._source) for one in entries],
            every=self._source.ack_wait / 3,
            in_hand=lambda: self._keep(entries),
        )
        await self._link.call("XACK", self._source.stream, self._group, *(one.id for one in entries))
        self._fit(max(one.size for one in entries))
        self._progress(self._taker.report)

    async def _keep(self, entries: list[Entry]) -> None:
        """Say that they are in hand, so that no other consumer takes them over."""
        ids = [one.id for one in entries if one.fields is not None]
        words: list[str | int] = ["XCLAIM", self._source.stream, self._group, self._source.consumer, 0]
        try:
            await self._link.call(*words, *ids, "JUSTID")
        except (Lost, Refusal):
            pass  # taken over, they are known when they come
