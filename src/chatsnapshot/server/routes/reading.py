"""``GET /v1/events``: entries page by page, with the filters of ``read``. ``GET /v1/events/{id}``: one entry."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ledger import Ledger
from chatsnapshot.server.cloudforms import BATCH_TYPE, EVENT_TYPE, FORMAT, as_cloudevents, batch, event
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.parameters import FILTERS, POSITION, UNTIL, filters, flag, moment, number, only
from chatsnapshot.server.problems import Problem

__all__ = ["ENDPOINTS"]

_LIMIT_DEFAULT = 100
_LIMIT_MAX = 1_000
_BOUNDS = ("after", "until", "limit", "reverse")


async def _list(call: Call) -> Response:
    given = only(call.request, [*(one.name for one in FILTERS), *_BOUNDS, "format"])
    cloud = as_cloudevents(call.request, given, BATCH_TYPE)
    bounds = {
        "after": number(given, "after", 0),
        "until": moment(given),
        "limit": number(given, "limit", _LIMIT_DEFAULT, low=1, high=_LIMIT_MAX),
        "reverse": flag(given, "reverse"),
    }
    return await asyncio.to_thread(_page, call.ledger, filters(given), bounds, cloud)


def _page(ledger: Ledger, wanted: dict[str, Any], bounds: dict[str, Any], cloud: bool) -> Response:
    try:
        reading = ledger.read(**wanted, **bounds)
        head = ledger.head
        entries = reading.page()
    except InvalidEvent as error:
        raise Problem(400, "parameter", str(error), parameter=error.path) from None
    # A page ends with its last match when it is full, and further on when it looked at more.
    full = len(entries) == bounds["limit"]
    scanned = entries[-1].position if full else reading.scanned_to
    more = not (reading.exhausted and not full)
    bound = "next_until" if bounds["reverse"] else "next_after"
    after: int | None = (scanned - 1 if full else scanned) if bounds["reverse"] else scanned
    if not more or (bounds["reverse"] and (after or 0) <= bounds["after"]):
        after = None
    if cloud:  # an array has no room for the next page
        headers = {"Cache-Control": "no-store", "ChatSnapshot-Head": str(head)}
        if after is not None:
            headers[f"ChatSnapshot-{bound.title().replace('_', '-')}"] = str(after)
        return Response(batch(entries), media_type=BATCH_TYPE, headers=headers)
    tail = f'],"{bound}":{"null" if after is None else after},"head":{head}}}'
    return _json(b'{"entries":[' + b",".join(entry.to_json() for entry in entries) + tail.encode())


async def _one(call: Call) -> Response:
    given = only(call.request, ("format",))
    cloud = as_cloudevents(call.request, given)
    try:
        entry: LedgerEntry = await call.ledger.aget(call.request.path_params["event_id"])
    except InvalidEvent as error:
        raise Problem(400, "event-id", str(error)) from None
    return event(entry) if cloud else _json(entry.to_json())


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/events",
        scope="read",
        handle=_list,
        summary="Entries in the order of their positions; a page may be short or empty and still have a next one",
        parameters=(
            *FILTERS,
            Parameter(name="after", description="only after this position", schema=POSITION),
            UNTIL,
            Parameter(
                name="limit",
                description="entries of a page",
                schema={"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX, "default": _LIMIT_DEFAULT},
            ),
            Parameter(
                name="reverse",
                description="from the end; next_until takes the place of next_after",
                schema={"type": "boolean"},
            ),
            FORMAT,
        ),
        responses={
            "200": {
                "description": "a page",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Page"}},
                    BATCH_TYPE: {"schema": {"type": "array", "items": {"type": "object"}}},
                },
            },
        },
    ),
    Endpoint(
        method="GET",
        path="/events/{event_id}",
        scope="read",
        handle=_one,
        summary="The entry of one event",
        parameters=(
            Parameter(
                name="event_id",
                where="path",
                required=True,
                description="the id of the event",
                schema={"type": "string", "format": "uuid"},
            ),
            FORMAT,
        ),
        responses={
            "200": {
                "description": "the entry",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Entry"}},
                    EVENT_TYPE: {"schema": {"type": "object"}},
                },
            },
        },
    ),
)
