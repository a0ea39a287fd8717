"""Asks hooks: what they get is a copy, and what they leave is checked like anything from outside."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.integrity import canonical_json
from chatsnapshot.jsonvalue import nested_deeper
from chatsnapshot.limits import Limits

__all__ = ["Hook", "run_hooks"]

Hook = Callable[[dict[str, Any]], "Mapping[str, Any] | None"]
"""Gets a copy of ``event_type``, ``correlation_id``, ``payload``, ``attributes`` and ``source_name``; changes payload,
attributes or source name in place, or returns a mapping with those that it changed."""

_CHANGEABLE = frozenset({"payload", "attributes", "source_name"})
_GIVEN = frozenset({"event_type", "correlation_id"}) | _CHANGEABLE

_KEY = re.compile(r"[a-z][a-z0-9_.]{0,63}")


def run_hooks(
    hooks: Sequence[Hook],
    event_type: str,
    correlation_id: str,
    payload_json: bytes,
    attributes_json: str | None,
    source_json: str,
    limits: Limits,
) -> tuple[bytes, str | None, str]:
    """Payload, attributes and source after the hooks; raises what a hook raises, ``TypeError`` and ``ValueError``."""
    source = msgspec.json.decode(source_json)
    event: dict[str, Any] = {
        "event_type": event_type,
        "correlation_id": correlation_id,
        "payload": msgspec.json.decode(payload_json),
        "attributes": msgspec.json.decode(attributes_json) if attributes_json else {},
        "source_name": source.get("name"),
    }
    for hook in hooks:
        changed = hook(event)
        if changed is not None:
            if not isinstance(changed, Mapping) or not changed.keys() <= _GIVEN:
                raise TypeError("a hook returns None or a mapping with payload, attributes or source_name")
            event.update({key: changed[key] for key in changed.keys() & _CHANGEABLE})
        if event.keys() != _GIVEN or type(event["payload"]) is not dict:
            raise TypeError("a hook leaves payload (an object), attributes and source_name in their places")
    payload = msgspec.json.encode(event["payload"])
    if len(payload) > limits.payload_bytes_max:
        raise ValueError("a hook made the payload larger than payload_bytes_max")
    if nested_deeper(payload, msgspec.json.decode(payload), limits.json_depth_max):
        raise ValueError("a hook made the payload too deep to be read everywhere")
    attributes = _attributes(event["attributes"], limits)
    name = event["source_name"]
    source.pop("name", None)
    if name is not None:
        source["name"] = _name(name, limits)
    return payload, attributes, canonical_json(source).decode()


def _attributes(attributes: object, limits: Limits) -> str | None:
    """Attributes as a hook left them, in their stored form."""
    if not isinstance(attributes, Mapping):
        raise TypeError("a hook leaves attributes as a mapping")
    made: dict[str, Any] = {}
    for key, value in attributes.items():
        if type(key) is not str or not _KEY.fullmatch(key):
            raise ValueError("a hook left an attribute whose key does not read [a-z][a-z0-9_.]{0,63}")
        texts = type(value) is list and all(type(item) is str for item in value)
        if value is not None:
            if type(value) not in (str, bool, int) and not texts:
                raise TypeError("a hook left an attribute that is no text, bool, int or list of texts")
            made[key] = value
    if not made:
        return None
    text = canonical_json(made)
    if len(text) > limits.attributes_bytes_max:
        raise ValueError("a hook made the attributes larger than attributes_bytes_max")
    return text.decode()


def _name(name: object, limits: Limits) -> str:
    """A source name as a hook left it."""
    if type(name) is not str:
        raise TypeError("a hook leaves source_name as text or None")
    name = unicodedata.normalize("NFC", name)
    if not 1 <= len(name) <= limits.id_chars_max or any(unicodedata.category(char) == "Cc" for char in name):
        raise ValueError("a hook left a source_name that is no name")
    return name
