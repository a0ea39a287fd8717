"""Single facts of an entry as formats need them: its payload as valid JSON on one line, numbers of nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.clock import parse_time
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.fields import payload_of

__all__ = ["envelope_json", "facts_of", "hex_of", "payload_json", "time_ns"]

_LINE_ENDS = re.compile(rb"[\r\n]")


def payload_json(entry: LedgerEntry) -> bytes | None:
    """The payload as one line of valid JSON; ``None`` when it was erased.

    What somebody damaged so that it is no JSON any more is given as ``{"value": text}``.
    """
    stored = entry.payload_json
    if stored is None:
        return None
    try:
        msgspec.json.decode(stored)
        stored.decode()
        return msgspec.json.format(stored, indent=-1) if _LINE_ENDS.search(stored) else stored
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.encode(dict(payload_of(entry)))


def envelope_json(entry: LedgerEntry) -> bytes:
    """The envelope as one line of JSON, byte for byte as it was recorded."""
    stored = payload_json(entry)
    if stored is not entry.payload_json:
        entry = msgspec.structs.replace(entry, payload_json=stored)
    return entry.event.to_json()


def facts_of(entry: LedgerEntry) -> Mapping[str, Any]:
    """The payload to read facts from: empty when it was erased."""
    return {} if entry.erased else payload_of(entry)


def time_ns(text: str | None) -> int | None:
    """Nanoseconds since 1970 as an unsigned number of 64 bits holds them; ``None`` for what is unknown or outside."""
    if text is None:
        return None
    try:
        at = parse_time(text)
    except InvalidEvent:
        return None
    since = at - _EPOCH
    nanoseconds = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return nanoseconds if 0 <= nanoseconds < 2**64 else None


_EPOCH = parse_time("1970-01-01T00:00:00.000000Z")


def hex_of(value: object, digits: int) -> str | None:
    """An id of that many hexadecimal digits that is not all zeros, as OpenTelemetry has them; else ``None``."""
    if isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{digits}}}", value) and value.strip("0"):
        return value
    return None
