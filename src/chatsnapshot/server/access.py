"""Who asks: the key that a request brought and what it may do. Without keys a service is open, and only on loopback."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.types import Message

from chatsnapshot.errors import LedgerError
from chatsnapshot.server.endpoints import Scope
from chatsnapshot.server.keys import USED_AGAIN_SECONDS, Keys
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.tries import Tries, source_of

__all__ = ["EVERYBODY", "Access", "Gate", "KeyGate", "OpenGate", "Refusal"]

_log = logging.getLogger("chatsnapshot.server")
_LOOK_AGAIN_SECONDS = 1.0
"""A request that goes on is asked for its key again this often: bodies that arrive, streams that are sent."""


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


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Wrong keys came from an address as often as is borne. ``ledger`` is the name in the path, ``None`` without one."""

    address: str
    tries: int
    ledger: str | None = None


class Gate:
    """Decides who asks. ``keyed`` says whether keys are needed at all."""

    keyed = False

    async def admit(self, request: Request) -> Access:
        """Who asks; raises :class:`~chatsnapshot.server.problems.Problem` (401, 429) when nobody that is known does."""
        raise NotImplementedError

    def check(self, access: Access) -> None:
        """That who was let in may still be here; raises :class:`Problem` 401. Cheap enough to ask all the time."""

    def watched(self, request: Request, access: Access) -> Request:
        """The request, whose body comes only as long as its key holds."""
        return request


class OpenGate(Gate):
    """A service without keys: everybody who reaches it may do everything."""

    async def admit(self, request: Request) -> Access:
        return EVERYBODY


class KeyGate(Gate):
    """Lets in who brings a key of the file. A right key is let in whatever else came from its address.

    ``refused`` is told, once a while for each address, that wrong keys come.
    """

    keyed = True

    def __init__(
        self, keys: Keys, tries: Tries | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.keys = keys
        self.refused: Callable[[Refusal], None] = lambda refusal: None
        self._tries = tries or Tries()
        self._clock = clock
        self._noted: dict[str, float] = {}
        self._looked: dict[str, float] = {}

    async def admit(self, request: Request) -> Access:
        given = request.headers.getlist("authorization")
        text = _bearer(given)
        try:
            key = self.keys.look_up(text)
        except LedgerError as error:
            raise _unusable(error) from None
        if key is None:
            self._count(request, bool(text))
            raise _nobody()
        self._note(key.id)
        return Access(
            key=key.id,
            scopes=frozenset(key.scopes),
            ledgers=None if key.ledgers is None else frozenset(key.ledgers),
        )

    def check(self, access: Access) -> None:
        now = self._clock()
        if access.key is None or now - self._looked.get(access.key, 0.0) < _LOOK_AGAIN_SECONDS:
            return
        try:
            held = self.keys.holds(access.key)
        except LedgerError as error:
            raise _unusable(error) from None
        if not held:
            self._looked.pop(access.key, None)
            raise _nobody()
        self._looked[access.key] = now

    def watched(self, request: Request, access: Access) -> Request:
        receive = request.receive

        async def careful() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                self.check(access)
            return message

        return Request(request.scope, careful)

    def _note(self, key_id: str) -> None:
        """Once an hour, and not in anybody's way."""
        now = self._clock()
        if now - self._noted.get(key_id, -USED_AGAIN_SECONDS) >= USED_AGAIN_SECONDS:
            self._noted[key_id] = now
            asyncio.get_running_loop().run_in_executor(None, self.keys.used, key_id)

    def _count(self, request: Request, tried: bool) -> None:
        """A key that is wrong counts; none at all does not."""
        if not tried:
            return
        address = request.client.host if request.client is not None else "unknown"
        count, seconds = self._tries.wrong(source_of(address))
        if count == self._tries.allowed:
            ledger = request.path_params.get("ledger")
            self.refused(Refusal(address=address, tries=count, ledger=ledger))
        if count > self._tries.allowed:
            raise Problem(
                429,
                "tries",
                "too many wrong keys came from this address; try again in a while",
                retry_after=max(1, int(seconds) + 1),
            )


def _bearer(given: list[str]) -> str:
    """What stands behind ``Bearer``; empty without any header. Another scheme, or two headers, are a wrong key."""
    scheme, _, text = given[0].strip().partition(" ") if len(given) == 1 else ("", "", "")
    return text.strip() if scheme.lower() == "bearer" else "no bearer" if given else ""


def _nobody() -> Problem:
    return Problem(
        401,
        "key",
        "this needs a key that is valid: Authorization: Bearer csk_…",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _unusable(error: LedgerError) -> Problem:
    _log.error("keys cannot be read: %s", error)
    return Problem(503, "keys-unavailable", "keys cannot be looked at now; try again soon", retry_after=1)
