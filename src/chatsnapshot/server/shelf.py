"""Ledgers that are made and opened as they are asked for: each a SQLite file of a folder, under a name of its own."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager

from chatsnapshot.errors import LedgerError, NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.server.problems import Problem

__all__ = ["ServiceClock", "Shelf"]

_NAME = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_IDLE_SECONDS = 15.0
_KEPT = 48
"""So many stay open however long nobody asks for them."""


class ServiceClock:
    """The clock of the service's ledgers: the system's, but where a client may say what time it is."""

    def __init__(self) -> None:
        self._said = threading.local()

    def __call__(self) -> int:
        said: int | None = getattr(self._said, "now", None)
        return time.time_ns() if said is None else said

    @contextmanager
    def at(self, now: int) -> Iterator[None]:
        """On this thread it is ``now`` while the block runs."""
        self._said.now = now
        try:
            yield
        finally:
            self._said.now = None


class Shelf:
    """The ledgers of a folder, in ``opened`` while they are open. For the event loop only.

    ``open_one`` opens a path (made when asked to, with an identity); ``leave`` is told of a ledger that is to be closed.
    """

    def __init__(
        self,
        folder: str,
        open_max: int,
        opened: MutableMapping[str, Ledger],
        open_one: Callable[[str, bool, str], Ledger],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        self.folder = os.path.abspath(folder)
        self._open_max = open_max
        self._opened = opened
        self._open_one = open_one
        self._leave = leave
        self._used: dict[str, float] = {}
        self._busy: dict[str, int] = {}
        self._opening = asyncio.Lock()
        if not os.path.isdir(self.folder):
            raise LedgerError(f"the folder {self.folder} does not exist; create it first")

    async def take(self, name: str, *, make: bool = False, identity: str = "") -> Ledger:
        """The ledger of a name, opened; give it back with :meth:`give`. Raises :class:`Problem` 404, 503."""
        if not _NAME.fullmatch(name):
            raise Problem(
                404, "no-ledger", "there is no ledger of that name here: a name is 1 to 63 of a-z, 0-9 and -"
            )
        ledger = self._opened.get(name)
        if ledger is None:
            async with self._opening:
                ledger = self._opened.get(name)
                if ledger is None:
                    ledger = await self._open(name, make, identity)
        self.hold(name)
        return ledger

    def hold(self, name: str) -> None:
        """Use a ledger that is taken once more."""
        self._busy[name] = self._busy.get(name, 0) + 1

    def give(self, name: str) -> None:
        """A use of a ledger is over."""
        self._used[name] = time.monotonic()
        self._busy[name] -= 1

    async def _open(self, name: str, make: bool, identity: str) -> Ledger:
        await self._make_room()
        path = os.path.join(self.folder, f"{name}.db")
        try:
            ledger = await asyncio.to_thread(self._open_one, path, make, identity)
        except NotFound:
            raise Problem(404, "no-ledger", "there is no ledger of that name here") from None
        self._opened[name] = ledger
        self._used[name] = time.monotonic()
        return ledger

    async def _make_room(self) -> None:
        """Close what nobody has used for a while; refuse when too many are open all the same."""
        idle = sorted(
            (at, name) for name, at in self._used.items() if name in self._opened and not self._busy.get(name)
        )
        late = time.monotonic() - _IDLE_SECONDS
        for at, name in idle:
            if len(self._used) <= _KEPT or (at > late and len(self._used) < self._open_max):
                break
            ledger = self._opened.pop(name)
            del self._used[name]
            self._busy.pop(name, None)
            await self._leave(name)
            await ledger.aclose()
        if len(self._used) >= self._open_max:
            raise Problem(
                503, "overloaded", "too many ledgers are in use at once; try again soon", retry_after=1
            )
