"""What every operation of the store wire does: reads its request, answers, and is described."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.responses import Response

from chatsnapshot.server.bodies import media_type, whole
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter, Scope
from chatsnapshot.server.problems import Problem
from chatsnapshot.stores.http import wire

__all__ = ["Work", "answer_of", "in_thread", "request_of", "wire_endpoint"]

Work = Callable[[Call, Any], Any]


async def request_of(call: Call, type: Any) -> tuple[Any, int]:
    """What was asked, and the bytes of it that are held until they are given back."""
    headers = call.request.headers
    if media_type(call.request) != wire.MEDIA_TYPE:
        raise Problem(415, "content-type", f"this takes {wire.MEDIA_TYPE}", accepted=[wire.MEDIA_TYPE])
    if headers.get(wire.VERSION_HEADER) != wire.VERSION:
        raise Problem(
            400,
            "wire-version",
            f"this service speaks {wire.VERSION_HEADER}: {wire.VERSION}",
            versions=[wire.VERSION],
        )
    settings, held = call.service.settings, call.service.held
    body = await whole(call.request, settings, held, settings.store_bytes_max, "store_bytes_max")
    try:
        return await _decoded(body, type), len(body)
    except BaseException:
        held.give(len(body))
        raise


async def _decoded(body: bytes, type: Any) -> Any:
    try:
        if len(body) < 65_536:
            return wire.decode(body, type=type)
        return await asyncio.to_thread(wire.decode, body, type=type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "wire", f"the request cannot be read: {error}") from None


def answer_of(content: Any) -> Response:
    """What is answered, as it goes over the wire."""
    return Response(
        wire.encode(content),
        media_type=wire.MEDIA_TYPE,
        headers={wire.VERSION_HEADER: wire.VERSION, "Cache-Control": "no-store"},
    )


def in_thread(type: Any, work: Work) -> Callable[[Call], Awaitable[Response]]:
    """A handler that does its work on a thread."""

    async def handle(call: Call) -> Response:
        request, size = await request_of(call, type)
        try:
            return answer_of(await asyncio.to_thread(work, call, request))
        finally:
            call.service.held.give(size)

    return handle


def wire_endpoint(
    name: str, scope: Scope, summary: str, handle: Callable[[Call], Awaitable[Response]]
) -> Endpoint:
    """``POST /store/NAME``."""
    return Endpoint(
        method="POST",
        path=f"/store/{name}",
        scope=scope,
        handle=handle,
        summary=f"Store wire: {summary}",
        parameters=(
            Parameter(
                name=wire.VERSION_HEADER,
                where="header",
                required=True,
                description="version of the wire",
                schema={"type": "string", "enum": [wire.VERSION]},
            ),
        ),
        request={
            "required": True,
            "content": {wire.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        },
        responses={
            "200": {
                "description": "the answer",
                "content": {wire.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )
