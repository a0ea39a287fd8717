"""``POST /v1/events``: one event, an array, or lines without end; the answer comes after the commit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypedDict, TypeVar

import msgspec
from starlette.responses import Response

from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import CommitUncertain, InvalidEvent, LedgerError, LimitExceeded
from chatsnapshot.fields import checked_text
from chatsnapshot.ingesting import EVENT_KEYS, BadLine, digest_of_name, is_envelope, key_of_line
from chatsnapshot.limits import DEFAULTS, KIB
from chatsnapshot.ndjson import decode_object
from chatsnapshot.server.bodies import media_type, whole
from chatsnapshot.server.counting import Slot
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.lines import Lines
from chatsnapshot.server.parameters import POSITION, TEXT, choice, number, only
from chatsnapshot.server.problems import Problem, problem_of, unsettled
from chatsnapshot.server.streaming import Streamed
from chatsnapshot.stores.base import (
    COMMITMENT,
    EVENT_ID,
    LEAF,
    RECORDED_AT,
    SEQUENCE,
    Draft,
    Group,
    Row,
)
from chatsnapshot.stores.base import (
    POSITION as ROW_POSITION,
)

__all__ = ["ENDPOINTS", "JSON_TYPES", "LINE_TYPES", "commit", "report_of_rows", "result_of"]

JSON_TYPES = ("application/json", "text/json")
_SMALL_BYTES = 4 * KIB
_PARAMETERS = ("expected_sequence", "on_error", "name", "correlation_id")
_PREFERS = re.compile(r"(?:^|,)\s*stream-results\s*(?:,|;|$)", re.I)
_T = TypeVar("_T")
LINE_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")


async def _post(call: Call) -> Response:
    from chatsnapshot.server.routes import cloudevents  # which stores by what is here

    if cloudevents.are_sent(call.request):
        return await cloudevents.take(call)
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
    given = only(call.request, _PARAMETERS)
    expected = number(given, "expected_sequence", -1)
    defaults = _defaults(given)
    carry_on = choice(given, "on_error", ("stop", "continue")) == "continue"
    body = await whole(call.request, settings, held)
    try:
        with call.service.recordings.one():
            if not body.lstrip().startswith(b"["):
                draft = await _in_thread_when_large(len(body), _draft, call, body, 1, defaults)
                rows = await commit(call, [draft], expected)
                result = result_of(rows[0], draft)
                call.service.counts.recorded(1, result["known"])
                return _answer(result)
            items = _items(body, settings.batch_events_max)
            if carry_on and expected < 0:
                return _finished(await Lines(call, **defaults).take(items))
            failures: list[BadLine] = []
            drafts = await _in_thread_when_large(
                len(body), _drafts, call, items, defaults, failures if carry_on else None
            )
            rows = await commit(call, drafts, expected) if drafts else []
            report = report_of_rows(rows, drafts, failures)
            call.service.counts.recorded(len(rows), report["known"])
            return _finished(report)
    finally:
        held.give(len(body))


async def _in_thread_when_large(size: int, work: Callable[..., _T], *arguments: Any) -> _T:
    """What is small is done at once: a thread would cost more than the work."""
    return work(*arguments) if size <= _SMALL_BYTES else await asyncio.to_thread(work, *arguments)


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


def _drafts(
    call: Call, items: list[bytes], defaults: _Defaults, failures: list[BadLine] | None
) -> list[Draft]:
    """Their drafts; those that cannot be are put into ``failures`` where that is given, and else raised."""
    drafts = []
    for index, item in enumerate(items):
        try:
            drafts.append(_draft(call, item, index + 1, defaults))
        except (Problem, InvalidEvent, LimitExceeded) as error:
            if failures is not None:
                failures.append(BadLine(index + 1, str(error)))
                continue
            problem = problem_of(error)
            problem.more["index"] = index
            if problem.status == 422:
                problem.detail = f"event {index}: {problem.detail}"
            raise problem from None
    return drafts


def _whole(fields: dict[str, Any]) -> dict[str, Any]:
    """Numbers such as 1.0 as the whole numbers that they are (RFC 8259, section 6); data is left as it came."""
    return {
        name: int(value)
        if isinstance(value, float) and value.is_integer() and name != "payload"
        else _whole(value)
        if name == "source" and isinstance(value, dict)
        else value
        for name, value in fields.items()
    }


def _draft(call: Call, data: bytes, number: int, defaults: _Defaults) -> Draft:
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
    if is_envelope(fields):
        return intake.redraft(EventEnvelope.from_json(data), settings.redact)
    unknown = next((key for key in fields if key not in EVENT_KEYS), None)
    if unknown is not None:
        raise InvalidEvent(
            f"{unknown!r:.80} is no field of an event; other data belongs into payload", path=unknown
        )
    if fields.get("event_type") is None:
        raise InvalidEvent("event_type is missing", path="event_type")
    fields = _whole(fields)
    name = defaults["name"]
    if name is not None and fields.get("event_id") is None and fields.get("idempotency_key") is None:
        fields["idempotency_key"] = key_of_line(digest_of_name(name), number, data.strip())
    if fields.get("correlation_id") is None:
        fields["correlation_id"] = defaults["correlation_id"]
    return intake.draft(None, None, [], redact=settings.redact, **fields)


async def commit(call: Call, drafts: list[Draft], expected: int) -> list[Row]:
    """Store them, whole; raises :class:`Problem` 503 where the queue is full or the store does not come to an end."""
    ledger, settings = call.ledger, call.service.settings
    ledger._check_writable()
    if ledger._recorder.queued >= ledger.limits.queue_events_max:
        raise Problem(
            503,
            "overloaded",
            "more events wait for the store than may; nothing of these was taken, send them again soon",
            retry_after=1,
        )
    group = Group(drafts, None if expected < 0 else expected)
    waiting = asyncio.ensure_future(ledger._recorder.acommit(group))
    await asyncio.wait((waiting,), timeout=settings.commit_seconds_max)
    if not waiting.done():
        waiting.add_done_callback(_look_at)
        why = f"the store took longer than {settings.commit_seconds_max:g} s"
        raise _uncertain(f"{why}, so it is open whether these events are stored", drafts)
    outcome = waiting.result()
    if isinstance(outcome, InvalidEvent) and outcome.path == "expected_sequence":
        raise Problem(409, "several-correlations", str(outcome), path=outcome.path)
    if isinstance(outcome, CommitUncertain):
        raise _uncertain(unsettled(outcome), drafts)
    if isinstance(outcome, LedgerError):
        raise outcome
    return outcome


def _look_at(done: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more."""
    if not done.cancelled():
        done.exception()


