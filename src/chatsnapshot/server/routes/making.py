"""``PUT /v1/ledgers/{ledger}``: makes a ledger, where the service keeps ledgers of any name."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from starlette.responses import Response

from chatsnapshot.server.bodies import media_type, whole
from chatsnapshot.server.endpoints import Call, Endpoint
from chatsnapshot.server.problems import Problem
from chatsnapshot.stores.http.wire import MEDIA_TYPE

__all__ = ["ENDPOINTS"]

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_IDENTITY = re.compile(rf"{_UUID}(?:\+{_UUID})?", re.ASCII)
_BODY_BYTES_MAX = 4_096


async def _make(call: Call) -> Response:
    body = await whole(call.request, call.service.settings, call.service.held, _BODY_BYTES_MAX)
    call.service.held.give(len(body))
    if body and media_type(call.request) not in ("application/json", MEDIA_TYPE):  # no form of a page
        raise Problem(415, "content-type", "send the body as application/json", accepted=["application/json"])
    identity = _identity(body)
    made = await call.service.make(call.name, identity)
    return Response(
        msgspec.json.encode({"ledger": call.name, "made": made}),
        status_code=201 if made else 200,
        media_type="application/json",
    )


def _identity(body: bytes) -> str:
    try:
        given: dict[str, Any] = msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, "json", f"the body is a JSON object: {error}") from None
    identity = given.pop("identity", "")
    if given or not isinstance(identity, str) or (identity and not _IDENTITY.fullmatch(identity)):
        raise Problem(
            400, "parameter", "the body may hold identity, the UUID that a ledger is to be made with"
        )
    return identity


_BODY = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"identity": {"type": "string", "pattern": f"^({_IDENTITY.pattern})?$"}},
}
_MADE = {"type": "object", "required": ["ledger", "made"], "properties": {"made": {"type": "boolean"}}}

ENDPOINTS = (
    Endpoint(
        method="PUT",
        path="",
        scope="admin",
        handle=_make,
        makes=True,
        summary="Make the ledger of this name, where any name is served (serve --any-ledger)",
        request={"content": {"application/json": {"schema": _BODY}}},
        responses={
            "200": {
                "description": "it was there already",
                "content": {"application/json": {"schema": _MADE}},
            },
            "201": {"description": "it was made", "content": {"application/json": {"schema": _MADE}}},
        },
    ),
)
