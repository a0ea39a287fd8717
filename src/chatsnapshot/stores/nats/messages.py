"""An entry as a message: a line of facts, the canonical header that the leaf is the hash of, and the sealed payload."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import Corrupt, FormatTooNew
from chatsnapshot.stores.base import Row
from chatsnapshot.stores.nats.sealing import KeyPlace

__all__ = ["Facts", "Read", "framed", "read_message", "subject_token", "write_message"]

VERSION = 1


class Facts(msgspec.Struct, omit_defaults=True, gc=False):
    """What the ledger decided about an entry, and what must be known of it without its key."""

    position: int
    sequence: int
    first: int
    """Position of the first entry of the commit."""
    last: int
    """Position of the last one."""
    v: int = VERSION
    key: str | None = None
    """Place of the key; none when the payload was erased before the entry came here."""
    parts: int = 0
    """Parts of the payload in the vault; 0 when it is in this message."""
    blobs: bool = False
    """The payload names blobs."""
    erases: tuple[int, ...] = ()
    """Positions whose payload this record erases."""
    root: str | None = None
    """Root of the tree after the commit, in its last message."""


class _Payload(msgspec.Struct):
    commit: str
    len: int


class _Header(msgspec.Struct):
    event_id: str
    event_type: str
    timestamp: str
    source: msgspec.Raw
    correlation_id: str
    recorded_at: str
    payload: _Payload
    causation_id: str | None = None
    schema_version: int | None = None
    attributes: msgspec.Raw = msgspec.Raw()


class Read(NamedTuple):
    """A message read: its facts, and the row as the index keeps it (payload sealed, place of the key as salt)."""

    facts: Facts
    row: Row


_facts = msgspec.json.Decoder(Facts)
_header = msgspec.json.Decoder(_Header)
_encode = msgspec.json.Encoder().encode
_PLAIN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@lru_cache(maxsize=4096)
def subject_token(text: str) -> str:
    """A correlation as one token of a subject: what is no letter, digit, ``-`` or ``_`` as ``%XX``."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or byte in b"-_") else f"%{byte:02X}"
        for byte in text.encode()
    )


def write_message(facts: Facts, header: bytes, kept: bytes | None) -> bytes:
    """The bytes of a message; ``kept`` is the sealed payload as the index keeps it."""
    body = b"" if kept is None or facts.parts else kept[1:]
    return b"".join((_encode(facts), b"\n", header, b"\n", body))


def framed(subject: str, data: bytes, headers: str) -> bytes:
    """A message in the protocol of NATS (HPUB); ``headers`` are whole lines, each with its end."""
    head = f"NATS/1.0\r\n{headers}\r\n"
    size = len(head)
    return b"".join((f"HPUB {subject} {size} {size + len(data)}\r\n{head}".encode(), data, b"\r\n"))


def root_text(root: bytes) -> str:
    """A root as it is written."""
    return b64encode(root).decode()


def read_message(data: bytes, position: int) -> Read:
    """The facts and the row of the message at a position; raises :class:`Corrupt` when it is no entry of a ledger."""
    first = data.find(b"\n")
    second = data.find(b"\n", first + 1)
    try:
        if first < 0 or second < 0:
            raise ValueError("it has no facts and header")
        facts = _facts.decode(data[:first])
        if facts.v > VERSION:
            raise FormatTooNew(
                f"the entry at position {position} was written by a newer version; upgrade chatsnapshot"
            )
        header = data[first + 1 : second]
        found = _header.decode(header)
        if facts.position != position or not facts.first <= position <= facts.last:
            raise ValueError(f"it was written for position {facts.position}")
        kept = place = None
        if facts.key is not None:
            place = KeyPlace.parsed(facts.key).packed()
            sealed = data[second + 1 :]
            kept = b"\x01" + facts.parts.to_bytes(4, "big") if facts.parts else b"\x00" + sealed
        row: Row = (
            position,
            facts.sequence,
            found.recorded_at,
            _id(found.event_id),
            found.event_type,
            found.timestamp,
            bytes(found.source).decode(),
            found.correlation_id,
            None if found.causation_id is None else _id(found.causation_id),
            kept,
            found.schema_version,
            bytes(found.attributes).decode() or None,
            sha256(b"\x00" + header).digest(),
            place,
            b64decode(found.payload.commit, validate=True),
            found.payload.len,
        )
    except (msgspec.DecodeError, NotBase64, ValueError) as error:
        raise Corrupt(
            f"the message at position {position} is no entry of this ledger ({error}): something else publishes to its "
            "subjects or the stream was changed; run chatsnapshot verify",
            position=position,
        ) from None
    return Read(facts, row)


def _id(text: str) -> bytes:
    key = bytes.fromhex(text.replace("-", ""))
    if len(key) != 16 or uuid_text(key) != text:
        raise ValueError(f"{text!r} is no id")
    return key
