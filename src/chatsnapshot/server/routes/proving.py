"""``GET /v1/events/{id}/proof`` and ``/v1/consistency``: what a reader needs to check the ledger with hashes alone."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.proving import prove_consistency, prove_inclusion
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.parameters import number, only
from chatsnapshot.server.problems import Problem

__all__ = ["ENDPOINTS"]

_SIZE_MAX = 2**53 - 1


async def _inclusion(call: Call) -> Response:
    given = only(call.request, ("size",))
    size = number(given, "size", 1, low=1, high=_SIZE_MAX) if "size" in given else None
    event_id = call.request.path_params["event_id"]
    return await _made(functools.partial(prove_inclusion, call.ledger, event_id, size))


async def _consistency(call: Call) -> Response:
    given = only(call.request, ("from", "to"))
    if "from" not in given:
        raise Problem(400, "parameter", "from says how many entries there were then", parameter="from")
    first = number(given, "from", 1, low=1, high=_SIZE_MAX)
    to = number(given, "to", 1, low=1, high=_SIZE_MAX) if "to" in given else None
    return await _made(functools.partial(prove_consistency, call.ledger, first, to))


async def _made(work: Callable[[], Any]) -> Response:
    try:
        proof = await asyncio.to_thread(work)
    except InvalidEvent as error:
        raise Problem(400, "parameter", str(error), parameter=error.path) from None
    return Response(
        msgspec.json.encode(proof), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PATH = {"type": "array", "items": _HASH}
_COUNT = {"type": "integer", "minimum": 1, "maximum": _SIZE_MAX}


def _answer(description: str, members: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "required": list(members), "properties": members}
    return {"200": {"description": description, "content": {"application/json": {"schema": schema}}}}


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/events/{event_id}/proof",
        scope="read",
        handle=_inclusion,
        summary="That an event is in the ledger: its header, and the hashes from its leaf to the root",
        parameters=(
            Parameter(
                name="event_id",
                where="path",
                required=True,
                description="the id of the event",
                schema={"type": "string", "format": "uuid"},
            ),
            Parameter(
                name="size", description="over the first so many entries; all that there are", schema=_COUNT
            ),
        ),
        responses=_answer(
            "the proof (RFC 9162 §2.1.3)",
            {
                "position": _COUNT,
                "size": _COUNT,
                "header": {"type": "string"},
                "leaf": _HASH,
                "hashes": _PATH,
                "root": _HASH,
            },
        ),
    ),
    Endpoint(
        method="GET",
        path="/consistency",
        scope="read",
        handle=_consistency,
        summary="That the ledger only grew since it had so many entries",
        parameters=(
            Parameter(
                name="from", required=True, description="how many entries there were then", schema=_COUNT
            ),
            Parameter(name="to", description="how many there are now; all that there are", schema=_COUNT),
        ),
        responses=_answer(
            "the proof (RFC 9162 §2.1.4)",
            {"from_size": _COUNT, "from_root": _HASH, "to_size": _COUNT, "to_root": _HASH, "hashes": _PATH},
        ),
    ),
)
