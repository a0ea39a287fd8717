"""An entry of a Redis stream as a message: a document in one of its fields, or the fields themselves as one."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import NamedTuple

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingest.brokers.message import Message, message_key, time_of
from chatsnapshot.ingest.brokers.redisaddress import RedisStream
from chatsnapshot.ingest.cloudevents.binary import is_binary
from chatsnapshot.ndjson import decode_object

__all__ = ["Entry", "entries_of", "message_of"]

_DOCUMENT = b"data"
_PLAIN = b"event_type"
_KEY = b"idempotency_key"
_JSON_FIELDS = frozenset({b"payload", b"source", b"attributes", b"schema_version"})
"""Fields of a plain event that hold JSON; the others hold text."""
_GONE = "it was deleted from the stream before it was acknowledged; it is stored only if that was done before"


class Entry(NamedTuple):
    """An id, and fields in their order; ``None`` for one that was deleted while a consumer had it."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...] | None

    @property
    def size(self) -> int:
        """Bytes of its fields."""
        return sum(len(name) + len(value) for name, value in self.fields or ())


def entries_of(answer: list[list[object]] | None) -> list[Entry]:
    """The entries in an answer of the server: pairs of an id and a flat list of fields."""
    found = []
    for entry_id, flat in answer or ():
        assert isinstance(entry_id, bytes)
        fields = None
        if isinstance(flat, list):
            fields = tuple(zip(flat[::2], flat[1::2], strict=True))
        found.append(Entry(entry_id.decode("ascii"), fields))
    return found


def message_of(entry: Entry, source: RedisStream) -> Message:
    """The message that an entry is; never raises: what is no event for its fields alone is ``refused``."""
    place = f"entry {entry.id} of {source.stream}"
    at = time_of(int(entry.id.partition("-")[0]))
    if entry.fields is None:
        return Message(message_key("redis", f"{source.name} {entry.id} deleted"), place, at, (), b"", _GONE)
    fields = dict(entry.fields)
    named = None if source.field is None else source.field.encode()
    if named is not None and named not in fields:
        reason = f"it has no field {source.field!r:.80}"
        return Message(_key(entry, source), place, at, (), _as_texts(entry.fields, "replace"), reason)
    document = named or _document(fields)
    if document is not None:
        key = _key(entry, source, fields.get(_KEY))
        headers = tuple(
            (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
            for name, value in entry.fields
            if name != document
        )
        return Message(key, place, at, headers, fields.get(document, b""))
    key = _key(entry, source)
    try:
        return Message(key, place, at, (), _as_object(entry.fields))
    except InvalidEvent as error:
        return Message(key, place, at, (), _as_texts(entry.fields, "replace"), str(error))


def _key(entry: Entry, source: RedisStream, given: bytes | None = None) -> str:
    """What names the entry for ever: what the producer gave, or its id with its content, which never changes.

    The content, because a stream that was deleted and made again may give an id again.
    """
    if given:
        return message_key("redis", f"{source.name} id {given.decode('utf-8', 'surrogateescape')}")
    content = sha256()
    for name, value in entry.fields or ():
        content.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return message_key("redis", f"{source.name} {entry.id} {content.hexdigest()[:32]}")


def _document(fields: dict[bytes, bytes]) -> bytes | None:
    """The field that holds a document; ``None`` where the fields themselves are the event."""
    if _PLAIN in fields:
        return None
    if _DOCUMENT in fields or is_binary(name.decode("latin-1") for name in fields):
        return _DOCUMENT
    if len(fields) == 1:
        ((name, value),) = fields.items()
        if value.lstrip()[:1] == b"{":
            return name
    return None


def _as_object(fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """A plain event of its fields, or without ``event_type`` an object of texts; raises for what is neither."""
    if all(name != _PLAIN for name, _ in fields):
        return _as_texts(fields, "strict")
    pieces = []
    for name, value in fields:
        if name in _JSON_FIELDS:
            try:
                # Alone in an object, so that it is one value and nothing more.
                alone = len(decode_object(b'{"value":' + value + b"}", len(value) + 2)) == 1
            except InvalidEvent as error:
                raise InvalidEvent(f"the field {name.decode()} is not JSON: {error}") from None
            if not alone:
                raise InvalidEvent(f"the field {name.decode()} is not JSON: more than one value")
            pieces.append(_text(name, "strict") + b":" + value)
        else:
            pieces.append(_text(name, "strict") + b":" + _text(value, "strict"))
    return b"{" + b",".join(pieces) + b"}"


def _as_texts(fields: tuple[tuple[bytes, bytes], ...], errors: str) -> bytes:
    return (
        b"{" + b",".join(_text(name, errors) + b":" + _text(value, errors) for name, value in fields) + b"}"
    )


def _text(value: bytes, errors: str) -> bytes:
    try:
        return json.dumps(value.decode("utf-8", errors), ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise InvalidEvent(f"a field is not UTF-8: {value[:40]!r}") from None
