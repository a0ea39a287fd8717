"""Reads OTLP in its protobuf form; needs the extra ``otlp`` (opentelemetry-proto)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chatsnapshot.errors import InvalidEvent, MissingExtra
from chatsnapshot.ingest.otlp.records import Facts, Log, Origin, Refused, Span

__all__ = ["read_logs", "read_traces"]

_PLAIN = frozenset((str, int, bool))


def read_traces(body: bytes) -> Iterator[Span | Refused]:
    """The spans of an ``ExportTraceServiceRequest``; raises :class:`InvalidEvent` for bytes that are none."""
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise _missing() from None
    for group in _parsed(ExportTraceServiceRequest, body).resource_spans:
        resource = _facts(group.resource.attributes)
        for inner in group.scope_spans:
            origin = _origin(resource, inner, group.schema_url)
            for span in inner.spans:
                yield _span(span, origin)


def read_logs(body: bytes) -> Iterator[Log | Refused]:
    """The records of an ``ExportLogsServiceRequest``; raises :class:`InvalidEvent` for bytes that are none."""
    try:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    except ImportError:
        raise _missing() from None
    for group in _parsed(ExportLogsServiceRequest, body).resource_logs:
        resource = _facts(group.resource.attributes)
        for inner in group.scope_logs:
            origin = _origin(resource, inner, group.schema_url)
            for record in inner.log_records:
                yield _log(record, origin)


def _missing() -> MissingExtra:
    return MissingExtra("OTLP in protobuf", "otlp")


def _parsed(kind: Any, body: bytes) -> Any:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise InvalidEvent(f"the body is no {kind.DESCRIPTOR.name}: {error}") from None


def _origin(resource: Facts, inner: Any, schema: str) -> Origin:
    scope = inner.scope
    facts: Facts = {}
    if scope.version:
        facts["version"] = scope.version
    if scope.attributes:
        facts["attributes"] = _facts(scope.attributes)
    if inner.schema_url or schema:
        facts["schema_url"] = inner.schema_url or schema
    plain = "attributes" not in facts and _PLAIN.issuperset(map(type, resource.values()))
    return Origin(resource, scope.name, facts, plain)


def _span(span: Any, origin: Origin) -> Span | Refused:
    trace, own, parent = span.trace_id, span.span_id, span.parent_span_id
    if len(trace) != 16 or len(own) != 8 or not any(trace) or not any(own):
        return Refused(
            f"span {span.name!r:.80} has a trace id of {len(trace)} and a span id of {len(own)} bytes"
        )
    events = span.events
    links = span.links
    status = span.status
    facts = _facts(span.attributes)
    more: Facts = {}
    if span.trace_state:
        more["trace_state"] = span.trace_state
    for name in ("dropped_attributes_count", "dropped_events_count", "dropped_links_count"):
        if count := getattr(span, name):
            more[name] = count
    return Span(
        trace.hex(),
        own.hex(),
        parent.hex() if len(parent) == 8 and any(parent) else None,
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        facts,
        status.code,
        status.message,
        [(one.time_unix_nano, one.name, _facts(one.attributes)) for one in events] if events else [],
        [_link(one) for one in links] if links else [],
        more,
        origin,
        origin.plain and not events and not links and _PLAIN.issuperset(map(type, facts.values())),
    )


def _link(link: Any) -> Facts:
    facts: Facts = {"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex()}
    if link.attributes:
        facts["attributes"] = _facts(link.attributes)
    return facts


def _log(record: Any, origin: Origin) -> Log | Refused:
    trace, span = record.trace_id, record.span_id
    if len(trace) not in (0, 16) or len(span) not in (0, 8):
        return Refused(f"a log record has a trace id of {len(trace)} and a span id of {len(span)} bytes")
    more: Facts = {}
    if record.dropped_attributes_count:
        more["dropped_attributes_count"] = record.dropped_attributes_count
    return Log(
        trace.hex() if any(trace) else None,
        span.hex() if any(span) else None,
        record.time_unix_nano,
        record.observed_time_unix_nano,
        record.severity_number,
        record.severity_text,
        record.event_name,
        _value(record.body),
        _facts(record.attributes),
        more,
        origin,
    )


def _facts(attributes: Any) -> Facts:
    facts: Facts = {}
    for pair in attributes:
        value = pair.value
        text = value.string_value  # first: most attributes are text
        facts[pair.key] = text or _value(value)
    return facts


def _value(value: Any) -> Any:
    """An ``AnyValue`` as a Python value; nesting is bounded by the parser of protobuf."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _facts(value.kvlist_value.values)
    return getattr(value, kind)
