"""Reads CloudEvents in binary mode: attributes in headers ``ce-NAME``, data as the body.

Source: CloudEvents 1.0.2 HTTP protocol binding, §3.1 (binary mode) and §3.1.3.2 (values of headers). NATS has the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingest.cloudevents.event import CloudEvent, checked
from chatsnapshot.ingest.cloudevents.typed import typed
from chatsnapshot.limits import DEFAULTS

__all__ = ["PREFIX", "is_binary", "read_message"]

PREFIX = "ce-"
_OCTETS = "application/octet-stream"
_QUOTED = re.compile(r"\\(.)", re.DOTALL)


def is_binary(names: Iterable[str]) -> bool:
    """Whether headers of these names (in any case) are those of an event in binary mode."""
    found = {name.lower() for name in names}
    return not found.isdisjoint(("ce-specversion", "ce-id", "ce-source", "ce-type"))


def read_message(
    headers: Iterable[tuple[str, str]], data: bytes, depth_max: int = DEFAULTS.json_depth_max
) -> CloudEvent:
    """One event; raises :class:`InvalidEvent` saying what is wrong with it.

    Without a content type a body is JSON where it can be read as such, else bytes; an empty body is no data.
    """
    given: dict[str, str] = {}
    kind: str | None = None
    for header, value in headers:
        name = header.lower()
        if name == "content-type":
            kind = value.strip()
        elif name.startswith(PREFIX):
            name = name[len(PREFIX) :]
            if name in given:
                raise InvalidEvent(f"the header {PREFIX}{name} stands there twice", path=name)
            if name in ("data", "datacontenttype"):
                raise InvalidEvent(
                    f"{PREFIX}{name} is no header: the body is the data, Content-Type its type", path=name
                )
            given[name] = value_of(value)
    if kind:
        given["datacontenttype"] = kind
    attributes = checked(given)
    if not data:
        return CloudEvent(attributes=attributes)
    if not kind:
        try:
            return typed(attributes, data, depth_max)
        except InvalidEvent:
            return CloudEvent(attributes={**attributes, "datacontenttype": _OCTETS}, binary=data)
    return typed(attributes, data, depth_max)


def value_of(header: str) -> str:
    """The value in a header: double quotes undone (older senders), then percent-decoded once, as UTF-8.

    Characters that should have been encoded are taken as they are, where they are UTF-8 read as Latin-1 too.
    """
    text = header.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = _QUOTED.sub(r"\1", text[1:-1])
    try:
        # HTTP servers give header bytes as Latin-1.
        raw = text.encode("latin-1")
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")
    decoded = unquote_to_bytes(raw)
    try:
        return decoded.decode()
    except UnicodeDecodeError:
        if decoded == raw:
            return raw.decode("latin-1")
        raise InvalidEvent(f"the header value {text!r:.80} does not decode to UTF-8") from None
