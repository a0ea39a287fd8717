"""A CloudEvent as it came, checked against CloudEvents 1.0: attributes in their canonical text, and its data.

Source: CloudEvents 1.0.2 core specification, §2 (type system, attributes) and §3 (data).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.clock import timestamp_text
from chatsnapshot.errors import InvalidEvent

__all__ = ["CloudEvent", "checked", "is_json", "media_type_of"]

_NAME = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
_URI = re.compile(r"[^\x00-\x20<>\"{}|\\^`\x7f-\x9f]+")
_MEDIA = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_REQUIRED = ("specversion", "id", "source", "type")
_NOT_EMPTY = frozenset(
    (*_REQUIRED, "subject", "dataschema", "datacontenttype", "correlationid", "causationid")
)
_INT_MAX = 2**31 - 1
VALUE_CHARS_MAX = 64 * 1024
"""Characters of one attribute."""


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One CloudEvent. Of ``json`` (data that is JSON, as bytes), ``text`` and ``binary`` at most one is there.

    ``attributes`` are all that it has, each in its canonical text (an integer in digits, a boolean as ``true``): the
    same event is the same in each mode, also in the binary one, whose headers know no types.
    """

    attributes: Mapping[str, str]
    json: bytes | None = None
    text: str | None = None
    binary: bytes | None = None

    @property
    def id(self) -> str:
        """The id, which is one only beside the source."""
        return self.attributes["id"]

    @property
    def source(self) -> str:
        """Where it happened, a URI reference."""
        return self.attributes["source"]

    @property
    def type(self) -> str:
        """What happened."""
        return self.attributes["type"]


def checked(given: Mapping[str, Any]) -> dict[str, str]:
    """Attributes in their canonical text; raises :class:`InvalidEvent` with what CloudEvents 1.0 forbids.

    ``None`` is the same as left out.
    """
    made: dict[str, str] = {}
    for name, value in given.items():
        if not _NAME.fullmatch(name):
            raise InvalidEvent(
                f"the attribute {name!r:.80} is not named in lower-case letters and digits (at most 64)",
                path=name[:80],
            )
        if value is not None:
            made[name] = _canonical(name, value)
    for name in _REQUIRED:
        if name not in made:
            raise InvalidEvent(
                f"the CloudEvent has no {name}; id, source, specversion and type are required", path=name
            )
    if made["specversion"] != "1.0":
        raise InvalidEvent(
            f"specversion is {made['specversion']!r:.40}; CloudEvents 1.0 is what is taken",
            path="specversion",
        )
    for name in ("source", "dataschema"):
        if name in made and not _URI.fullmatch(made[name]):
            raise InvalidEvent(f"{name} {made[name]!r:.80} is no URI", path=name)
    if "datacontenttype" in made and not _MEDIA.fullmatch(made["datacontenttype"]):
        raise InvalidEvent(
            f"datacontenttype {made['datacontenttype']!r:.80} is no media type", path="datacontenttype"
        )
    if "time" in made:
        try:
            timestamp_text(made["time"])
        except InvalidEvent:
            raise InvalidEvent(
                f"time {made['time']!r:.80} is no RFC 3339 time with a zone, such as 2026-11-30T12:00:00Z",
                path="time",
            ) from None
    return made


def _canonical(name: str, value: object) -> str:
    if isinstance(value, str):
        text = value
        if _UNFIT.search(text):
            raise InvalidEvent(f"{name} has a control character or another that text may not have", path=name)
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, int) and -_INT_MAX - 1 <= value <= _INT_MAX:
        text = str(value)
    else:
        raise InvalidEvent(
            f"{name} must be text, a boolean or an integer of 32 bits, not {type(value).__name__}", path=name
        )
    if name in _REQUIRED and not isinstance(value, str):
        raise InvalidEvent(f"{name} must be text, not {type(value).__name__}", path=name)
    if not text and name in _NOT_EMPTY:
        raise InvalidEvent(f"{name} is empty; leave it out, or say what it is", path=name)
    if len(text) > VALUE_CHARS_MAX:
        raise InvalidEvent(
            f"{name} has more than {VALUE_CHARS_MAX:,} characters; large data is data", path=name
        )
    return text


def media_type_of(content_type: str) -> str:
    """A content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str | None) -> bool:
    """Whether data of this type is JSON; where none is said, it is."""
    if content_type is None:
        return True
    kind = media_type_of(content_type)
    return kind in ("application/json", "text/json") or kind.endswith("+json")
