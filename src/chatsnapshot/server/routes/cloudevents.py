"""``POST /v1/cloudevents``: CloudEvents 1.0 in binary, structured and batch mode. ``POST /v1/events`` takes them too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.fields import checked_text
from chatsnapshot.ingest.cloudevents.binary import is_binary, read_message
from chatsnapshot.ingest.cloudevents.mapping import Mapper
from chatsnapshot.ingest.cloudevents.structured import batch_items, read_document
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.server.bodies import media_type, whole
from chatsnapshot.server.cloudforms import BATCH_TYPE, EVENT_TYPE
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.lines import Lines
from chatsnapshot.server.parameters import POSITION, TEXT, choice, number, only
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.routes.recording import commit, result_of
from chatsnapshot.stores.base import Draft

__all__ = ["ENDPOINTS", "are_sent", "take"]

_PARAMETERS = ("expected_sequence", "on_error", "correlation_id", "type_prefix")
_PREFIX_CHARS_MAX = 256
_FAILURES_MAX = 1_000


def are_sent(request: Request) -> bool:
    """Whether a request brings CloudEvents, by its content type or the headers of the binary mode."""
    return media_type(request).startswith("application/cloudevents") or is_binary(request.headers.keys())


async def take(call: Call) -> Response:
    """Record what a request brings."""
    given = only(call.request, _PARAMETERS)
    expected = number(given, "expected_sequence", -1)
    carry_on = choice(given, "on_error", ("stop", "continue")) == "continue"
    mapper = Mapper(
        call.ledger, correlation_id=_correlation(given.get("correlation_id")), type_prefix=_prefix(given)
    )
    kind = media_type(call.request)
    if kind not in (EVENT_TYPE, BATCH_TYPE) and (
        kind.startswith("application/cloudevents") or not are_sent(call.request)
    ):
        raise Problem(
            415,
            "content-type",
            f"send CloudEvents as {EVENT_TYPE}, as {BATCH_TYPE}, or in binary mode with ce- headers",
            accepted=[EVENT_TYPE, BATCH_TYPE],
        )
    settings, held = call.service.settings, call.service.held
    body = await whole(call.request, settings, held)
    try:
        with call.service.recordings.one():
            if kind == BATCH_TYPE:
                return await _batch(call, mapper, body, expected, carry_on)
            draft = await asyncio.to_thread(_draft, call, mapper, kind, body)
            rows = await commit(call, [draft], expected)
            result = result_of(rows[0], draft)
            call.service.counts.recorded(1, result["known"])
            return _answer(result)
    finally:
        held.give(len(body))


def _draft(call: Call, mapper: Mapper, kind: str, body: bytes) -> Draft:
    settings = call.service.settings
    try:
        if kind == EVENT_TYPE:
            event = read_document(body, settings.depth_max)
        else:
            event = read_message(call.request.headers.items(), body, settings.depth_max)
    except InvalidEvent as error:
        if error.path is None:  # it could not be read at all
            raise Problem(400, "json", f"the CloudEvent cannot be read: {error}") from None
        raise
    return call.ledger._intake.redraft(mapper.envelope(event), settings.redact)


# --- a batch ---


async def _batch(call: Call, mapper: Mapper, body: bytes, expected: int, carry_on: bool) -> Response:
    events_max = call.service.settings.batch_events_max
    try:
        items = batch_items(body)
    except InvalidEvent as error:
        raise Problem(400, "json", str(error)) from None
    if len(items) > events_max:
        raise Problem(
            413,
            "batch-too-long",
            f"a batch has at most {events_max:,} events and this one has {len(items):,}; send several",
            limit="batch_events_max",
            allowed=events_max,
            found=len(items),
        )
    if carry_on:
        if expected >= 0:
            raise Problem(
                400, "parameter", "expected_sequence goes with on_error=stop", parameter="expected_sequence"
            )
        return _finished(await Lines(call).take(_envelopes(call, mapper, items)))
    drafts = await asyncio.to_thread(_drafts, call, mapper, items)
    rows = await commit(call, drafts, expected) if drafts else []
    results = [result_of(row, draft) for row, draft in zip(rows, drafts, strict=True)]
    known = sum(result["known"] for result in results)
    call.service.counts.recorded(len(rows), known)
    last = max((result["position"] for result in results), default=0)
    return _answer(
        {"stored": len(results) - known, "known": known, "last_position": last, "results": results}
    )


def _envelopes(call: Call, mapper: Mapper, items: list[bytes]) -> Iterator[EventEnvelope | Exception]:
    """Each event as an envelope, or why it is none."""
    for item in items:
        try:
            yield mapper.envelope(read_document(item, call.service.settings.depth_max))
        except (InvalidEvent, LimitExceeded) as error:
            yield error


def _drafts(call: Call, mapper: Mapper, items: list[bytes]) -> list[Draft]:
    """Drafts of all; a problem that tells every refused event when there is one."""
    drafts: list[Draft] = []
    failures: list[dict[str, Any]] = []
    for index, made in enumerate(_envelopes(call, mapper, items)):
        try:
            if isinstance(made, Exception):
                raise made
            drafts.append(call.ledger._intake.redraft(made, call.service.settings.redact))
        except (InvalidEvent, LimitExceeded) as error:
            failures.append({"index": index, "reason": str(error)})
    if failures:
        first = failures[0]
        raise Problem(
            422,
            "invalid-event",
            f"event {first['index']}: {first['reason']}; nothing was stored (on_error=continue stores the others)",
            index=first["index"],
            failed=len(failures),
            failures=failures[:_FAILURES_MAX],
        )
    return drafts


def _finished(report: dict[str, Any]) -> Response:
    """The answer to a batch of which what can be is stored: 200 when that is all, else 422 with what is not."""
    failures = [{"index": one["line"] - 1, "reason": one["reason"]} for one in report["failures"]]
    told = {"failed": report["failed"], "failures": failures}
    told |= {name: report[name] for name in ("stored", "known", "last_position")}
    if not failures:
        return _answer(told)
    raise Problem(
        422,
        "some-events-refused",
        f"{report['failed']:,} of the events were refused, the first is event {failures[0]['index']}: "
        f"{failures[0]['reason']}; the others are stored",
        **told,
    )


# --- parameters ---


def _answer(content: Any) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


def _correlation(text: str | None) -> str | None:
    try:
        return None if text is None else checked_text(text, "correlation_id", DEFAULTS.id_chars_max)
    except InvalidEvent as error:
        raise Problem(400, "parameter", str(error), parameter="correlation_id") from None


def _prefix(given: Any) -> str:
    text = str(given.get("type_prefix", ""))
    if len(text) > _PREFIX_CHARS_MAX:
        raise Problem(
            400,
            "parameter",
            f"type_prefix has at most {_PREFIX_CHARS_MAX} characters",
            parameter="type_prefix",
        )
    return text


_CLOUDEVENT = {
    "type": "object",
    "description": "a CloudEvent 1.0 in the JSON format",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "format": "uri-reference", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "subject": {"type": ["string", "null"], "minLength": 1},
        "time": {"type": ["string", "null"], "format": "date-time"},
        "correlationid": {"type": ["string", "null"], "minLength": 1},
    },
}

ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/cloudevents",
        scope="ingest",
        handle=take,
        summary="Record CloudEvents: one in binary or structured mode, or a batch (whole or not at all)",
        parameters=(
            Parameter(
                name="expected_sequence",
                description="record only when the correlation's last sequence is this (0: it is new)",
                schema=POSITION,
            ),
            Parameter(
                name="on_error",
                description="what a refused event of a batch does to the rest: stop (nothing is stored) or continue",
                schema={"type": "string", "enum": ["stop", "continue"]},
            ),
            Parameter(
                name="correlation_id",
                description="the correlation of events that have neither correlationid nor subject",
                schema=TEXT,
            ),
            Parameter(
                name="type_prefix",
                description="what is cut from types that begin with it, such as com.example.",
                schema={"type": "string", "maxLength": _PREFIX_CHARS_MAX},
            ),
        ),
        request={
            "required": True,
            "content": {
                EVENT_TYPE: {"schema": _CLOUDEVENT},
                BATCH_TYPE: {"schema": {"type": "array", "items": _CLOUDEVENT}},
            },
        },
        responses={
            "200": {
                "description": "committed: durable, and seen by every read from now on",
                "content": {
                    "application/json": {
                        "schema": {
                            "anyOf": [
                                {"$ref": "#/components/schemas/Result"},
                                {"$ref": "#/components/schemas/Report"},
                            ]
                        }
                    }
                },
            },
        },
    ),
)
