"""Bytes of data by their content type: JSON, text in its character set, or bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping

import msgspec

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingest.cloudevents.event import CloudEvent, is_json, media_type_of
from chatsnapshot.jsonvalue import nested_deeper
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.ndjson import decode_object

__all__ = ["typed"]

_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.:+-]+)\"?", re.ASCII | re.IGNORECASE)
_CHARSETS = frozenset(
    ("utf-8", "us-ascii", "ascii", "iso8859-1", "iso-8859-1", "latin-1", "utf-16", "utf-16-le", "utf-16-be")
)
_TEXT = frozenset(
    ("application/xml", "application/yaml", "application/javascript", "application/x-www-form-urlencoded")
)


def typed(attributes: Mapping[str, str], data: bytes, depth_max: int = DEFAULTS.json_depth_max) -> CloudEvent:
    """The event with these bytes as its data; raises :class:`InvalidEvent` for JSON that is none."""
    kind = attributes.get("datacontenttype")
    if is_json(kind):
        text = _text(data, kind or "")
        return CloudEvent(
            attributes=attributes, json=_json(data if text is None else text.encode(), depth_max)
        )
    assert kind is not None
    if (
        media_type_of(kind).startswith("text/")
        or media_type_of(kind).endswith("+xml")
        or media_type_of(kind) in _TEXT
    ):
        text = _text(data, kind)
        if text is not None:
            return CloudEvent(attributes=attributes, text=text)
    return CloudEvent(attributes=attributes, binary=data)


def _json(data: bytes, depth_max: int) -> bytes:
    """Strict JSON of any value, on one line."""
    decode_object(b'{"data":' + data + b"}", depth_max + 1)
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:  # {"data":1,"more":2} would be read as two members
        raise InvalidEvent(f"the data is no JSON: {error}", path="data") from None
    if nested_deeper(data, value, depth_max):
        raise InvalidEvent("the data is nested too deeply", path="data")
    return msgspec.json.format(data, indent=-1)


def _text(data: bytes, kind: str) -> str | None:
    """The text of bytes in the character set that their type names (UTF-8 where it names none)."""
    named = _CHARSET.search(kind)
    try:
        charset = codecs.lookup(named[1]).name if named else "utf-8"
        return data.decode(charset) if charset in _CHARSETS else None
    except (LookupError, UnicodeDecodeError):
        return None
