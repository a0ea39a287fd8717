"""CloudEvents 1.0 in the JSON batch format, with the official extensions for correlation, sequence and recorded time.

Sources: CloudEvents 1.0 JSON event format §4 (batch), extensions ``correlation``, ``sequence``, ``recordedtime`` and
``distributed-tracing``. Attribute names are lower-case letters and digits.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.stored import hex_of, payload_json
from chatsnapshot.projections.times import happened

__all__ = ["CloudEvents", "cloud_event"]

SEQUENCE_DIGITS = 10


class CloudEvents:
    """A JSON array (``application/cloudevents-batch+json``) with an element for each event, one a line."""

    format = "cloudevents"
    what = "a CloudEvents 1.0 JSON batch"
    unit = "events"
    runs_only = False
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """The array is written element by element."""
        before = b"[\n"
        for entry in choice.entries():
            out.write(before + msgspec.json.encode(cloud_event(entry)))
            before = b",\n"
            tally.written += 1
        out.write(b"\n]\n" if tally.written else b"[]\n")


def cloud_event(entry: LedgerEntry) -> dict[str, Any]:
    """An entry as a CloudEvent; ``time`` is left out where it is unknown, ``erased`` is there when the payload is not."""
    source, at, payload = entry.source, happened(entry), payload_json(entry)
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": entry.event_id,
        "source": f"urn:chatsnapshot:{source.origin}:{quote(source.runtime, safe='')}",
        "type": entry.event_type,
        "subject": entry.correlation_id,
        "time": at,
        "datacontenttype": "application/json",
        "correlationid": entry.correlation_id,
        "causationid": entry.causation_id,
        "sequence": f"{entry.sequence:0{SEQUENCE_DIGITS}d}",
        "sequencetype": "Integer",
        "recordedtime": entry.recorded_at,
        "position": str(entry.position),
        "sourceorigin": source.origin,
        "sourceruntime": source.runtime,
        "sourcename": source.name,
        "schemaversion": entry.version,
        "eventattributes": entry.attributes_json,
        "traceparent": _traceparent(entry),
        "erased": True if entry.erased else None,
    }
    event = {name: value for name, value in event.items() if value is not None}
    if payload is not None:
        event["data"] = msgspec.Raw(payload)
    return event


def _traceparent(entry: LedgerEntry) -> str | None:
    """The trace that the event was recorded in, as W3C Trace Context writes it, where its attributes name one."""
    if entry.attributes_json is None or '"trace_id"' not in entry.attributes_json:
        return None
    attributes = entry.attributes
    trace, span = hex_of(attributes.get("trace_id"), 32), hex_of(attributes.get("span_id"), 16)
    return f"00-{trace}-{span}-00" if trace and span else None
