"""Ledgers that remember, fail, hang, are slow or are closed, around a real one: what recorders are given."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Sequence
from typing import Any

from chatsnapshot.errors import StoreUnavailable

__all__ = [
    "ClosingLedger",
    "ForgetfulLedger",
    "HangingLedger",
    "LedgerAround",
    "RaisingLedger",
    "RememberingLedger",
    "SlowLedger",
]


class LedgerAround:
    """Hands everything to the ledger inside; the base of those that change one thing."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def record_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """As the ledger inside does it."""
        return self.inner.record_many(events, **options)

    async def arecord_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """As the ledger inside does it."""
        return await self.inner.arecord_many(events, **options)


class RememberingLedger(LedgerAround):
    """Remembers what it recorded, as it was given."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.given: list[list[Any]] = []

    def record_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, and remember."""
        given = [_remembered(one) for one in events]
        recorded = super().record_many(events, **options)
        self.given.append(given)
        return recorded

    async def arecord_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, and remember."""
        given = [_remembered(one) for one in events]
        recorded = await super().arecord_many(events, **options)
        self.given.append(given)
        return recorded


class RaisingLedger(LedgerAround):
    """Raises from every method while it is ``broken``."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.broken = True

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        return _raise if self.broken and callable(value) else value

    def record_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Raise."""
        return _raise() if self.broken else super().record_many(events, **options)

    async def arecord_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Raise."""
        return _raise() if self.broken else await super().arecord_many(events, **options)


def _raise(*args: Any, **options: Any) -> Any:
    raise RuntimeError("the ledger is broken")


class HangingLedger(LedgerAround):
    """Takes nothing until it is released; by itself only after ``seconds_max``, and then ``gave_up`` says so."""

    def __init__(self, inner: Any, seconds_max: float) -> None:
        super().__init__(inner)
        self.seconds_max = seconds_max
        self.released = threading.Event()
        self.gave_up = False

    def record_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Wait, and record."""
        self._hang(self.released.wait(self.seconds_max))
        return super().record_many(events, **options)

    async def arecord_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Wait, and record."""
        end = time.monotonic() + self.seconds_max
        while not self.released.is_set() and time.monotonic() < end:
            await asyncio.sleep(0.01)
        self._hang(self.released.is_set())
        return await super().arecord_many(events, **options)

    def _hang(self, released: bool) -> None:
        if not released:
            self.gave_up = True
            self.released.set()


class SlowLedger(LedgerAround):
    """Takes its time for every batch."""

    def __init__(self, inner: Any, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds

    def record_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, slowly."""
        time.sleep(self.seconds)
        return super().record_many(events, **options)

    async def arecord_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, slowly."""
        await asyncio.sleep(self.seconds)
        return await super().arecord_many(events, **options)


class ClosingLedger(LedgerAround):
    """Is closed by somebody after it has taken so many batches."""

    def __init__(self, inner: Any, after: int) -> None:
        super().__init__(inner)
        self.after = after

    def _count(self) -> None:
        if self.after <= 0:
            self.inner.close()
        self.after -= 1

    def record_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, until it is closed."""
        self._count()
        return super().record_many(events, **options)

    async def arecord_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, until it is closed."""
        self._count()
        return await super().arecord_many(events, **options)


class ForgetfulLedger(LedgerAround):
    """Records the first batches and says that it could not: their answers were lost."""

    def __init__(self, inner: Any, times: int) -> None:
        super().__init__(inner)
        self.times = times
        self.known: set[Any] = set()

    def _forgets(self, events: Sequence[Any]) -> bool:
        ids = {_id(one) for one in events}
        new, self.known = ids - self.known, self.known | ids
        self.times -= bool(new)
        return bool(new) and self.times >= 0

    def record_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, and lose the answer."""
        recorded, forgets = super().record_many(events, **options), self._forgets(events)
        if forgets:
            raise StoreUnavailable("the answer was lost")
        return recorded

    async def arecord_many(self, events: Sequence[Any], /, **options: Any) -> Any:
        """Record, and lose the answer."""
        recorded, forgets = await super().arecord_many(events, **options), self._forgets(events)
        if forgets:
            raise StoreUnavailable("the answer was lost")
        return recorded


def _remembered(event: Any) -> Any:
    """The event as it is now: a recorder may go on changing its own objects."""
    return {**event, "payload": copy.deepcopy(event.get("payload"))} if isinstance(event, dict) else event


def _id(event: Any) -> Any:
    return event.get("event_id") if isinstance(event, dict) else getattr(event, "event_id", None)
