"""Follows a topic of Kafka as a member of a consumer group: offsets are committed after the events, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.ingest.brokers.following import Following, Job, Note, own_group
from chatsnapshot.ingest.brokers.kafkaaddress import KafkaTopic
from chatsnapshot.ingest.brokers.kafkafailure import Lost, Refusal, sentence
from chatsnapshot.ingest.brokers.kafkalink import Link
from chatsnapshot.ingest.brokers.kafkarecord import Record, message_of
from chatsnapshot.ingest.brokers.taking import BrokerReport, Taker

__all__ = ["follow"]

_WAIT_SECONDS, _IDLE_SECONDS = 0.5, 0.1
"""How long a record is waited for in one go; the shorter time with ``until_idle``."""
_GROUP_NOTE_SECONDS = 8.0
_GROUP_SECONDS_MAX = 120.0
"""With ``until_idle``: a group that gives out no partitions for so long is given up; else it is waited for."""
_TRY_SECONDS = 5.0


async def follow(
    source: KafkaTopic,
    taker: Taker,
    stop: asyncio.Event,
    *,
    until_idle: bool = False,
    progress: Callable[[BrokerReport], None] | None = None,
    note: Note | None = None,
) -> BrokerReport:
    """Take records until ``stop`` is set, or with ``until_idle`` until there are no more; gives the report.

    What was fetched is stored, and its offsets committed, before it ends. ``note`` is told in words what it waits for.
    Raises :class:`StoreUnavailable` for a broker that cannot be reached and for a ledger that takes nothing for a minute,
    and :class:`LedgerError` for a broker that refuses.
    """
    work = _Following(Job(source, taker, stop, until_idle, progress, note))
    try:
        await work.run()
    except Refusal as refusal:
        raise sentence(refusal, source, work.group) from None
    except Lost as lost:
        raise work.unreachable(lost) from None
    finally:
        await work.close()
    return taker.report


class _Following(Following[KafkaTopic]):
    def __init__(self, job: Job[KafkaTopic]) -> None:
        super().__init__(job)
        self.group = own_group(job.source.group, job.taker.ledger.ledger_id)
        self._link = Link(job.source, self.group)
        self._unjoined_since: float | None = None
        self._said: set[str] = set()

    async def close(self) -> None:
        await self._link.close()

    async def run(self) -> None:
        """One member of the group for as long as it takes: the client connects and joins anew by itself."""
        link = self._link
        if not await link.open():
            if self._until_idle:
                raise self._no_topic()
            self._say(f"{self._no_topic()}; it is waited for")
        await link.subscribe()
        while not self._stop.is_set():
            records = await link.fetch(self._count, _IDLE_SECONDS if self._until_idle else _WAIT_SECONDS)
            for said in link.odd():
                self._say(f"{self._source.url} says: {said:.200}; going on")
            if records:
                await self._settle(records)
            elif link.due:
                await link.commit({})
            if link.down:
                await self._look()
            elif self._waits_for_the_group():
                pass
            elif self._until_idle and not records and link.ended >= link.assigned and not link.due:
                if not link.assigned and not await link.has_topic():
                    raise self._no_topic()
                return

    # --- what is waited for ---

    async def _look(self) -> None:
        """After the client lost every broker: whether one is there again."""
        try:
            await self._link.has_topic()
        except Lost:
            why = Lost(self._link.down)
            if self._too_silent(str(why)):
                raise self.unreachable(why) from None
            return
        self._link.down = ""
        self._silent_since = self._unjoined_since = None

    def _waits_for_the_group(self) -> bool:
        if self._link.joined:
            if not self._link.assigned and self._unjoined_since is not None and not self._until_idle:
                self._say(f"no partition of {self._source.topic!r} is given to this member; waiting for one")
            self._unjoined_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._unjoined_since is None:
            self._unjoined_since = now
        waited = now - self._unjoined_since
        words = f"the group {self.group!r} gives out no partitions of {self._source.topic!r} yet"
        if waited > _GROUP_NOTE_SECONDS:
            self._say(f"{words}; it does when members that are gone or busy are given up")
        if self._until_idle and waited > _GROUP_SECONDS_MAX:
            raise StoreUnavailable(
                f"{words}, after {waited:.0f} s; look at its members at {self._source.url}"
            )
        return True

    def _say(self, words: str) -> None:
        """Once, however often it is so."""
        if words not in self._said:
            self._said.add(words)
            self._note(words)

    def unreachable(self, why: Lost) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._source.url} cannot be reached ({why!s:.200}); check that a broker runs there, that it speaks TLS or "
            "not as the URL says, and the credentials"
        )

    def _no_topic(self) -> LedgerError:
        return LedgerError(f"there is no topic {self._source.topic!r} at {self._source.url}")

    # --- records ---

    async def _settle(self, records: list[Record]) -> None:
        """Store, then commit offsets: a crash between the two brings the records again, and they are known then.

        Meanwhile the client keeps up the membership, and the group waits for us before it gives our partitions away.
        """
        # What was set aside is in the ledger too, and passed over as the rest is.
        await self._stored(
            [message_of(one, self._source) for one in records], every=_TRY_SECONDS, in_hand=_nothing
        )
        await self._link.commit({one.partition: one.offset + 1 for one in records})
        self._fit(max(one.size for one in records))
        self._progress(self._taker.report)


async def _nothing() -> None:
    """Brokers need not be told: a thread of the client says that we are here."""
