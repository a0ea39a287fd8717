"""``GET /v1/verify``: the report of a verification. ``GET /v1/blobs/{name}``: the bytes of a blob."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.reading import blob_name
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.parameters import only
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.streaming import Streamed

__all__ = ["ENDPOINTS"]

_OCTETS = "application/octet-stream"


async def _verify(call: Call) -> Response:
    only(call.request, ())
    with call.service.verifications.one():
        report = await call.ledger.averify()
    return Response(
        msgspec.json.encode(report), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


async def _blob(call: Call) -> Response:
    """Bytes of unknown kind, part by part: sent as an attachment that no browser shows."""
    only(call.request, ())
    try:
        name, digest = blob_name(call.request.path_params["name"])
    except InvalidEvent as error:
        raise Problem(400, "blob-name", str(error)) from None
    parts = await asyncio.to_thread(call.ledger._store.blob, digest)
    if parts is None:
        raise NotFound(f"there is no blob {name} here; it may have been erased")
    headers = {
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    if call.request.method == "HEAD":
        return Response(media_type=_OCTETS, headers=headers)
    return Streamed(
        _pieces(iter(parts)),
        status_code=200,
        media_type=_OCTETS,
        headers=headers,
        stall_seconds=call.service.settings.stall_seconds_max,
    )


async def _pieces(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await asyncio.to_thread(next, parts, None)) is not None:
        yield piece


_REPORT: dict[str, Any] = {
    "type": "object",
    "required": ["ok", "level", "problems", "head", "root"],
    "properties": {"ok": {"type": "boolean"}, "level": {"type": "string"}, "problems": {"type": "array"}},
}

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/verify",
        scope="read",
        handle=_verify,
        summary="Everything derived anew from what is stored, and compared",
        responses={
            "200": {"description": "the report", "content": {"application/json": {"schema": _REPORT}}}
        },
    ),
    Endpoint(
        method="GET",
        path="/blobs/{name}",
        scope="read",
        handle=_blob,
        summary="The bytes of a blob",
        parameters=(
            Parameter(
                name="name",
                where="path",
                required=True,
                description="sha256: and 64 hex digits, as an event names it",
                schema={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
            ),
        ),
        responses={
            "200": {
                "description": "the bytes",
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    ),
)
