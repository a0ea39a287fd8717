"""``GET /v1/stream``: entries as server-sent events, from the past into the live end, without a gap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent, LedgerError
from chatsnapshot.reading import make_query
from chatsnapshot.server.cloudforms import FORMAT, as_cloudevents, frames
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.parameters import FILTERS, POSITION, filters, number, only
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.streaming import Streamed
from chatsnapshot.stores.base import Query

__all__ = ["ENDPOINTS"]

_LAST = "Last-Event-ID"
_log = logging.getLogger("chatsnapshot.server")


async def _stream(call: Call) -> Response:
    given = only(call.request, [*(one.name for one in FILTERS), "after", "format"])
    cloud = as_cloudevents(call.request, given)
    last = call.request.headers.get(_LAST)
    said = "after" if last is None else _LAST
    if last is not None:
        given = {**given, _LAST: last}
    try:
        query = make_query(limits=call.ledger.limits, **filters(given))
    except InvalidEvent as error:
        raise Problem(400, "parameter", str(error), parameter=error.path) from None
    head = (await asyncio.to_thread(call.ledger._store.head)).size
    after = number(given, said, head)
    if after > head:
        raise Problem(
            400,
            "parameter",
            f"position {after} is not there yet; the last one is {head}",
            parameter=said,
            head=head,
        )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    if call.request.method == "HEAD":
        return Response(media_type="text/event-stream", headers=headers)
    slot = call.service.streams.hold()
    return Streamed(
        _events(call, query, after, cloud),
        status_code=200,
        media_type="text/event-stream",
        headers=headers,
        disconnected=call.request.receive,
        stall_seconds=call.service.settings.stall_seconds_max,
        after=slot.give,
    )


async def _events(call: Call, query: Query, after: int, cloud: bool) -> AsyncIterator[bytes]:
    """Frames, and where it is quiet a heartbeat whose id is the position that was looked at."""
    yield b"retry: 1000\n\n"
    heartbeat = call.service.settings.heartbeat_seconds
    try:
        async with aclosing(call.service.live(call.name).follow(query, after, heartbeat)) as following:
            async for found in following:
                call.service.gate.check(call.access)  # a key that was revoked meanwhile sees nothing more
                if found.data:
                    yield frames(found.data) if cloud else found.data
                else:
                    position = found.scanned_to
                    yield b'id: %d\nevent: heartbeat\ndata: {"position":%d}\n\n' % (position, position)
    except (LedgerError, Problem) as error:
        # The answer has begun, so it can only end: the client connects again, and is told then what is wrong.
        _log.warning("a live stream of %s ended: %s", call.name, error)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/stream",
        scope="read",
        handle=_stream,
        summary="Entries as server-sent events, live; an id is a position, a heartbeat says how far was looked",
        parameters=(
            *FILTERS,
            FORMAT,
            Parameter(
                name="after",
                description="begin after this position; without it, with what is recorded from now on",
                schema=POSITION,
            ),
            Parameter(
                name=_LAST,
                where="header",
                description="as after, and stronger: where a client was when its connection broke",
                schema=POSITION,
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
