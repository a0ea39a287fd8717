"""``GET /v1/head``: how far the ledger is, and its root."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.responses import Response

from chatsnapshot.integrity import decode_frontier, root_of_frontier
from chatsnapshot.ledger import Ledger
from chatsnapshot.server.endpoints import Call, Endpoint
from chatsnapshot.server.parameters import only

__all__ = ["ENDPOINTS"]


async def _head(call: Call) -> Response:
    only(call.request, ())
    found = await asyncio.to_thread(_look, call.ledger)
    return Response(msgspec.json.encode(found), media_type="application/json")


def _look(ledger: Ledger) -> dict[str, object]:
    head = ledger._store.head()
    return {
        "ledger_id": ledger.ledger_id,
        "position": head.size,
        "root": root_of_frontier(decode_frontier(head.size, head.frontier)).hex(),
        "recorded_at": head.recorded_at or None,
    }


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/head",
        scope="read",
        handle=_head,
        summary="How far the ledger is: position, root and time of the last entry",
        responses={
            "200": {
                "description": "the head",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "required": ["ledger_id", "position", "root", "recorded_at"],
                            "properties": {
                                "ledger_id": {"type": "string", "format": "uuid"},
                                "position": {"type": "integer", "minimum": 0},
                                "root": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                                "recorded_at": {"type": ["string", "null"]},
                            },
                        }
                    }
                },
            }
        },
    ),
)
