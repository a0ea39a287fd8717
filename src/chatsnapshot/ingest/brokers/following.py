"""What the sources of every broker have in common: who takes, when it ends, and how long silence is borne."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from chatsnapshot.errors import LedgerError
from chatsnapshot.ingest.brokers.message import Message
from chatsnapshot.ingest.brokers.settling import settled
from chatsnapshot.ingest.brokers.taking import BrokerReport, Taker
from chatsnapshot.limits import MIB

__all__ = ["Following", "Job", "Note", "own_group"]

Note = Callable[[str], None]
"""Is told in words what is waited for."""

_FLIGHT_BYTES = 16 * MIB
"""About so many bytes of messages are fetched at once."""
_BROKER_SECONDS_MAX = 30.0
"""With ``until_idle``: a broker that does not answer for so long is given up; else it is waited for."""
_OWN_GROUP = "chatsnapshot-"


class _Source(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def batch(self) -> int: ...


S = TypeVar("S", bound=_Source)


@dataclass(frozen=True)
class Job(Generic[S]):
    """What is to be taken from where, and who hears of it."""

    source: S
    taker: Taker
    stop: asyncio.Event
    until_idle: bool
    progress: Callable[[BrokerReport], None] | None = None
    note: Note | None = None


class Following(Generic[S]):
    """Takes messages of one source until ``stop`` is set, or with ``until_idle`` until there are no more."""

    def __init__(self, job: Job[S]) -> None:
        self._source = job.source
        self._taker = job.taker
        self._stop = job.stop
        self._until_idle = job.until_idle
        self._progress: Callable[[BrokerReport], None] = job.progress or (lambda _: None)
        self._note: Note = job.note or (lambda _: None)
        self._silent_since: float | None = None
        self._count = 1
        """How many messages to fetch at once: more as they turn out to be small."""

    async def _stored(
        self, messages: Sequence[Message], *, every: float, in_hand: Callable[[], Awaitable[None]]
    ) -> frozenset[int]:
        """Commit; gives the indexes of what was set aside. ``in_hand`` is called every so many seconds meanwhile."""
        return await settled(self._taker, messages, self._stop, every=every, in_hand=in_hand, note=self._note)

    def _fit(self, largest: int) -> None:
        """After a fetch: twice as many, as far as messages of ``largest`` bytes may be in memory at once."""
        self._count = min(self._source.batch, 2 * self._count, self._fitting(largest))

    def _fitting(self, largest: int) -> int:
        """How many messages of so many bytes may be in memory at once."""
        return max(1, _FLIGHT_BYTES // max(1, largest))

    def _too_silent(self, why: str = "") -> bool:
        """The broker does not answer: tells so once; whether that is too long for what is to end by itself."""
        now = asyncio.get_running_loop().time()
        if self._silent_since is None:
            self._silent_since = now
            self._note(f"{self._source.url} does not answer{f' ({why:.200})' if why else ''}; waiting for it")
        return self._until_idle and now - self._silent_since > _BROKER_SECONDS_MAX


def own_group(given: str | None, ledger_id: object) -> str:
    """The group that keeps how far this ledger is: the one given, or its own; raises for that of another ledger."""
    own = f"{_OWN_GROUP}{ledger_id}"
    if given is not None and given.startswith(_OWN_GROUP) and given != own:
        raise LedgerError(
            f"the group {given!r} feeds another ledger, and what it was given does not come again; give group=NAME of "
            "another one, or of none, which is made then"
        )
    return given or own
