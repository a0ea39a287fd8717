"""Events as rows: the columns of the CSV and Parquet exports, their types and how they are filled."""

from __future__ import annotations

from typing import NamedTuple

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.fields import payload_of
from chatsnapshot.exporters.stored import payload_json
from chatsnapshot.projections.lines import line
from chatsnapshot.projections.times import happened

__all__ = ["COLUMNS", "Row", "row_of"]


class Row(NamedTuple):
    """One event. Times are the 27 characters of the envelope."""

    position: int
    sequence: int
    recorded_at: str
    timestamp: str | None
    event_id: str
    event_type: str
    origin: str
    runtime: str
    name: str | None
    correlation_id: str
    causation_id: str | None
    schema_version: int
    erased: bool
    summary: str
    attributes: str | None
    payload: str | None
    payload_bytes: int
    leaf: str


COLUMNS: dict[str, str] = {
    "position": "int64",
    "sequence": "int64",
    "recorded_at": "time",
    "timestamp": "time",
    "event_id": "text",
    "event_type": "text",
    "origin": "text",
    "runtime": "text",
    "name": "text",
    "correlation_id": "text",
    "causation_id": "text",
    "schema_version": "int32",
    "erased": "bool",
    "summary": "text",
    "attributes": "text",
    "payload": "text",
    "payload_bytes": "int64",
    "leaf": "text",
}
"""Column to type; a time is UTC with microseconds."""


def row_of(entry: LedgerEntry) -> Row:
    """The row of an entry; ``timestamp`` is ``None`` where it is unknown, ``payload`` where it was erased."""
    source = entry.source
    payload = payload_json(entry)
    return Row(
        position=entry.position,
        sequence=entry.sequence,
        recorded_at=entry.recorded_at,
        timestamp=happened(entry),
        event_id=entry.event_id,
        event_type=entry.event_type,
        origin=source.origin,
        runtime=source.runtime,
        name=source.name,
        correlation_id=entry.correlation_id,
        causation_id=entry.causation_id,
        schema_version=entry.schema_version,
        erased=entry.erased,
        summary=line(entry, payload_of(entry)),
        attributes=entry.attributes_json,
        payload=None if payload is None else payload.decode(),
        payload_bytes=entry.payload_bytes,
        leaf=entry.leaf.hex(),
    )
