"""The running service: its settings, its ledgers, each opened once, and who may use them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

from chatsnapshot.errors import LedgerError
from chatsnapshot.ledger import Ledger
from chatsnapshot.opening import open as open_ledger
from chatsnapshot.policies import Opening
from chatsnapshot.server.access import Gate, OpenGate
from chatsnapshot.server.bodies import Held
from chatsnapshot.server.broadcast import Broadcast
from chatsnapshot.server.counting import Counts, Slots
from chatsnapshot.server.helping import Helper
from chatsnapshot.server.looking import Looks
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.settings import Settings
from chatsnapshot.server.shelf import ServiceClock, Shelf
from chatsnapshot.server.staging import Staging
from chatsnapshot.stores.open import locate

__all__ = ["Service"]

_THREADS = 16
"""For what reads, looks and encodes; a store that is slow for some leaves others to the rest."""


class Service:
    """What every request shares. :meth:`start` and :meth:`stop` belong to the lifespan of the application."""

    def __init__(self, settings: Settings, gate: Gate | None = None) -> None:
        if not settings.ledgers and settings.any_ledger is None:
            raise LedgerError("a service needs a ledger: name one, such as runs.db")
        self.settings = settings
        self.gate = gate or OpenGate()
        self.ledgers: dict[str, Ledger] = {}
        self.counts = Counts()
        self.held = Held(settings.bodies_bytes_max)
        self.staging = Staging(settings.staged_bytes_max)
        self.recordings = Slots("requests that record", settings.recordings_max)
        self.uploads = Slots("uploads of lines", settings.uploads_max)
        self.upload_threads = ThreadPoolExecutor(settings.uploads_max, "chatsnapshot-upload")
        """Of their own: however slowly uploads come, nothing else waits for a thread."""
        self.streams = Slots("live streams", settings.streams_max)
        self.verifications = Slots("verifications", 1)
        self.looks = Looks()
        self.helper = Helper(settings.helper)
        self.ending = asyncio.Event()
        self.clock = ServiceClock()
        self._live: dict[str, Broadcast] = {}
        self._shelf: Shelf | None = None
        self.unopened: Exception | None = None
        """Why it could not start."""

    async def start(self) -> None:
        """Open every ledger; raises what opening one raises."""
        folder = self.settings.any_ledger
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "chatsnapshot-service"))
        try:
            for name, url in self.settings.ledgers.items():
                self.ledgers[name] = await asyncio.to_thread(
                    open_ledger, url, create=self.settings.create, clock=self.clock
                )
            if folder is not None:
                self._shelf = Shelf(
                    folder, self.settings.ledgers_open_max, self.ledgers, self._open_one, self._leave
                )
        except BaseException:
            await self.stop()
            raise

    def end(self) -> None:
        """Live streams and uploads are to end; other requests that are under way go on."""
        self.ending.set()
        for broadcast in self._live.values():
            broadcast.end()

    async def stop(self) -> None:
        """Store what was accepted and close the ledgers."""
        self.end()
        self.upload_threads.shutdown(wait=False)
        live, self._live = list(self._live.values()), {}
        for broadcast in live:
            await broadcast.stop()
        opened, self.ledgers = list(self.ledgers.values()), {}
        for ledger in opened:
            await ledger.aclose()
        await self.helper.end()
        await asyncio.to_thread(self.staging.end)

    def _open_one(self, path: str, make: bool, identity: str) -> Ledger:
        location = locate(path)._replace(identity=identity)
        return Ledger(Opening(location=location, create=make, clock=self.clock))

    def live(self, name: str) -> Broadcast:
        """The live end of a ledger."""
        known = self._live.get(name)
        if known is None or known.ledger is not self.ledgers[name]:
            known = self._live[name] = Broadcast(self.ledgers[name])
        return known

    def name_of(self, given: str | None) -> str:
        """The name of a ledger in a path; ``None`` is the only one. Raises :class:`Problem` 404."""
        if given is not None:
            return given
        if len(self.settings.ledgers) == 1:
            return next(iter(self.settings.ledgers))
        raise Problem(404, "which-ledger", "this service has several ledgers; name one: /v1/ledgers/NAME/…")

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Ledger]:
        """The ledger of a name, open while the block runs. Raises :class:`Problem` 404, 503."""
        if self._shelf is None or name in self.settings.ledgers:
            ledger = self.ledgers.get(name)
            if ledger is None:
                raise Problem(404, "no-ledger", "there is no ledger of that name here")
            yield ledger
            return
        ledger = await self._shelf.take(name)
        try:
            yield ledger
        finally:
            self._shelf.give(name)

    def keep(self, name: str) -> Callable[[], None]:
        """Keep a ledger open that is being used, until what is returned is called."""
        if self._shelf is None or name in self.settings.ledgers:
            return lambda: None
        self._shelf.hold(name)
        return partial(self._shelf.give, name)

    async def _leave(self, name: str) -> None:
        """A ledger is about to be closed."""
        broadcast = self._live.pop(name, None)
        if broadcast is not None:
            await broadcast.stop()

    async def make(self, name: str, identity: str) -> bool:
        """Make a ledger; false when it is there. Raises :class:`Problem` where names are not free."""
        try:
            async with self.using(name):
                return False
        except Problem as problem:
            if problem.status != 404 or self._shelf is None:
                raise
        await self._shelf.take(name, make=True, identity=identity)
        self._shelf.give(name)
        return True
