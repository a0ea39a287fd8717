"""The running service: its settings, its ledgers, each opened once, and who may use them."""

from __future__ import annotations

import asyncio

from chatsnapshot.errors import LedgerError
from chatsnapshot.ledger import Ledger
from chatsnapshot.opening import open as open_ledger
from chatsnapshot.server.access import Gate, OpenGate
from chatsnapshot.server.bodies import Held
from chatsnapshot.server.broadcast import Broadcast
from chatsnapshot.server.counting import Counts, Slots
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.settings import Settings

__all__ = ["Service"]


class Service:
    """What every request shares. :meth:`start` and :meth:`stop` belong to the lifespan of the application."""

    def __init__(self, settings: Settings, gate: Gate | None = None) -> None:
        if not settings.ledgers:
            raise LedgerError("a service needs a ledger: name one, such as runs.db")
        self.settings = settings
        self.gate = gate or OpenGate()
        self.ledgers: dict[str, Ledger] = {}
        self.counts = Counts()
        self.held = Held(settings.bodies_bytes_max)
        self.uploads = Slots("uploads of lines", settings.uploads_max)
        self.streams = Slots("live streams", settings.streams_max)
        self.verifications = Slots("verifications", 1)
        self._live: dict[str, Broadcast] = {}

    async def start(self) -> None:
        """Open every ledger; raises what opening one raises."""
        try:
            for name, url in self.settings.ledgers.items():
                self.ledgers[name] = await asyncio.to_thread(open_ledger, url, create=self.settings.create)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Store what was accepted and close the ledgers."""
        live, self._live = list(self._live.values()), {}
        for broadcast in live:
            await broadcast.stop()
        opened, self.ledgers = list(self.ledgers.values()), {}
        for ledger in opened:
            await ledger.aclose()

    def live(self, name: str) -> Broadcast:
        """The live end of a ledger."""
        if name not in self._live:
            self._live[name] = Broadcast(self.ledgers[name])
        return self._live[name]

    def named(self, name: str | None) -> tuple[str, Ledger]:
        """The ledger of a path; ``None`` is the only one. Raises :class:`Problem` 404."""
        if name is None:
            if len(self.ledgers) == 1:
                return next(iter(self.ledgers.items()))
            raise Problem(
                404, "which-ledger", "this service has several ledgers; name one: /v1/ledgers/NAME/…"
            )
        ledger = self.ledgers.get(name)
        if ledger is None:
            raise Problem(404, "no-ledger", "there is no ledger of that name here")
        return name, ledger
