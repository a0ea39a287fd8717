"""A record of a Kafka topic as a message: its value is the document, its headers those of the CloudEvents binding."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

from chatsnapshot.ingest.brokers.kafkaaddress import KafkaTopic
from chatsnapshot.ingest.brokers.message import Message, message_key, time_of
from chatsnapshot.ingest.cloudevents.binary import PREFIX, is_binary

__all__ = ["Record", "message_of"]

_PREFIX = "ce_"
"""Kafka protocol binding for CloudEvents 1.0.2, §3.2.3.1; values are UTF-8 as they are, where HTTP has %XX."""
_KEY = "idempotency_key"
_TOMBSTONE = "it has no value: a tombstone, which deletes what has its key"


class Record(NamedTuple):
    """One record; ``milliseconds`` since 1970 as producer or broker say (-1: neither).

    ``value`` is ``None`` for a tombstone, ``headers`` where the client cannot read them.
    """

    partition: int
    offset: int
    milliseconds: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    value: bytes | None

    @property
    def size(self) -> int:
        """Bytes of what it holds."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers or ())
        return headers + len(self.key or b"") + len(self.value or b"")


def message_of(record: Record, source: KafkaTopic) -> Message:
    """The message that a record is; never raises: what is no event for its form alone is ``refused``."""
    headers = [_header(name, value) for name, value in record.headers or () if value is not None]
    refused = ""
    if record.headers is None:
        refused = "its headers are not UTF-8"
    elif record.value is None and not is_binary(name for name, _ in headers):
        refused = _TOMBSTONE
    if record.key is not None:
        headers.append(("kafka_key", record.key.decode("utf-8", "replace")))  # for what is set aside
    return Message(
        _key(record, source),
        f"offset {record.offset} of partition {record.partition} of {source.topic}",
        time_of(record.milliseconds),
        tuple(headers),
        record.value or b"",
        refused,
    )


def _header(name: str, value: bytes) -> tuple[str, str]:
    if name.lower().startswith(_PREFIX):
        return PREFIX + name[len(_PREFIX) :], quote(value, safe="")
    return name, value.decode("utf-8", "surrogateescape")


def _key(record: Record, source: KafkaTopic) -> str:
    """What names the record for ever: what the producer gave, or its place with its time and content.

    These, because a topic that was deleted and made again gives its offsets again.
    """
    for name, value in record.headers or ():
        if name == _KEY and value:
            return message_key("kafka", f"{source.name} id {value.decode('utf-8', 'surrogateescape')}")
    content = sha256(b"%d" % record.milliseconds)
    for piece in (record.key, record.value):
        content.update(b"-" if piece is None else b"%d:%b" % (len(piece), piece))
    for name, value in record.headers or ():
        held = b"-" if value is None else b"%d:%b" % (len(value), value)
        content.update(b"%d:%b" % (len(name), name.encode("utf-8", "surrogatepass")) + held)
    place = f"{source.name} {record.partition} {record.offset}"
    return message_key("kafka", f"{place} {content.hexdigest()[:32]}")
