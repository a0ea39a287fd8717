"""A CloudEvent as an envelope: which id, type, correlation, time, source and payload it has in the ledger."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from chatsnapshot import jsonvalue
from chatsnapshot.clock import foreign_uuid, time_text, timestamp_text, uuid_bytes, uuid_text
from chatsnapshot.envelope import ERASED_PAYLOAD, ORIGINS, EventEnvelope, Source, check_event_type
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.fields import attributes_text, checked_text, correlation_text, source_text
from chatsnapshot.ingest.cloudevents.causes import Causes
from chatsnapshot.ingest.cloudevents.event import CloudEvent, media_type_of
from chatsnapshot.limits import DEFAULTS

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["RUNTIME", "Mapper"]

RUNTIME = "cloudevents"
"""The runtime of events of which nothing says another one."""

_OURS = re.compile(r"urn:chatsnapshot:(agent|system|ui|integration):([^:]+)")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?", re.ASCII)
_FINE_TIME = re.compile(r"\.\d{7,}")
_ORIGINS = {"execution": "agent", "ui": "ui", "system": "system"}
_MEANT = frozenset(
    {
        "specversion", "time", "correlationid", "causationid", "sourceorigin", "sourceruntime", "sourcename",
        "schemaversion", "eventattributes",
    }
)  # fmt: skip
"""Attributes that have a place of their own in the envelope; the others stay in ``payload.native``."""
_LEDGERS = _MEANT | {
    "id", "source", "type", "subject", "datacontenttype", "sequence", "sequencetype", "recordedtime", "position",
    "traceparent", "erased",
}  # fmt: skip
"""What the export writes: what an event of ours may have beside is kept in its attributes, as ``ce.NAME``."""


class Mapper:
    """Maps the events of one input into one ledger.

    ``correlation_id`` stands in where an event has neither ``correlationid`` nor ``subject``. ``type_prefix`` is cut from
    types that begin with it (``com.example.``). Without a ledger, causes are found among events that came before only.
    """

    def __init__(
        self, ledger: Ledger | None, *, correlation_id: object = None, type_prefix: str = ""
    ) -> None:
        self._limits = DEFAULTS if ledger is None else ledger.limits
        self._clock = time.time_ns if ledger is None else ledger._intake.clock
        self._correlation = None if correlation_id is None else correlation_text(correlation_id, self._limits)
        self._prefix = type_prefix
        self._causes = Causes(ledger)

    def envelope(self, event: CloudEvent) -> EventEnvelope:
        """The envelope; raises :class:`InvalidEvent` for what cannot become one."""
        given = event.attributes
        ours = _OURS.fullmatch(event.source)
        own = ours is not None and _UUID.fullmatch(event.id) is not None
        correlation = self._correlation_of(given)
        key = uuid_bytes(event.id) if own else foreign_uuid(event.source, event.id)
        event_type = event.type if own else self._type(event.type)
        filled: list[str] = []
        cause = given.get("causationid")
        if cause is not None and not own:
            filled.append("causation_id")  # who has seen more may find another; that makes no other event
        if "time" not in given:
            filled.append("timestamp")
        if own:
            payload = _payload_as_stored(event)
        else:
            payload = jsonvalue.encode(self._payload(event), limits=self._limits)
            self._causes.saw(correlation, event.source, event.id, key)
        return EventEnvelope(
            event_id=uuid_text(key),
            event_type=check_event_type(event_type),
            timestamp=timestamp_text(given["time"]) if "time" in given else time_text(self._clock()),
            source=self._source(given, event_type, ours),
            correlation_id=correlation,
            causation_id=None if cause is None else self._cause(correlation, event.source, cause, own),
            payload_json=payload.json,
            schema_version=_version(given.get("schemaversion")),
            attributes_json=self._attributes(given, own),
            filled=tuple(filled),
            blobs=payload.blobs,
        )

    def _correlation_of(self, given: Mapping[str, str]) -> str:
        named = given.get("correlationid", given.get("subject"))
        if named is not None:
            return correlation_text(named, self._limits)
        if self._correlation is None:
            raise InvalidEvent(
                "the CloudEvent has neither correlationid nor subject, and no default is given",
                path="correlationid",
            )
        return self._correlation

    def _type(self, given: str) -> str:
        """The type without the prefix; one that is not of our form becomes ``cloudevents.`` and what is left of it."""
        cut = given[len(self._prefix) :] if self._prefix and given.startswith(self._prefix) else given
        for text in (cut, given):
            try:
                return check_event_type(text)
            except InvalidEvent:
                continue
        plain = re.sub(r"[^a-z0-9_.]+", "_", cut.lower())
        return f"{RUNTIME}." + (re.sub(r"\.{2,}", ".", plain).strip(".") or "_")

    def _source(self, given: Mapping[str, str], event_type: str, ours: re.Match[str] | None) -> Source:
        origin = given.get("sourceorigin")
        if ours is not None:
            origin, runtime = origin or ours[1], given.get("sourceruntime") or unquote(ours[2])
            name = given.get("sourcename")
        else:
            origin = origin or _ORIGINS.get(event_type.partition(".")[0], "integration")
            runtime = given.get("sourceruntime") or RUNTIME
            name = given.get("sourcename", given["source"][: self._limits.id_chars_max])
        if origin not in ORIGINS:
            raise InvalidEvent(
                f"sourceorigin is one of {', '.join(ORIGINS)}, not {origin!r:.80}", path="sourceorigin"
            )
        limit = self._limits.id_chars_max
        made = Source(
            origin,
            checked_text(runtime, "sourceruntime", limit),
            None if name is None else checked_text(name, "sourcename", limit),
        )
        source_text(made, self._limits)
        return made

    def _cause(self, correlation: str, source: str, cause: str, own: bool) -> str:
        if own:
            return uuid_text(uuid_bytes(cause, "causationid"))
        return uuid_text(self._causes.find(correlation, source, cause))

    def _payload(self, event: CloudEvent) -> dict[str, Any]:
        """The payload of an event from elsewhere: its data, and what has no other place under ``native``."""
        native: dict[str, Any] = {
            name: value for name, value in event.attributes.items() if name not in _MEANT
        }
        if "causationid" in event.attributes:
            native["causationid"] = event.attributes["causationid"]
        if media_type_of(native.get("datacontenttype", "")) == "application/json":
            del native["datacontenttype"]  # as where none is said
        at = event.attributes.get("time")
        if at is None:
            native["time"] = "unknown"
        elif _FINE_TIME.search(at):
            native["time"] = at
        if event.json is not None:
            value = msgspec.json.decode(event.json)
            if isinstance(value, dict) and "native" not in value:
                return {**value, "native": native}
            return {"value": value, "native": native}
        if event.text is not None:
            return {"value": event.text, "native": native}
        if event.binary is not None:
            return {"value": event.binary, "native": native}
        return {"native": native}

    def _attributes(self, given: Mapping[str, str], own: bool) -> str | None:
        made: dict[str, Any] = {}
        text = given.get("eventattributes")
        if text is not None:
            try:
                made = msgspec.json.decode(text, type=dict[str, Any])
            except (msgspec.DecodeError, RecursionError):
                raise InvalidEvent("eventattributes is no JSON object", path="eventattributes") from None
        trace = _TRACE.fullmatch(given.get("traceparent", ""))
        if trace is not None and trace[1].strip("0") and trace[2].strip("0") and "trace_id" not in made:
            made.update(trace_id=trace[1], span_id=trace[2])
        if own:
            made.update({f"ce.{name[:60]}": value for name, value in given.items() if name not in _LEDGERS})
        return attributes_text(made or None, self._limits)


def _payload_as_stored(event: CloudEvent) -> jsonvalue.Encoded:
    """The payload of an event that was exported from a ledger: stored JSON, ``$`` tags included."""
    if event.attributes.get("erased") == "true":
        return jsonvalue.Encoded(ERASED_PAYLOAD)
    if event.json is not None:
        return jsonvalue.Encoded(
            event.json if event.json.startswith(b"{") else b'{"value":' + event.json + b"}"
        )
    value = event.text if event.text is not None else event.binary
    return jsonvalue.encode({} if value is None else {"value": value})


def _version(text: str | None) -> int:
    if text is None:
        return 1
    if not re.fullmatch(r"[1-9][0-9]{0,9}", text, re.ASCII):
        raise InvalidEvent(f"schemaversion {text!r:.80} is no whole number from 1 on", path="schemaversion")
    return int(text)