def _uncertain(why: str, drafts: list[Draft]) -> Problem:
    return Problem(
        503,
        "commit-uncertain",
        f"{why}: send them again with the ids in event_ids, and each is stored once",
        retry_after=1,
        event_ids=[uuid_text(draft.columns[0]) for draft in drafts],
    )


def report_of_rows(rows: list[Row], drafts: list[Draft], failures: Sequence[BadLine] = ()) -> dict[str, Any]:
    """What became of events that were stored together."""
    results = [result_of(row, draft) for row, draft in zip(rows, drafts, strict=True)]
    known = sum(result["known"] for result in results)
    return {
        "stored": len(results) - known,
        "known": known,
        "last_position": max((row[ROW_POSITION] for row in rows), default=0),
        "results": results,
        "failed": len(failures),
        "failures": [{"line": bad.number, "reason": bad.reason} for bad in failures],
    }


def result_of(row: Row, draft: Draft) -> dict[str, Any]:
    """Where an event stands; ``known`` when it stood there before."""
    return {
        "event_id": uuid_text(row[EVENT_ID]),
        "position": row[ROW_POSITION],
        "sequence": row[SEQUENCE],
        "recorded_at": row[RECORDED_AT],
        "leaf": row[LEAF].hex(),
        "known": row[COMMITMENT] != draft.commitment,
    }


# --- lines ---


async def _lines(call: Call) -> Response:
    given = only(call.request, _PARAMETERS)
    if "expected_sequence" in given:
        raise _no_sequence("one event or an array")
    stop = choice(given, "on_error", ("continue", "stop")) == "stop"
    lines = Lines(call, stop=stop, **_defaults(given))
    slot = call.service.uploads.hold()
    if not _PREFERS.search(call.request.headers.get("prefer", "")):
        return _finished(await lines.read(slot))
    return Streamed(
        _streamed(lines, slot),
        status_code=207,
        media_type=LINE_TYPES[0],
        headers={"Preference-Applied": "stream-results", "Cache-Control": "no-store"},
        after=slot.give,
    )


async def _streamed(lines: Lines, slot: Slot) -> AsyncIterator[bytes]:
    async with aclosing(lines.results(slot)) as results:
        async for one in results:
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


class _Defaults(TypedDict):
    name: str | None
    correlation_id: str | None


def _defaults(given: Mapping[str, str]) -> _Defaults:
    """What holds for events that do not say it themselves."""
    found: _Defaults = {"name": given.get("name"), "correlation_id": given.get("correlation_id")}
    for what, value in found.items():
        if value is not None:
            try:
                checked_text(value, what, DEFAULTS.id_chars_max)
            except InvalidEvent as error:
                raise Problem(400, "parameter", str(error), parameter=what) from None
    return found


def _no_sequence(where: str) -> Problem:
    return Problem(
        400, "parameter", f"expected_sequence is for {where}; leave it out", parameter="expected_sequence"
    )


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/events",
        scope="ingest",
        handle=_post,
        summary="Record one event, an array of at most 1,000 (whole or not at all), or lines without end",
        parameters=(
            Parameter(
                name="expected_sequence",
                description="record only when the correlation's last sequence is this (0: it is new); not for lines",
                schema=POSITION,
            ),
            Parameter(
                name="name",
                description="a name of this input: ids that are not given follow from it, the place in it "
                "and its content, so that the same input again stores nothing twice",
                schema=TEXT,
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
                "application/json": {
                    "schema": {
                        "oneOf": [
                            {"$ref": "#/components/schemas/Event"},
                            {
                                "type": "array",
                                "items": {"$ref": "#/components/schemas/Event"},
                            },
                        ]
                    }
                },
                "application/x-ndjson": {
                    "schema": {
                        "type": "string",
                        "description": "one event a line; ?correlation_id= is that of lines that name none",
                    }
                },
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
            "207": {"description": "results as they come", "content": {"application/x-ndjson": {}}},
        },
        links=(("its entry", "/events/{event_id}", "event_id", "$response.body#/event_id"),),
    ),
)
