"""Reads OTLP in its JSON form: ids in hexadecimal, 64-bit numbers as text. Needs no protobuf.

Source: the OTLP 1.x specification, "JSON Protobuf Encoding". (``google.protobuf.json_format`` reads ids as base64 and
gives wrong ones without a word.)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingest.otlp.records import Facts, Log, Origin, Refused, Span

__all__ = ["read_logs", "read_traces"]

_DEPTH_MAX = 60
"""Nesting of one attribute."""


class _Any(msgspec.Struct, rename="camel", gc=False):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Pair(msgspec.Struct, gc=False):
    key: str = ""
    value: _Any | None = None


class _Array(msgspec.Struct):
    values: list[_Any] = []


class _Pairs(msgspec.Struct):
    values: list[_Pair] = []


class _Resource(msgspec.Struct):
    attributes: list[_Pair] = []


class _Scope(msgspec.Struct):
    name: str = ""
    version: str = ""
    attributes: list[_Pair] = []


class _ScopeSpans(msgspec.Struct, rename="camel"):
    scope: _Scope | None = None
    spans: list[msgspec.Raw] = []
    schema_url: str = ""


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] = []
    schema_url: str = ""


class _Traces(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


class _ScopeLogs(msgspec.Struct, rename="camel"):
    scope: _Scope | None = None
    log_records: list[msgspec.Raw] = []
    schema_url: str = ""


class _ResourceLogs(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_logs: list[_ScopeLogs] = []
    schema_url: str = ""


class _Logs(msgspec.Struct, rename="camel"):
    resource_logs: list[_ResourceLogs] = []


class _Status(msgspec.Struct):
    code: int | str = 0
    message: str = ""


class _Event(msgspec.Struct, rename="camel"):
    time_unix_nano: int | str = 0
    name: str = ""
    attributes: list[_Pair] = []


class _Link(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    attributes: list[_Pair] = []


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int | str = 0
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_Pair] = []
    status: _Status | None = None
    events: list[_Event] = []
    links: list[_Link] = []
    trace_state: str = ""
    dropped_attributes_count: int = 0
    dropped_events_count: int = 0
    dropped_links_count: int = 0


class _Record(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    time_unix_nano: int | str = 0
    observed_time_unix_nano: int | str = 0
    severity_number: int | str = 0
    severity_text: str = ""
    event_name: str = ""
    body: _Any | None = None
    attributes: list[_Pair] = []
    dropped_attributes_count: int = 0


_traces = msgspec.json.Decoder(_Traces)
_logs = msgspec.json.Decoder(_Logs)
_one_span = msgspec.json.Decoder(_Span)
_one_record = msgspec.json.Decoder(_Record)

_KINDS = {f"SPAN_KIND_{name}": code for code, name in enumerate(
    ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
)}  # fmt: skip
_CODES = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


def read_traces(body: bytes) -> Iterator[Span | Refused]:
    """The spans of a request or of one line of a file; raises :class:`InvalidEvent` for text that is none."""
    for group in _parsed(_traces, body, "resourceSpans").resource_spans:
        resource = _facts(group.resource.attributes) if group.resource else {}
        for inner in group.scope_spans:
            origin = _origin(resource, inner, group.schema_url)
            for raw in inner.spans:
                yield _read(_span, raw, origin)


def read_logs(body: bytes) -> Iterator[Log | Refused]:
    """The log records of a request or of one line of a file; raises :class:`InvalidEvent` for text that is none."""
    for group in _parsed(_logs, body, "resourceLogs").resource_logs:
        resource = _facts(group.resource.attributes) if group.resource else {}
        for inner in group.scope_logs:
            origin = _origin(resource, inner, group.schema_url)
            for raw in inner.log_records:
                yield _read(_log, raw, origin)


def _parsed(decoder: Any, body: bytes, what: str) -> Any:
    try:
        body.decode()
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEvent(f"the body is no OTLP JSON with {what}: {error}") from None


def _read(one: Any, raw: msgspec.Raw, origin: Origin) -> Any:
    """One element; what is wrong with it stops no other."""
    try:
        return one(raw, origin)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return Refused(f"{type(error).__name__}: {error}"[:300])


def _origin(resource: Facts, inner: Any, schema: str) -> Origin:
    scope = inner.scope or _Scope()
    facts: Facts = {}
    if scope.version:
        facts["version"] = scope.version
    if scope.attributes:
        facts["attributes"] = _facts(scope.attributes)
    if inner.schema_url or schema:
        facts["schema_url"] = inner.schema_url or schema
    return Origin(resource, scope.name, facts)


def _span(raw: msgspec.Raw, origin: Origin) -> Span:
    span = _one_span.decode(raw)
    more: Facts = {}
    if span.trace_state:
        more["trace_state"] = span.trace_state
    for name in ("dropped_attributes_count", "dropped_events_count", "dropped_links_count"):
        if count := getattr(span, name):
            more[name] = count
    status = span.status or _Status()
    parent = _hex(span.parent_span_id, 16, "parentSpanId") if span.parent_span_id else ""
    return Span(
        _id(span.trace_id, 32, "traceId"),
        _id(span.span_id, 16, "spanId"),
        parent if parent.strip("0") else None,
        span.name,
        _enum(span.kind, _KINDS),
        _nanoseconds(span.start_time_unix_nano),
        _nanoseconds(span.end_time_unix_nano),
        _facts(span.attributes),
        _enum(status.code, _CODES),
        status.message,
        [(_nanoseconds(one.time_unix_nano), one.name, _facts(one.attributes)) for one in span.events],
        [_link(one) for one in span.links],
        more,
        origin,
    )


def _link(link: _Link) -> Facts:
    facts: Facts = {"trace_id": link.trace_id.lower(), "span_id": link.span_id.lower()}
    if link.attributes:
        facts["attributes"] = _facts(link.attributes)
    return facts


def _log(raw: msgspec.Raw, origin: Origin) -> Log:
    record = _one_record.decode(raw)
    more: Facts = {}
    if record.dropped_attributes_count:
        more["dropped_attributes_count"] = record.dropped_attributes_count
    trace = _hex(record.trace_id, 32, "traceId") if record.trace_id else ""
    span = _hex(record.span_id, 16, "spanId") if record.span_id else ""
    severity = record.severity_number
    return Log(
        trace if trace.strip("0") else None,
        span if span.strip("0") else None,
        _nanoseconds(record.time_unix_nano),
        _nanoseconds(record.observed_time_unix_nano),
        severity if isinstance(severity, int) else 0,
        record.severity_text or (severity if isinstance(severity, str) else ""),
        record.event_name,
        None if record.body is None else _value(record.body, 1),
        _facts(record.attributes),
        more,
        origin,
    )


def _hex(text: str, digits: int, what: str) -> str:
    lowered = text.lower()
    if len(lowered) != digits or not set(lowered) <= set("0123456789abcdef"):
        raise ValueError(f"{what} is {digits} hexadecimal digits, not {text!r:.60}")
    return lowered


def _id(text: str, digits: int, what: str) -> str:
    found = _hex(text, digits, what)
    if not found.strip("0"):
        raise ValueError(f"{what} is all zeros")
    return found


def _enum(value: int | str, names: dict[str, int]) -> int:
    return value if isinstance(value, int) else names.get(value, 0)


def _nanoseconds(value: int | str) -> int:
    number = value if isinstance(value, int) else int(value) if value.isascii() and value.isdigit() else -1
    if not 0 <= number < 2**64:
        raise ValueError(f"a time is nanoseconds since 1970, not {value!r:.60}")
    return number


def _facts(pairs: list[_Pair], depth: int = 1) -> Facts:
    return {pair.key: None if pair.value is None else _value(pair.value, depth) for pair in pairs}


def _value(value: _Any, depth: int) -> Any:
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        number = value.int_value
        if isinstance(number, str) and len(number) > 20:
            raise ValueError("a number has more than 64 bits")
        return int(number)
    if value.bool_value is not None:
        return value.bool_value
    if value.double_value is not None:
        return float(value.double_value)
    if value.bytes_value is not None:
        try:
            return base64.b64decode(value.bytes_value, validate=True)
        except binascii.Error as error:
            raise ValueError(f"bytesValue is no base64: {error}") from None
    if depth > _DEPTH_MAX:
        raise ValueError(f"an attribute is nested deeper than {_DEPTH_MAX}")
    if value.array_value is not None:
        return [_value(item, depth + 1) for item in value.array_value.values]
    if value.kvlist_value is not None:
        return _facts(value.kvlist_value.values, depth + 1)
    return None
