"""``POST /v1/traces`` and ``/v1/logs``: OTLP over HTTP, in protobuf or JSON; answered after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent, MissingExtra
from chatsnapshot.ingest.otlp import jsonform
from chatsnapshot.ingest.otlp.event import Event
from chatsnapshot.ingest.otlp.logs import events_of_log
from chatsnapshot.ingest.otlp.mapping import events_of_span
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.taking import Taking
from chatsnapshot.ledger import Ledger
from chatsnapshot.server.bodies import media_type, whole
from chatsnapshot.server.endpoints import Call, Endpoint
from chatsnapshot.server.problems import Problem

__all__ = ["ENDPOINTS", "JSON", "PROTOBUF"]

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

_memories: WeakKeyDictionary[Ledger, Memory] = WeakKeyDictionary()


class _Signal(NamedTuple):
    """Traces or logs: the name of its reader, its rule, and how its answer counts what was refused."""

    reader: str
    events_of: Callable[[Any, Memory], list[Event]]
    rejected: str
    what: str


_TRACES = _Signal("read_traces", events_of_span, "rejectedSpans", "spans")
_LOGS = _Signal("read_logs", events_of_log, "rejectedLogRecords", "log records")


async def _traces(call: Call) -> Response:
    return await _take(call, _TRACES)


async def _logs(call: Call) -> Response:
    return await _take(call, _LOGS)


async def _take(call: Call, signal: _Signal) -> Response:
    kind = media_type(call.request)
    if kind not in (PROTOBUF, JSON):
        raise Problem(415, "content-type", f"send OTLP as {PROTOBUF} or {JSON}", accepted=[PROTOBUF, JSON])
    call.ledger._check_writable()
    memory = _memories.get(call.ledger)
    if memory is None:
        memory = _memories[call.ledger] = Memory()
    held = call.service.held
    body = await whole(call.request, call.service.settings, held)
    try:
        taking = Taking(call.ledger, memory)
        await asyncio.to_thread(_read, taking, body, kind, signal, call.service.settings.redact)
        await taking.commit()
    finally:
        held.give(len(body))
    call.service.counts.recorded(taking.events)
    return _answer(kind, signal, taking)


def _read(taking: Taking, body: bytes, kind: str, signal: _Signal, redact: object) -> None:
    if kind == JSON:
        module: Any = jsonform
    else:
        from chatsnapshot.ingest.otlp import protobuf as module
    try:
        taking.read(body, getattr(module, signal.reader), signal.events_of, redact)
    except InvalidEvent as error:
        raise Problem(400, "otlp", str(error)) from None
    except MissingExtra as error:
        raise Problem(415, "content-type", f"{error}; or export as http/json", accepted=[JSON]) from None


def _answer(kind: str, signal: _Signal, taking: Taking) -> Response:
    """``Export…ServiceResponse`` in the type of the request: empty, or with what was refused and why."""
    said = f"{taking.refused} {signal.what} refused; the first: {taking.reason}"[:1_000]
    if kind == JSON:
        partial = {signal.rejected: str(taking.refused), "errorMessage": said}
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
