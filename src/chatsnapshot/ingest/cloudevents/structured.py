"""Reads CloudEvents in the JSON event format: one object, or a batch.

Source: CloudEvents 1.0.2 JSON event format, §2 (attributes), §3 (envelope, ``data``, ``data_base64``), §4 (batch).
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingest.cloudevents.event import CloudEvent, checked, is_json
from chatsnapshot.ingest.cloudevents.typed import typed
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.ndjson import decode_object

__all__ = ["BATCH_TYPE", "EVENT_TYPE", "batch_items", "looks_like", "read_document"]

EVENT_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"


class _Data(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw()


_data_decoder = msgspec.json.Decoder(_Data)


def read_document(document: bytes, depth_max: int = DEFAULTS.json_depth_max) -> CloudEvent:
    """One event; raises :class:`InvalidEvent` saying what is wrong with it."""
    members = decode_object(document, depth_max)
    encoded = members.pop("data_base64", None)
    has_data = "data" in members
    value = members.pop("data", None)
    if has_data and encoded is not None:
        raise InvalidEvent("data and data_base64 exclude each other", path="data_base64")
    attributes = checked(members)
    kind = attributes.get("datacontenttype")
    if encoded is not None:
        return typed(attributes, _decoded(encoded), depth_max)
    if not has_data:
        return CloudEvent(attributes=attributes)
    if isinstance(value, str) and not is_json(kind):
        return CloudEvent(attributes=attributes, text=value)
    raw = bytes(_data_decoder.decode(document).data)
    return CloudEvent(attributes=attributes, json=msgspec.json.format(raw, indent=-1))


def _decoded(encoded: object) -> bytes:
    if not isinstance(encoded, str):
        raise InvalidEvent(f"data_base64 must be text, not {type(encoded).__name__}", path="data_base64")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidEvent("data_base64 is no base64 (RFC 4648)", path="data_base64") from None


def batch_items(document: bytes) -> list[bytes]:
    """The elements of a batch as they are written; raises :class:`InvalidEvent` where it is no JSON array."""
    try:
        items = msgspec.json.decode(document, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidEvent(f"a batch is a JSON array of CloudEvents: {error}") from None
    return [bytes(item) for item in items]


def looks_like(members: dict[str, Any]) -> bool:
    """Whether a JSON object is a CloudEvent."""
    return {"specversion", "id", "source", "type"} <= members.keys()
