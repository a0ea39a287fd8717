"""Brings a batch into the ledger however long that takes, while the broker is told that it is in hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from chatsnapshot.errors import CommitUncertain, StoreUnavailable
from chatsnapshot.ingest.brokers.message import Message
from chatsnapshot.ingest.brokers.taking import Taker

__all__ = ["pause", "settled"]

_STORE_SECONDS_MAX = 60.0
"""A ledger that takes nothing is tried again for so long."""


async def settled(
    taker: Taker,
    messages: Sequence[Message],
    stop: asyncio.Event,
    *,
    every: float,
    in_hand: Callable[[], Awaitable[None]],
    note: Callable[[str], None],
) -> frozenset[int]:
    """Commit; gives the indexes of what was set aside. ``in_hand`` is called about each ``every`` seconds meanwhile.

    A ledger that takes nothing is tried again for a minute, or until ``stop``; then what it raises is raised, and the
    messages are not to be acknowledged.
    """
    tries, deadline = 0, asyncio.get_running_loop().time() + _STORE_SECONDS_MAX
    while True:
        taking = asyncio.ensure_future(asyncio.to_thread(taker.take, messages))
        while not (await asyncio.wait((taking,), timeout=every))[0]:
            await in_hand()
        try:
            return taking.result()
        except (StoreUnavailable, CommitUncertain) as error:
            tries += 1
            if asyncio.get_running_loop().time() > deadline or stop.is_set():
                raise
            if tries == 1:
                note(f"the ledger takes nothing at the moment ({error}); trying again")
            await pause(min(0.2 * 2**tries, every), stop)
            await in_hand()


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Wait, but not when it is to end."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except asyncio.TimeoutError:
        pass
