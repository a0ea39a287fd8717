"""``POST /v1/events``: one event, an array, or lines without end; the answer comes after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response

from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import InvalidEvent, LedgerError, LimitExceeded
from chatsnapshot.fields import sequence_expected
from chatsnapshot.ingesting import ENVELOPE_KEYS, EVENT_KEYS
from chatsnapshot.ndjson import decode_object
from chatsnapshot.server.bodies import media_type, whole
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.lines import FAILURES_MAX, Lines
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.streaming import Streamed
from chatsnapshot.stores.base import (
    COMMITMENT,
    EVENT_ID,
    LEAF,
    POSITION,
    RECORDED_AT,
    SEQUENCE,
    Draft,
    Group,
    Row,
)

__all__ = ["ENDPOINTS", "JSON_TYPES", "LINE_TYPES"]

JSON_TYPES = ("application/json", "text/json")
LINE_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")


async def _post(call: Call) -> Response:
    kind = media_type(call.request)
    if kind in JSON_TYPES:
        return await _documents(call)
    if kind in LINE_TYPES:
        return await _lines(call)
    raise Problem(
        415,
        "content-type",
        "send events as application/json or application/x-ndjson",
        accepted=[JSON_TYPES[0], LINE_TYPES[0]],
    )


# --- one event, or an array ---


async def _documents(call: Call) -> Response:
    settings, held = call.service.settings, call.service.held
    expected = _number(call, "expected_sequence")
    carry_on = _carries_on(call, "stop")
    body = await whole(call.request, settings, held)
    try:
        if not body.lstrip().startswith(b"["):
            draft = await asyncio.to_thread(_draft, call, body)
            rows = await _commit(call, [draft], expected)
            return _answer(_result(rows[0], draft))
        items = _items(body, settings.batch_events_max)
        if carry_on:
            if expected is not None:
                raise Problem(
                    400,
                    "expected-sequence",
                    "expected_sequence is for a batch that is stored whole or not at all",
                )
            return _finished(await Lines(call).take(items))
        drafts = await asyncio.to_thread(_drafts, call, items)
        rows = await _commit(call, drafts, expected) if drafts else []
        results = [_result(row, draft) for row, draft in zip(rows, drafts, strict=True)]
        known = sum(result["known"] for result in results)
        return _answer(
            {
                "stored": len(results) - known,
                "known": known,
                "last_position": max((row[POSITION] for row in rows), default=0),
                "results": results,
            }
        )
    finally:
        held.give(len(body))


def _items(body: bytes, events_max: int) -> list[bytes]:
    """The elements of an array, as they were written."""
    try:
        items = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(400, "json", f"the body is no JSON array of events: {error}") from None
    if len(items) > events_max:
        raise Problem(
            413,
            "batch-too-long",
            f"an array has at most {events_max:,} events and this one has {len(items):,}; "
            "send several, or lines (application/x-ndjson)",
            limit="batch_events_max",
            allowed=events_max,
            found=len(items),
        )
    return [bytes(item) for item in items]


def _drafts(call: Call, items: list[bytes]) -> list[Draft]:
    drafts = []
    for index, item in enumerate(items):
        try:
            drafts.append(_draft(call, item))
        except Problem as problem:
            problem.more["index"] = index
            raise
        except InvalidEvent as error:
            raise Problem(
                422, "invalid-event", f"event {index}: {error}", index=index, path=error.path
            ) from None
    return drafts


def _draft(call: Call, data: bytes) -> Draft:
    """One event as a draft: an envelope as it is written, or the arguments of ``record``."""
    settings, intake = call.service.settings, call.ledger._intake
    try:
        fields = decode_object(data, settings.depth_max)
    except InvalidEvent as error:
        raise Problem(400, "json", f"an event is a JSON object: {error}") from None
    if len(data) > settings.event_bytes_max:
        raise LimitExceeded(
            "event_bytes_max", settings.event_bytes_max, len(data), "keep large data as a blob"
        )
    if fields.keys() >= ENVELOPE_KEYS:
        return intake.redraft(EventEnvelope.from_json(data), settings.redact)
    unknown = next((key for key in fields if key not in EVENT_KEYS), None)
    if unknown is not None:
        raise InvalidEvent(
            f"{unknown!r:.80} is no field of an event; other data belongs into payload", path=unknown
        )
    if fields.get("event_type") is None:
        raise InvalidEvent("event_type is missing", path="event_type")
    return intake.draft(None, None, [], redact=settings.redact, **fields)


async def _commit(call: Call, drafts: list[Draft], expected: int | None) -> list[Row]:
    call.ledger._check_writable()
    outcome = await call.ledger._recorder.acommit(Group(drafts, sequence_expected(expected)))
    if isinstance(outcome, LedgerError):
        raise outcome
    call.service.counts.recorded(len(outcome))
    return outcome


def _result(row: Row, draft: Draft) -> dict[str, Any]:
    """Where an event stands; ``known`` when it stood there before."""
    return {
        "event_id": uuid_text(row[EVENT_ID]),
        "position": row[POSITION],
        "sequence": row[SEQUENCE],
        "recorded_at": row[RECORDED_AT],
        "leaf": row[LEAF].hex(),
        "known": row[COMMITMENT] != draft.commitment,
    }


# --- lines ---


async def _lines(call: Call) -> Response:
    lines = Lines(call, stop=not _carries_on(call, "continue"))
    if "stream-results" not in call.request.headers.get("prefer", "").lower():
        return _finished(await lines.read())
    return Streamed(
        _streamed(lines),
        status_code=207,
        media_type=LINE_TYPES[0],
        headers={"Preference-Applied": "stream-results", "Cache-Control": "no-store"},
    )


async def _streamed(lines: Lines) -> AsyncIterator[bytes]:
    async for one in lines.results():
        yield msgspec.json.encode(one) + b"\n"


def _finished(report: dict[str, Any]) -> Response:
    """The answer to lines: 200 when every one was taken, else a problem that tells which were not."""
    if not report["failed"]:
        return _answer(report)
    first = report["failures"][0]
    raise Problem(
        422,
        "some-events-refused",
        f"{report['failed']:,} of the events were refused, the first in line {first['line']}: {first['reason']}",
        **report,
    )


# --- parameters ---


def _answer(content: Any) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


def _number(call: Call, name: str) -> int | None:
    text = call.request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise Problem(400, "parameter", f"{name} is a whole number from 0 on", parameter=name)
    return int(text)


def _carries_on(call: Call, default: str) -> bool:
    text = call.request.query_params.get("on_error", default)
    if text not in ("stop", "continue"):
        raise Problem(400, "parameter", "on_error is stop or continue", parameter="on_error")
    return text == "continue"


_EVENT = {
    "type": "object",
    "required": ["event_type", "correlation_id"],
    "description": "an event: the arguments of record(), or a complete envelope",
    "additionalProperties": False,
    "properties": {
        "event_id": {"type": ["string", "null"], "format": "uuid"},
        "event_type": {
            "type": "string",
            "pattern": "^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$",
            "maxLength": 256,
        },
        "timestamp": {"type": ["string", "null"], "format": "date-time"},
        "source": {"type": ["object", "null"]},
        "correlation_id": {"type": "string", "minLength": 1, "maxLength": 256},
        "causation_id": {"type": ["string", "null"], "format": "uuid"},
        "payload": {},
        "idempotency_key": {"type": ["string", "null"], "minLength": 1, "maxLength": 256},
        "attributes": {"type": ["object", "null"]},
        "schema_version": {"type": ["integer", "null"], "minimum": 1},
    },
}
_RESULT = {
    "type": "object",
    "required": ["event_id", "position", "sequence", "recorded_at", "leaf", "known"],
    "properties": {
        "event_id": {"type": "string", "format": "uuid"},
        "position": {"type": "integer", "minimum": 1},
        "sequence": {"type": "integer", "minimum": 1},
        "recorded_at": {"type": "string"},
        "leaf": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "known": {"type": "boolean"},
    },
}
_REPORT = {
    "type": "object",
    "required": ["stored", "known", "last_position"],
    "properties": {
        "stored": {"type": "integer"},
        "known": {"type": "integer"},
        "last_position": {"type": "integer"},
        "results": {"type": "array", "items": _RESULT},
        "failed": {"type": "integer"},
        "failures": {"type": "array", "maxItems": FAILURES_MAX},
        "committed_through_line": {"type": "integer"},
    },
}

ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/events",
        scope="ingest",
        handle=_post,
        summary="Record one event, an array of events (whole or not at all), or lines without end",
        parameters=(
            Parameter(
                name="expected_sequence",
                description="record only when the correlation's last sequence is this (0: it is new); not for lines",
                schema={"type": "integer", "minimum": 0},
            ),
            Parameter(
                name="on_error",
                description="what a refused event does to the rest: stop (an array stores nothing then) or continue",
                schema={"type": "string", "enum": ["stop", "continue"]},
            ),
            Parameter(
                name="Prefer",
                where="header",
                description="stream-results: lines are answered as they are committed, with status 207",
            ),
        ),
        request={
            "required": True,
            "content": {
                "application/json": {"schema": {"oneOf": [_EVENT, {"type": "array", "items": _EVENT}]}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        },
        responses={
            "200": {
                "description": "committed: durable, and seen by every read from now on",
                "content": {"application/json": {"schema": {"oneOf": [_RESULT, _REPORT]}}},
            },
            "207": {"description": "results as they come", "content": {"application/x-ndjson": {}}},
        },
    ),
)
