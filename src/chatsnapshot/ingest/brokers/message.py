"""A message as a broker gives it, and the event, envelope or CloudEvent that it holds."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from chatsnapshot.clock import time_text
from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingest.cloudevents.binary import is_binary, read_message
from chatsnapshot.ingest.cloudevents.mapping import Mapper
from chatsnapshot.ingest.cloudevents.structured import EVENT_TYPE, looks_like, read_document
from chatsnapshot.ingesting import Dated, is_envelope
from chatsnapshot.ndjson import decode_object

__all__ = ["Message", "event_of", "message_key", "time_of"]

_KEY_MAX = 256
_TIME_MS = range(10**12, 253_402_300_800_000)
"""From 2001 to 9999: a number in there is a time, any other was made up by a producer."""


class Message(NamedTuple):
    """One message.

    ``key`` names it for ever, at each delivery: an event without an id gets its id from it. ``place`` says in words where
    it stands; ``at`` when the broker took it (RFC 3339; empty where it does not say). ``refused`` says why it is no event
    where that is known before it is read.
    """

    key: str
    place: str
    at: str
    headers: tuple[tuple[str, str], ...]
    data: bytes
    refused: str = ""


def message_key(broker: str, text: str) -> str:
    """The key of a message that ``text`` names at its broker: any text, since producers may give it."""
    key = f"{broker} {text}"
    if len(key) > _KEY_MAX or not key.isprintable():
        key = f"{broker} hash {sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return key


def time_of(milliseconds: int) -> str:
    """The time of so many milliseconds since 1970, for :attr:`Message.at`; empty for a number that is none."""
    return time_text(milliseconds * 1_000_000) if milliseconds in _TIME_MS else ""


def event_of(
    message: Message, mapper: Mapper, event_type: str | None, depth_max: int
) -> EventEnvelope | Dated:
    """What the message says happened: an envelope, or arguments of ``record`` with an id that follows from the message.

    The time at which the broker took it stands in where it has none, and is not compared: a producer that is not sure
    gives the same event again later.

    ``event_type`` is that of messages which are JSON and no event. Raises :class:`InvalidEvent` for what is none of them.
    """
    if message.refused:
        raise InvalidEvent(message.refused)
    kind = next((value for name, value in message.headers if name.lower() == "content-type"), "")
    kind = kind.partition(";")[0].strip().lower()
    if kind == EVENT_TYPE:
        return mapper.envelope(read_document(message.data, depth_max))
    if kind.startswith("application/cloudevents"):
        raise InvalidEvent(
            f"{kind} is not taken from a broker; publish each CloudEvent by itself, as {EVENT_TYPE}"
        )
    if is_binary(name for name, _ in message.headers):
        return mapper.envelope(read_message(message.headers, message.data, depth_max))
    if event_type is not None and message.data.lstrip()[:1] != b"{":
        value = decode_object(b'{"value":' + message.data + b"}", depth_max + 1)
        if len(value) != 1:  # 1,"more":2 is no value
            raise InvalidEvent("not JSON: more than one value")
        fields: dict[str, Any] = {"event_type": event_type, "payload": value}
    else:
        fields = decode_object(message.data, depth_max)
    if is_envelope(fields):
        return EventEnvelope.from_json(message.data)
    if looks_like(fields):
        return mapper.envelope(read_document(message.data, depth_max))
    if "event_type" not in fields:
        if event_type is None:
            raise InvalidEvent(
                "neither an event, nor an envelope, nor a CloudEvent; with --type such messages are taken as payloads"
            )
        fields = {"event_type": event_type, "payload": fields}
    if fields.get("event_id") is None and fields.get("idempotency_key") is None:
        fields["idempotency_key"] = message.key
    return Dated(fields, message.at)
