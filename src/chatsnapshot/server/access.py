"""Who asks: the key that a request brought and what it may do. Without keys a service is open, and only on loopback."""

from __future__ import annotations

import msgspec
from starlette.requests import Request

from chatsnapshot.server.endpoints import Scope

__all__ = ["EVERYBODY", "Access", "Gate", "OpenGate"]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What a request may do: scopes, and the ledgers they hold for (``None``: all). ``key`` names the key."""

    key: str | None = None
    scopes: frozenset[str] = frozenset()
    ledgers: frozenset[str] | None = None

    def allows(self, scope: Scope, ledger: str) -> bool:
        """Whether it holds for this ledger. ``admin`` does not stand for the others."""
        held = bool(self.scopes) if scope == "any" else scope in self.scopes
        return held and (self.ledgers is None or ledger in self.ledgers)


EVERYBODY = Access(scopes=frozenset(("ingest", "read", "admin")))


class Gate:
    """Decides who asks. ``keyed`` says whether keys are needed at all."""

    keyed = False

    async def admit(self, request: Request) -> Access:
        """Who asks; raises :class:`~chatsnapshot.server.problems.Problem` (401, 429) when nobody that is known does."""
        raise NotImplementedError


class OpenGate(Gate):
    """A service without keys: everybody who reaches it may do everything."""

    async def admit(self, request: Request) -> Access:
        return EVERYBODY
