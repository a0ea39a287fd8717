"""Schemas for others to read: the envelope and each payload as JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

import msgspec

from chatsnapshot.envelope import ORIGINS
from chatsnapshot.events.sources import URN

__all__ = ["DIALECT", "envelope_schema", "file_name", "payload_schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The name of the dialect; nothing is fetched from there."""

_ID = {"type": "string", "minLength": 1, "maxLength": 256}
_UUID = {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}
_WHOLE_MAX = 2**53 - 1


def payload_schema(
    document: dict[str, Any], event_type: str, version: int, summary: str = "", example: Any = None
) -> dict[str, Any]:
    """A payload's schema with its dialect, its name (``urn:chatsnapshot:schema:TYPE:VERSION``), type and version."""
    head: dict[str, Any] = {
        "$schema": document.get("$schema", DIALECT),
        "$id": f"{URN}{event_type}:{version}",
        "x-event-type": event_type,
        "x-version": version,
        "title": document.get("title", event_type),
    }
    text = summary or document.get("description")
    if text:
        head["description"] = text
    body = {key: value for key, value in document.items() if key not in head}
    if example is not None and "examples" not in body:
        body["examples"] = [example]
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({**head, **body}))
    return made


def envelope_schema() -> dict[str, Any]:
    """The envelope as it is written: seven keys in every event, two that may be left out."""
    return {
        "$schema": DIALECT,
        "$id": f"{URN}envelope:1",
        "title": "EventEnvelope",
        "description": "what a producer says happened",
        "type": "object",
        "properties": {
            "event_id": {**_UUID, "description": "UUID of the event; the same id is stored once"},
            "event_type": {
                "type": "string",
                "maxLength": 256,
                "pattern": "^[a-z][a-z0-9_]*(?:\\.[a-z0-9_]+)+$",
                "description": "domain.name",
            },
            "timestamp": {
                "type": "string",
                "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z$",
                "description": "when it happened, UTC, in microseconds",
            },
            "source": {
                "type": "object",
                "description": "who says so",
                "properties": {
                    "origin": {"enum": list(ORIGINS)},
                    "runtime": {**_ID, "description": "an open token: ag2, langgraph, custom, none"},
                    "name": {**_ID, "description": "the agent, service or user that acted"},
                },
                "required": ["origin", "runtime"],
                "additionalProperties": False,
            },
            "correlation_id": {**_ID, "description": "the conversation, workflow or run that it belongs to"},
            "causation_id": {
                "anyOf": [_UUID, {"type": "null"}],
                "description": "the event that led to it",
            },
            "payload": {"type": "object", "description": "what happened, by the schema of the event type"},
            "schema_version": {
                "type": "integer",
                "minimum": 1,
                "maximum": 2**31 - 1,
                "default": 1,
                "description": "version of the payload's schema",
            },
            "attributes": {
                "type": "object",
                "description": "what outlives an erased payload, or is searched",
                "propertyNames": {"pattern": "^[a-z][a-z0-9_.]{0,63}$"},
                "additionalProperties": {
                    "anyOf": [
                        {"type": ["string", "boolean"]},
                        {"type": "integer", "minimum": -_WHOLE_MAX, "maximum": _WHOLE_MAX},
                        {"type": "array", "items": {"type": "string"}},
                    ]
                },
            },
        },
        "required": [
            "event_id", "event_type", "timestamp", "source", "correlation_id", "causation_id", "payload",
        ],
        "additionalProperties": False,
    }  # fmt: skip


def file_name(event_type: str, version: int) -> str:
    """The file that an exported schema stands in: ``execution.message.1.json``."""
    return f"{event_type}.{version}.json"
