"""Redacts what stands beside the payload: attributes and the name of the source."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from chatsnapshot.integrity import canonical_json
from chatsnapshot.redaction.rules import Rules
from chatsnapshot.redaction.walk import Walk

__all__ = ["harmless", "redacted_attributes", "redacted_source"]

_ID = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IDS = ("trace_id", "span_id", "links")


def redacted_attributes(attributes_json: str, walk: Walk, rules: Rules) -> str | None:
    """Attributes without their secrets, as canonical JSON."""
    attributes: dict[str, Any] = msgspec.json.decode(attributes_json)
    for key, value in attributes.items():
        action = rules.attribute(key)
        at = ("attributes", key)
        if type(value) is list:
            attributes[key] = [walk.field(item, key, action, at) for item in value]
        elif type(value) is str or action in ("mask", "hash"):
            attributes[key] = walk.field(value, key, action, at)
    return canonical_json(attributes).decode() if attributes else None


def redacted_source(source_json: str, redact: Callable[[str], str | None]) -> str:
    """The source with another name, or without one."""
    if '"name"' not in source_json:
        return source_json
    source: dict[str, Any] = msgspec.json.decode(source_json)
    name = source.pop("name", None)
    if type(name) is str and (name := redact(name)):
        source["name"] = name
    return canonical_json(source).decode()


def harmless(attributes_json: str | None) -> str | None:
    """What of attributes can hold no secret: numbers, truth values, and ids of traces, spans and linked events."""
    if attributes_json is None:
        return None
    kept: dict[str, Any] = {}
    for key, value in msgspec.json.decode(attributes_json).items():
        values = value if type(value) is list else [value]
        ids = key in _IDS and all(type(one) is str and _ID.fullmatch(one) for one in values)
        if ids or type(value) in (bool, int):
            kept[key] = value
    return canonical_json(kept).decode() if kept else None
