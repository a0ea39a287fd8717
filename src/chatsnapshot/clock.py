"""Time and ids: ledger clock, RFC 3339 text with six digits, UUIDv7 that never goes back in a process, UUIDv5 by name.

Sources: RFC 9562 (UUID), RFC 3339 (timestamps).
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import msgspec

from chatsnapshot.errors import InvalidEvent

__all__ = [
    "NAMESPACE",
    "Clock",
    "Entropy",
    "foreign_uuid",
    "idempotent_uuid",
    "new_id",
    "parse_time",
    "time_text",
    "timestamp_text",
    "uuid7",
    "uuid7_of",
    "uuid_bytes",
    "uuid_text",
]

Clock = Callable[[], int]
"""Gives the time in nanoseconds since 1970-01-01 UTC, as :func:`time.time_ns` does."""

Entropy = Callable[[int], bytes]
"""Gives that many random bytes, as :func:`os.urandom` does."""

NAMESPACE = uuid.UUID("6ba5f2a8-2c0d-5f5e-9d0b-3f1f5a7b4c11")
"""Name space of the ids that are made from names; part of ledger format 1."""

_UTC = timezone.utc
_EPOCH = datetime(1970, 1, 1, tzinfo=_UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_OTHER_UUID = re.compile(
    r"(?:urn:uuid:)?(?:[0-9a-f]-?){31}[0-9a-f]|\{(?:[0-9a-f]-?){31}[0-9a-f]\}", re.ASCII | re.I
)


# --- time ---

_cached_second = (-1, "")
"""A whole second in nanoseconds, and its text up to the dot: most calls are about the second of the call before."""


def time_text(nanoseconds: int) -> str:
    """Write nanoseconds since 1970 UTC as ``YYYY-MM-DDTHH:MM:SS.ffffffZ`` (always 27 characters)."""
    global _cached_second
    start, text = _cached_second
    fraction = (nanoseconds - start) // 1000
    if not 0 <= fraction < 1_000_000 or start < 0:
        second = nanoseconds // 1_000_000_000
        text = f"{(_EPOCH + timedelta(seconds=second)).isoformat()[:19]}."
        _cached_second = (second * 1_000_000_000, text)
        fraction = (nanoseconds - second * 1_000_000_000) // 1000
    if fraction >= 100_000:
        return f"{text}{fraction}Z"
    return f"{text}{fraction:06d}Z"


def timestamp_text(value: object) -> str:
    """Turn an aware datetime or RFC 3339 text into the 27 characters that are stored.

    Raises :class:`InvalidEvent` for a naive datetime, a text without a zone, or anything else.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise InvalidEvent(
                f"timestamp {value.isoformat()!r} has no time zone; "
                "use datetime.now(timezone.utc) or add tzinfo",
                path="timestamp",
            )
        moment = value
    elif isinstance(value, str):
        if len(value) == 27 and _is_stored_form(value):
            return value
        moment = _parse(value)
    else:
        raise InvalidEvent(
            f"timestamp must be an aware datetime or RFC 3339 text, not {type(value).__name__}",
            path="timestamp",
        )
    return _utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _is_stored_form(text: str) -> bool:
    """Whether a text of 27 characters is a real moment just as it would be stored."""
    try:
        return (
            text[26] == "Z"
            and datetime.fromisoformat(text[:26]).isoformat(timespec="microseconds") == text[:26]
        )
    except ValueError:
        return False


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 text as an aware UTC datetime; raises :class:`InvalidEvent`."""
    return _utc(_parse(text))


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(_UTC)
    except (OverflowError, ValueError):
        raise InvalidEvent(
            f"timestamp {moment!s} lies outside the years 1 to 9999 in UTC", path="timestamp"
        ) from None


def _parse(text: str) -> datetime:
    found = _RFC3339.fullmatch(text.strip())
    if found is None:
        raise InvalidEvent(
            f"timestamp {text!r} is not RFC 3339 with a time zone, as in 2026-11-30T02:26:03.123456Z",
            path="timestamp",
        )
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micro = int(((fraction or "") + "000000")[:6])
    if zone in "Zz":
        offset = timezone.utc
    else:
        away = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        offset = timezone(-away if zone[0] == "-" else away)
    leap = second == "60"
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute),
            59 if leap else int(second),
            micro,
            offset,
        )
    except ValueError as error:
        raise InvalidEvent(f"timestamp {text!r} is no real moment: {error}", path="timestamp") from None
    # A leap second has no place in POSIX time: it is kept as the last microsecond before it.
    return moment.replace(microsecond=999_999) if leap else moment


# --- ids ---


_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
_KEPT_TAILS = 512
_split_tails = struct.Struct("8s" * _KEPT_TAILS).unpack
_eight = struct.Struct(">Q").pack


class _Uuid7:
    """Makes UUIDv7 with 12 bits of sub-millisecond time (RFC 9562 §6.2 method 3), strictly rising in a process."""

    __slots__ = ("last", "lock", "tails")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last = 0
        self.tails: list[bytes] = []

    def one(self) -> bytes:
        now = time.time_ns() * 64 // 15_625  # units of a millisecond / 4096
        with self.lock:
            if now <= self.last:
                now = self.last + 1
            self.last = now
            tails = self.tails or self._refill(1)
            tail = tails.pop()
        # 48 bits of milliseconds, the version, 12 bits of fraction; then the variant and 62 random bits.
        return _eight((now >> 12) << 16 | 0x7000 | now & 0xFFF) + tail

    def take(self, count: int) -> list[bytes]:
        now = time.time_ns() * 64 // 15_625
        with self.lock:
            first = now if now > self.last else self.last + 1
            self.last = first + count - 1
            if len(self.tails) < count:
                self._refill(count)
            tails = self.tails[-count:]
            del self.tails[-count:]
        return [
            _eight((stamp >> 12) << 16 | 0x7000 | stamp & 0xFFF) + tail
            for stamp, tail in zip(range(first, first + count), tails, strict=True)
        ]

    def _refill(self, count: int) -> list[bytes]:
        """Draw random ends, variant bits included, until there are ``count`` of them."""
        while len(self.tails) < count:
            noise = bytearray(os.urandom(8 * _KEPT_TAILS))
            noise[::8] = noise[::8].translate(_VARIANT)
            self.tails += _split_tails(noise)
        return self.tails


_uuid7 = _Uuid7()


def _after_fork_in_child() -> None:
    global _uuid7
    _uuid7 = _Uuid7()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def uuid7(count: int = 1) -> list[bytes]:
    """Make ``count`` new UUIDv7, each 16 bytes, rising inside this process."""
    return _uuid7.take(count) if count > 0 else []


def new_id() -> bytes:
    """Make one UUIDv7."""
    return _uuid7.one()


def uuid7_of(nanoseconds: int, noise: bytes) -> bytes:
    """The UUIDv7 of a moment (nanoseconds since 1970) and 10 random bytes: the same of both gives the same (RFC 9562)."""
    raw = bytearray((nanoseconds // 1_000_000 & 0xFFFF_FFFF_FFFF).to_bytes(6, "big") + noise[:10])
    raw[6] = raw[6] & 0x0F | 0x70
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def uuid_text(raw: bytes) -> str:
    """Write a 16-byte UUID in its usual 36 characters."""
    h = raw.hex("-", 2)  # two bytes at a time; most dashes stand where they belong
    return f"{h[:4]}{h[5:29]}{h[30:34]}{h[35:]}"


def uuid_bytes(value: object, what: str = "event_id") -> bytes:
    """Read a UUID given as text (any usual spelling), ``uuid.UUID`` or 16 bytes; raises :class:`InvalidEvent`."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, str):
        if len(value) == 36 and _UUID.fullmatch(value):
            return bytes.fromhex(value.replace("-", ""))
        if _OTHER_UUID.fullmatch(value):
            return uuid.UUID(value).bytes
    elif isinstance(value, bytes) and len(value) == 16:
        return value
    hint = " (an id of your own belongs in idempotency_key=)" if what == "event_id" else ""
    raise InvalidEvent(f"{what} must be a UUID, not {value!r:.80}{hint}", path=what)


def _named(parts: list[str]) -> bytes:
    digest = bytearray(hashlib.sha1(NAMESPACE.bytes + msgspec.json.encode(parts)).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


def idempotent_uuid(correlation_id: str, key: str) -> bytes:
    """The id of an event recorded with ``idempotency_key``: UUIDv5 of the JSON array [correlation_id, key]."""
    return _named([correlation_id, key])


def foreign_uuid(source: str, foreign_id: str) -> bytes:
    """The id of an event that has another kind of id elsewhere: UUIDv5 of the JSON array [source, id]."""
    return _named([source, foreign_id])
