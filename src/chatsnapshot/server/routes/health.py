"""``/healthz``: the process answers. ``/readyz``: every ledger can be read. Both without a key and without details."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import PlainTextResponse, Response

from chatsnapshot.server.problems import Problem, problem_response
from chatsnapshot.server.service import Service

__all__ = ["HEALTH"]

_LOOK_SECONDS = 2.0


async def _healthz(service: Service) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(service: Service) -> Response:
    heads = await service.looks.heads(service.ledgers, _LOOK_SECONDS)
    nothing = not heads and service.settings.any_ledger is None
    if service.ending.is_set() or nothing or None in heads.values():
        return problem_response(
            Problem(503, "not-ready", "a ledger cannot be read, or the service is being ended", retry_after=1)
        )
    return PlainTextResponse("ready\n")


HEALTH: dict[str, Callable[[Service], Awaitable[Response]]] = {"/healthz": _healthz, "/readyz": _readyz}
