"""Follows a topic of Kafka as a member of a consumer group: offsets are committed after the events, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.ingest.brokers.kafkaaddress import KafkaTopic
from chatsnapshot.ingest.brokers.kafkafailure import Lost, Refusal, sentence
from chatsnapshot.ingest.brokers.kafkalink import Link
from chatsnapshot.ingest.brokers.kafkarecord import Record, message_of
from chatsnapshot.ingest.brokers.settling import settled
from chatsnapshot.ingest.brokers.taking import BrokerReport, Taker
from chatsnapshot.limits import MIB

__all__ = ["follow"]

_WAIT_SECONDS, _IDLE_SECONDS = 0.5, 0.1
"""How long a record is waited for in one go; the shorter time with ``until_idle``."""
_FLIGHT_BYTES = 16 * MIB
"""About so many bytes of records are taken at once, and never more than ``batch`` records."""
_BROKER_SECONDS_MAX = 30.0
"""With ``until_idle``: a broker that does not answer for so long is given up; else it is waited for."""
_GROUP_NOTE_SECONDS = 8.0
_GROUP_SECONDS_MAX = 120.0
"""With ``until_idle``: a group that gives out no partitions for so long is given up; else it is waited for."""
_TRY_SECONDS = 5.0
_OWN_GROUP = "chatsnapshot-"

Note = Callable[[str], None]


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
    work = _Following(source, taker, stop, until_idle, progress or (lambda _: None), note or (lambda _: None))
    try:
        await work.run()
    except Refusal as refusal:
        raise sentence(refusal, source, work.group) from None
    except Lost as lost:
        raise work.unreachable(lost) from None
    finally:
        await work.close()
    return taker.report


class _Following:
    def __init__(
        self,
        source: KafkaTopic,
        taker: Taker,
        stop: asyncio.Event,
        until_idle: bool,
        progress: Callable[[BrokerReport], None],
        note: Note,
    ) -> None:
        self._source = source
        self._taker = taker
        self._stop = stop
        self._until_idle = until_idle
        self._progress = progress
        self._note = note
        own = f"{_OWN_GROUP}{taker.ledger.ledger_id}"
        self.group = source.group or own
        if self.group.startswith(_OWN_GROUP) and self.group != own:
            raise LedgerError(
                f"the group {self.group!r} feeds another ledger, and what it was given does not come again; give "
                "group=NAME of another one, or of none, which is made then"
            )
        self._link = Link(source, self.group)
        self._silent_since: float | None = None
        self._unjoined_since: float | None = None
        self._said: set[str] = set()
        self._count = 1

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
        now = asyncio.get_running_loop().time()
        try:
            await self._link.has_topic()
        except Lost:
            why = Lost(self._link.down)
            if self._silent_since is None:
                self._silent_since = now
                self._note(f"{self._source.url} does not answer ({why!s:.200}); waiting for it")
            elif self._until_idle and now - self._silent_since > _BROKER_SECONDS_MAX:
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
        largest = max(1, *(one.size for one in records))
        # What was set aside is in the ledger too, and passed over as the rest is.
        await settled(
            self._taker,
            [message_of(one, self._source) for one in records],
            self._stop,
            every=_TRY_SECONDS,
            in_hand=_nothing,
            note=self._note,
        )
        await self._link.commit({one.partition: one.offset + 1 for one in records})
        self._count = max(1, min(self._source.batch, 2 * self._count, _FLIGHT_BYTES // largest))
        self._progress(self._taker.report)


async def _nothing() -> None:
    """Brokers need not be told: a thread of the client says that we are here."""
