"""What the service gives out as CloudEvents: a page as a batch, one entry, frames of a live stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from chatsnapshot.clock import uuid_bytes
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.exporters.cloudevents import cloud_event
from chatsnapshot.server.endpoints import Parameter
from chatsnapshot.server.parameters import choice

__all__ = ["BATCH_TYPE", "EVENT_TYPE", "FORMAT", "as_cloudevents", "batch", "event", "frames"]

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"

FORMAT = Parameter(
    name="format",
    description="entries, or CloudEvents 1.0 in the JSON format (as with an Accept of its media type)",
    schema={"type": "string", "enum": ["entries", "cloudevents"], "default": "entries"},
)


class _Event(msgspec.Struct):
    event_id: str
    event_type: str
    timestamp: str
    source: msgspec.Raw
    correlation_id: str
    causation_id: str | None
    payload: msgspec.Raw
    schema_version: int | None = None
    attributes: msgspec.Raw = msgspec.Raw()


class _Entry(msgspec.Struct):
    position: int
    sequence: int
    recorded_at: str
    leaf: str
    event: _Event
    erased: bool = False


_entry_decoder = msgspec.json.Decoder(_Entry)


def as_cloudevents(request: Request, given: Mapping[str, str], media_type: str = EVENT_TYPE) -> bool:
    """Whether CloudEvents are wanted: by the parameter, else where Accept names this type of theirs."""
    if "format" in given:
        return choice(given, "format", ("entries", "cloudevents")) == "cloudevents"
    accepted = request.headers.get("accept", "").lower()
    return any(one.partition(";")[0].strip() == media_type for one in accepted.split(","))


def batch(entries: Iterable[LedgerEntry]) -> bytes:
    """Entries as a JSON batch."""
    return b"[" + b",".join(msgspec.json.encode(cloud_event(entry)) for entry in entries) + b"]"


def event(entry: LedgerEntry) -> Response:
    """One entry in structured mode."""
    return Response(
        msgspec.json.encode(cloud_event(entry)), media_type=EVENT_TYPE, headers={"Cache-Control": "no-store"}
    )


def frames(data: bytes) -> bytes:
    """Frames of entries (server-sent events) as frames of CloudEvents, whose ids stay the positions."""
    return b"".join(_frame(one) for one in data.split(b"\n\n") if one)


def _frame(one: bytes) -> bytes:
    head, mark, content = one.partition(b"\nevent: entry\ndata: ")
    if not mark:
        return one + b"\n\n"
    return head + b"\nevent: cloudevent\ndata: " + msgspec.json.encode(cloud_event(_entry(content))) + b"\n\n"


def _entry(content: bytes) -> LedgerEntry:
    """The entry that was written as JSON, as far as a CloudEvent tells of it."""
    read = _entry_decoder.decode(content)
    told = read.event
    return LedgerEntry(
        position=read.position,
        sequence=read.sequence,
        recorded_at=read.recorded_at,
        event_key=uuid_bytes(told.event_id),
        event_type=told.event_type,
        timestamp=told.timestamp,
        source_json=bytes(told.source).decode(),
        correlation_id=told.correlation_id,
        causation_key=None if told.causation_id is None else uuid_bytes(told.causation_id),
        payload_json=None if read.erased else bytes(told.payload),
        version=told.schema_version,
        attributes_json=bytes(told.attributes).decode() or None,
        leaf=bytes.fromhex(read.leaf),
        salt=None,
        commitment=b"",
        payload_bytes=0,
    )
