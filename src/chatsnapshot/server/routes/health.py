"""``/healthz``: the process answers. ``/readyz``: every ledger can be read. Both without a key and without details."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.responses import PlainTextResponse, Response

from chatsnapshot.errors import LedgerError
from chatsnapshot.server.problems import Problem, problem_response
from chatsnapshot.server.service import Service

__all__ = ["HEALTH"]


async def _healthz(service: Service) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(service: Service) -> Response:
    try:
        if not service.ledgers:
            raise LedgerError("not started")
        for ledger in service.ledgers.values():
            await asyncio.to_thread(getattr, ledger, "head")
    except LedgerError:
        return problem_response(
            Problem(503, "not-ready", "a ledger cannot be read; the log says why", retry_after=1)
        )
    return PlainTextResponse("ready\n")


HEALTH: dict[str, Callable[[Service], Awaitable[Response]]] = {"/healthz": _healthz, "/readyz": _readyz}
