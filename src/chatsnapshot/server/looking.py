"""Looks at how far a ledger is, within a time: a store that hangs holds up one thread, and nobody who asks."""

from __future__ import annotations

import asyncio

from chatsnapshot.errors import LedgerError
from chatsnapshot.ledger import Ledger

__all__ = ["Looks"]


class Looks:
    """The looks that are under way, one for each ledger at most. For the event loop only."""

    def __init__(self) -> None:
        self._under_way: dict[Ledger, asyncio.Future[int]] = {}

    async def heads(self, ledgers: dict[str, Ledger], seconds: float) -> dict[str, int | None]:
        """The last position of each ledger; ``None`` where it cannot be read, or not within the time."""
        looks = {name: self._look(ledger) for name, ledger in ledgers.items()}
        if looks:
            await asyncio.wait(set(looks.values()), timeout=seconds)
        return {name: _found(look) for name, look in looks.items()}

    def _look(self, ledger: Ledger) -> asyncio.Future[int]:
        known = self._under_way.get(ledger)
        if known is None or known.done():
            known = asyncio.ensure_future(asyncio.to_thread(_head, ledger))
            self._under_way[ledger] = known
            known.add_done_callback(lambda look: self._forget(ledger, look))
        return known

    def _forget(self, ledger: Ledger, look: asyncio.Future[int]) -> None:
        if self._under_way.get(ledger) is look:
            del self._under_way[ledger]
        if not look.cancelled():
            look.exception()


def _head(ledger: Ledger) -> int:
    return ledger._store.head().size


def _found(look: asyncio.Future[int]) -> int | None:
    if not look.done() or look.cancelled():
        return None
    error = look.exception()
    if error is not None and not isinstance(error, LedgerError):
        raise error
    return None if error is not None else look.result()
