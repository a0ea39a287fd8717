"""``POST /v1/traces`` and ``/v1/logs``: OTLP over HTTP, in protobuf or JSON; answered after the commit."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent, MissingExtra
from chatsnapshot.ingest.otlp.making import LOGS, TRACES, Signal, records_of
from chatsnapshot.ingest.otlp.taking import Taking
from chatsnapshot.ledger import Ledger
from chatsnapshot.server.bodies import media_type, whole
from chatsnapshot.server.endpoints import Call, Endpoint
from chatsnapshot.server.helping import Telling
from chatsnapshot.server.problems import Problem

__all__ = ["ENDPOINTS", "JSON", "PROTOBUF"]

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

_memories: WeakKeyDictionary[Ledger, Telling] = WeakKeyDictionary()


class _Kind(NamedTuple):
    """Traces or logs, and how the answer counts what was refused."""

    signal: Signal
    rejected: str
    what: str


_TRACES = _Kind(TRACES, "rejectedSpans", "spans")
_LOGS = _Kind(LOGS, "rejectedLogRecords", "log records")


async def _traces(call: Call) -> Response:
    return await _take(call, _TRACES)


async def _logs(call: Call) -> Response:
    return await _take(call, _LOGS)


async def _take(call: Call, kind: _Kind) -> Response:
    form = media_type(call.request)
    if form not in (PROTOBUF, JSON):
        raise Problem(415, "content-type", f"send OTLP as {PROTOBUF} or {JSON}", accepted=[PROTOBUF, JSON])
    call.ledger._check_writable()
    memory = _memories.get(call.ledger)
    if memory is None:
        memory = _memories[call.ledger] = Telling()
    held = call.service.held
    body = await whole(call.request, call.service.settings, held)
    try:
        taking = Taking(call.ledger, memory)
        if not await _helped(call, taking, memory, body, form == JSON, kind):
            await asyncio.to_thread(_read, call, taking, body, form == JSON, kind)
        await taking.commit()
    finally:
        held.give(len(body))
    call.service.counts.recorded(taking.events)
    return _answer(form, kind, taking)


async def _helped(call: Call, taking: Taking, memory: Telling, body: bytes, json: bool, kind: _Kind) -> bool:
    """Have the drafts made in the second process, if it helps; raises :class:`Problem` for a body that is none."""
    helper, redact = call.service.helper, call.service.settings.redact
    if not helper.helps(call.ledger, redact, len(body)):
        return False
    answer = await helper.make(
        call.name, call.ledger, memory, body, json=json, logs=kind is _LOGS, redact=redact
    )
    if answer.wrong:
        raise Problem(400, "otlp", answer.wrong)
    if answer.made is None:
        return False
    taking.take(answer.made)
    return True


def _read(call: Call, taking: Taking, body: bytes, json: bool, kind: _Kind) -> None:
    try:
        taking.read(records_of(body, json, kind.signal), kind.signal.events_of, call.service.settings.redact)
    except InvalidEvent as error:
        raise Problem(400, "otlp", str(error)) from None
    except MissingExtra as error:
        raise Problem(415, "content-type", f"{error}; or export as http/json", accepted=[JSON]) from None


def _answer(form: str, kind: _Kind, taking: Taking) -> Response:
    """``Export…ServiceResponse`` in the type of the request: empty, or with what was refused and why."""
    said = f"{taking.refused} {kind.what} refused; the first: {taking.reason}"[:1_000]
    if form == JSON:
        partial = {kind.rejected: str(taking.refused), "errorMessage": said}
        return Response(
            msgspec.json.encode({"partialSuccess": partial} if taking.refused else {}), media_type=JSON
        )
    return Response(_partial(taking.refused, said) if taking.refused else b"", media_type=PROTOBUF)


def _partial(refused: int, said: str) -> bytes:
    """The answer in protobuf: field 1 of it holds a count (field 1) and a text (field 2), for spans as for logs."""
    text = said.encode("utf-8", "replace")
    inner = b"\x08" + _varint(refused) + b"\x12" + _varint(len(text)) + text
    return b"\x0a" + _varint(len(inner)) + inner


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _endpoint(path: str, handle: Any, what: str, rejected: str) -> Endpoint:
    answer = {
        "type": "object",
        "properties": {
            "partialSuccess": {
                "type": "object",
                "properties": {rejected: {"type": "string"}, "errorMessage": {"type": "string"}},
            }
        },
    }
    return Endpoint(
        method="POST",
        path=path,
        scope="ingest",
        handle=handle,
        summary=f"Record {what} of OpenTelemetry (OTLP/HTTP); the answer comes after the commit",
        request={
            "required": True,
            "content": {
                JSON: {"schema": {"type": "object"}},
                PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        responses={
            "200": {
                "description": "committed, but for what partialSuccess says is refused",
                "content": {
                    JSON: {"schema": answer},
                    PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
                },
            }
        },
    )


ENDPOINTS = (
    _endpoint("/traces", _traces, "spans", _TRACES.rejected),
    _endpoint("/logs", _logs, "log records", _LOGS.rejected),
)
