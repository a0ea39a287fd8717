"""One event made of a span or a log record, and the ids that follow from what it is about."""

from __future__ import annotations

import hashlib
import unicodedata
from functools import lru_cache
from typing import Any

import msgspec

from chatsnapshot.clock import NAMESPACE, time_text, uuid_text
from chatsnapshot.envelope import EventEnvelope, source_of
from chatsnapshot.fields import source_text
from chatsnapshot.jsonvalue import encode
from chatsnapshot.limits import DEFAULTS, Limits

__all__ = ["ALL_FILLED", "CAUSE_FILLED", "Event", "envelope_of", "event_key", "filled_of", "name_text"]
__all__ += ["place_text", "source_json", "start_key"]

CAUSE_FILLED = ("causation_id",)
"""The cause of an event of a span may be found better by one who has seen more; it makes no other event."""
ALL_FILLED = ("causation_id", "source", "timestamp")
"""The same message is told by many spans, each with its own time."""

_PREFIX = NAMESPACE.bytes + b'["otlp",'
_sha1 = hashlib.sha1


class Event(msgspec.Struct, gc=False):
    """An event on its way: ``key`` are the 16 bytes of its id, ``at`` nanoseconds since 1970 (0: not known).

    ``source`` and ``attributes`` are canonical JSON. ``told`` marks a message, which other spans tell too.
    ``rank`` orders events of one moment: what begins comes before what it holds. ``plain``: the payload is strict JSON as
    it is, of texts and numbers that were not parsed out of others.
    """

    key: bytes
    type: str
    at: int
    source: str
    correlation: str
    cause: bytes | None
    payload: dict[str, Any]
    attributes: str | None = None
    told: bool = False
    rank: int = 2
    plain: bool = False


def event_key(*parts: str) -> bytes:
    """UUIDv5 of the JSON array ``["otlp", *parts]``; the parts are ASCII without quotes: ids and phases."""
    digest = bytearray(_sha1(_PREFIX + _array(parts)).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


@lru_cache(4_096)
def start_key(trace: str, span: str) -> bytes:
    """The id of the first event of a span, which is also the cause that its children name."""
    return event_key(trace, span, "start")


def _array(parts: tuple[str, ...]) -> bytes:
    return ('"' + '","'.join(parts) + '"]').encode()


_UNFIT = str.maketrans(dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}"))


def name_text(value: object, chars_max: int = 256) -> str | None:
    """A name or id as a header may hold it: NFC, no control characters, cut; ``None`` where there is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value)
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode().translate(_UNFIT))
    return text.strip()[:chars_max] or None


@lru_cache(4_096)
def source_json(origin: str, scope: str, name: str | None) -> str:
    """The source of what an instrumentation scope says about an agent of that name."""
    made = {"origin": origin, "runtime": f"otel:{name_text(scope, 200) or 'unknown'}"}
    if name is not None and (known := name_text(name)) is not None:
        made["name"] = known
    return source_text(made)


def place_text(trace: str, span: str) -> str:
    """The attributes that say which span an event is of."""
    return f'{{"span_id":"{span}","trace_id":"{trace}"}}'


def filled_of(event: Event) -> tuple[str, ...]:
    """What does not count when the same event comes again."""
    if event.told:
        return ALL_FILLED
    return CAUSE_FILLED if event.at else ("causation_id", "timestamp")


def envelope_of(event: Event, now: int, limits: Limits = DEFAULTS) -> EventEnvelope:
    """The event as an envelope; ``now`` stands for a time that is not known."""
    encoded = encode(event.payload, limits=limits)
    return EventEnvelope(
        event_id=uuid_text(event.key),
        event_type=event.type,
        timestamp=time_text(event.at or now),
        source=source_of(event.source),
        correlation_id=event.correlation,
        causation_id=None if event.cause is None else uuid_text(event.cause),
        payload_json=encoded.json,
        attributes_json=event.attributes,
        filled=filled_of(event),
        blobs=encoded.blobs,
    )
