"""Seals payloads so that a key can erase them: AES-256-GCM, with a key for each event and a place to find the key.

A key is used for one payload only, so the nonce is a number: 0 for a payload inside its message, 1, 2, 3 … for parts.
What is sealed is the salt of the commitment followed by the payload: both go together.
"""

from __future__ import annotations

from typing import NamedTuple

from chatsnapshot.errors import Corrupt, MissingExtra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    raise MissingExtra("a ledger on NATS", "nats") from None

__all__ = [
    "KEY_BYTES",
    "PAGE_BYTES",
    "SALT_BYTES",
    "KeyPlace",
    "inline",
    "open_sealed",
    "open_text",
    "parts_of",
    "seal",
    "seal_text",
]

KEY_BYTES = 32
PAGE_BYTES = 12
SALT_BYTES = 16
_INLINE = b"\x00"
_PARTS = b"\x01"


class KeyPlace(NamedTuple):
    """Where a key is: page and number in it. 16 bytes when packed."""

    page: bytes
    slot: int

    def packed(self) -> bytes:
        """As it is kept beside a sealed payload."""
        return self.page + self.slot.to_bytes(4, "big")

    @classmethod
    def unpacked(cls, data: bytes) -> KeyPlace:
        """The other way."""
        return cls(data[:PAGE_BYTES], int.from_bytes(data[PAGE_BYTES:], "big"))

    def text(self) -> str:
        """As it is written in a message."""
        return f"{self.page.hex()}-{self.slot}"

    @classmethod
    def parsed(cls, text: str) -> KeyPlace:
        """The other way; raises ``ValueError``."""
        page, _, slot = text.partition("-")
        return cls(bytes.fromhex(page), int(slot))


def seal_text(key: bytes, number: int, plain: bytes, about: bytes) -> bytes:
    """Ciphertext and tag; ``about`` is bound to it."""
    return AESGCM(key).encrypt(number.to_bytes(12, "big"), plain, about)


def open_text(key: bytes, number: int, sealed: bytes, about: bytes) -> bytes:
    """The plain bytes; raises :class:`Corrupt`."""
    try:
        return AESGCM(key).decrypt(number.to_bytes(12, "big"), sealed, about)
    except InvalidTag:
        raise Corrupt("a sealed payload does not open with its key: one of the two was changed") from None


def seal(key: bytes, salt: bytes, payload: bytes, event_id: bytes, part_bytes: int) -> list[bytes]:
    """Salt and payload, sealed: one piece for the message, or more for the vault when ``part_bytes`` are passed."""
    plain = salt + payload
    if len(plain) <= part_bytes:
        return [seal_text(key, 0, plain, event_id)]
    return [
        seal_text(key, number, plain[start : start + part_bytes], event_id)
        for number, start in enumerate(range(0, len(plain), part_bytes), 1)
    ]


def inline(pieces: list[bytes]) -> bytes:
    """What the index keeps: the sealed payload itself, or how many parts it has in the vault."""
    return _INLINE + pieces[0] if len(pieces) == 1 else _PARTS + len(pieces).to_bytes(4, "big")


def parts_of(kept: bytes) -> int:
    """In how many parts the payload is in the vault; 0 when it is here."""
    return int.from_bytes(kept[1:5], "big") if kept[:1] == _PARTS else 0


def open_sealed(key: bytes, kept: bytes, parts: list[bytes], event_id: bytes) -> tuple[bytes, bytes]:
    """Salt and payload; raises :class:`Corrupt`."""
    if parts:
        plain = b"".join(open_text(key, number, part, event_id) for number, part in enumerate(parts, 1))
    else:
        plain = open_text(key, 0, kept[1:], event_id)
    return plain[:SALT_BYTES], plain[SALT_BYTES:]
