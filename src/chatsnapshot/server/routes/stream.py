"""``GET /v1/stream``: entries as server-sent events, from the past into the live end, without a gap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.reading import make_query
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.parameters import FILTERS, filters, number, only
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.streaming import Streamed
from chatsnapshot.stores.base import Query

__all__ = ["ENDPOINTS"]

_LAST = "Last-Event-ID"


async def _stream(call: Call) -> Response:
    given = only(call.request, [*(one.name for one in FILTERS), "after"])
    last = call.request.headers.get(_LAST)
    if last is not None:
        given = {**given, "after": last}
    try:
        query = make_query(limits=call.ledger.limits, **filters(given))
    except InvalidEvent as error:
        raise Problem(400, "parameter", str(error), parameter=error.path) from None
    head = (await asyncio.to_thread(call.ledger._store.head)).size
    after = number(given, "after", head)
    if after > head:
        raise Problem(
            400,
            "parameter",
            f"position {after} is not there yet; the last one is {head}",
            parameter="after",
            head=head,
        )
    slot = call.service.streams.hold()
    return Streamed(
        _events(call, query, after),
        status_code=200,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        disconnected=call.request.receive,
        after=slot.give,
    )


async def _events(call: Call, query: Query, after: int) -> AsyncIterator[bytes]:
    """Frames, and where it is quiet a heartbeat whose id is the position that was looked at."""
    yield b"retry: 1000\n\n"
    heartbeat = call.service.settings.heartbeat_seconds
    async for found in call.service.live(call.name).follow(query, after, heartbeat):
        if found.data:
            yield found.data
        else:
            yield b'id: %d\nevent: heartbeat\ndata: {"position":%d}\n\n' % (
                found.scanned_to,
                found.scanned_to,
            )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/stream",
        scope="read",
        handle=_stream,
        summary="Entries as server-sent events, live; an id is a position, a heartbeat says how far was looked",
        parameters=(
            *FILTERS,
            Parameter(
                name="after",
                description="begin after this position; without it, with what is recorded from now on",
                schema={"type": "integer", "minimum": 0},
            ),
            Parameter(
                name=_LAST,
                where="header",
                description="as after, and stronger: where a client was when its connection broke",
                schema={"type": "integer", "minimum": 0},
            ),
        ),
        responses={
            "200": {
                "description": "events without end",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
        },
    ),
)
