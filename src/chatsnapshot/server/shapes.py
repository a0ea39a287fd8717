"""The JSON Schemas of what is recorded and read: events as they come, results, entries, pages, for the description."""

from __future__ import annotations

from typing import Any

from chatsnapshot.ingesting import ENVELOPE_KEYS
from chatsnapshot.server.parameters import TEXT, TIME

__all__ = ["ENTRY", "EVENT", "FAILURES_MAX", "PAGE", "REPORT", "RESULT"]

FAILURES_MAX = 1_000

_LEAF = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PLACE = {"type": "integer", "minimum": 1}
_COUNT = {"type": "integer", "minimum": 0}
_UUID = {"type": "string", "format": "uuid"}
_ID = {"anyOf": [TEXT, {"type": "integer"}]}


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


EVENT: dict[str, Any] = {
    "type": "object",
    "description": "The arguments of record(), or a complete envelope: then it has all its seven keys and is stored as "
    "it is. An id is given as event_id, or made from idempotency_key and correlation_id, or made by the service.",
    "required": ["event_type", "correlation_id"],
    "additionalProperties": False,
    "properties": {
        "event_id": _maybe(_UUID),
        "event_type": {
            "type": "string",
            "pattern": r"^[a-z][a-z0-9_]{0,60}(\.[a-z0-9_]{1,60}){1,3}$",
            "maxLength": 256,
        },
        "timestamp": _maybe(TIME),
        "source": _maybe(
            {
                "type": "object",
                "required": ["origin"],
                "additionalProperties": False,
                "properties": {
                    "origin": {"enum": ["agent", "system", "ui", "integration"]},
                    "runtime": {"anyOf": [*_ID["anyOf"], {"enum": ["", None]}]},
                    "name": _maybe(_ID),
                },
            }
        ),
        "correlation_id": _ID,
        "causation_id": _maybe(_UUID),
        "payload": {"description": 'an object; anything else is stored as {"value": …}'},
        "idempotency_key": _maybe(_ID),
        "attributes": _maybe(
            {
                "type": "object",
                "propertyNames": {"pattern": r"^[a-z][a-z0-9_.]{0,63}$"},
                "description": "text, true, false, whole numbers or lists of text; anything else becomes text",
            }
        ),
        "schema_version": _maybe({"type": "integer", "minimum": 1, "maximum": 2**31 - 1}),
    },
    "not": {
        "required": ["event_id", "idempotency_key"],
        "properties": {"event_id": {"type": "string"}, "idempotency_key": {"type": ["string", "integer"]}},
    },
}

RESULT: dict[str, Any] = {
    "type": "object",
    "required": ["event_id", "position", "sequence", "recorded_at", "leaf", "known"],
    "properties": {
        "event_id": _UUID,
        "position": _PLACE,
        "sequence": _PLACE,
        "recorded_at": TIME,
        "leaf": _LEAF,
        "known": {"type": "boolean", "description": "it was there before"},
    },
}
_TOTALS = {"stored": _COUNT, "known": _COUNT, "last_position": _COUNT}
REPORT: dict[str, Any] = {
    "type": "object",
    "required": ["stored", "known", "last_position"],
    "properties": {
        **_TOTALS,
        "results": {"type": "array", "items": RESULT},
        "failed": _COUNT,
        "failures": {
            "type": "array",
            "maxItems": FAILURES_MAX,
            "items": {
                "type": "object",
                "required": ["line", "reason"],
                "properties": {"line": _PLACE, "reason": {"type": "string"}},
            },
        },
        "failures_left_out": _COUNT,
        "committed_through_line": _COUNT,
    },
}
ENTRY: dict[str, Any] = {
    "type": "object",
    "required": ["position", "sequence", "recorded_at", "leaf", "event"],
    "properties": {
        "position": _PLACE,
        "sequence": _PLACE,
        "recorded_at": TIME,
        "leaf": _LEAF,
        "erased": {"type": "boolean"},
        "event": {"type": "object", "required": sorted(ENVELOPE_KEYS)},
    },
}
PAGE: dict[str, Any] = {
    "type": "object",
    "required": ["entries", "head"],
    "properties": {
        "entries": {"type": "array", "items": {"$ref": "#/components/schemas/Entry"}},
        "next_after": {"type": ["integer", "null"]},
        "next_until": {"type": ["integer", "null"]},
        "head": _COUNT,
    },
}
