"""The digest of a projection's states: a sum over keys, so that it follows each change and can be made anew in any order.

Digest = the sum modulo 2^256 of SHA-256(length of the key in bytes, as 8 bytes big-endian ‖ key ‖ record) over all keys,
where a record is the stored JSON of a key. It finds faults and differences; against someone who chooses states freely it
proves nothing: the tree over the history does that, and the states follow from the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

__all__ = ["EMPTY", "digest_bytes", "digest_number", "digest_of", "part"]

_MODULUS = 1 << 256

EMPTY = bytes(32)
"""The digest of no state."""


def part(key: str, record: bytes) -> int:
    """What one key adds to the sum."""
    name = key.encode("utf-8", "surrogatepass")
    return int.from_bytes(sha256(len(name).to_bytes(8, "big") + name + record).digest(), "big")


def digest_bytes(total: int) -> bytes:
    """The digest of a sum, which may be negative or too large."""
    return (total % _MODULUS).to_bytes(32, "big")


def digest_number(digest: bytes) -> int:
    """The sum that a digest stands for."""
    return int.from_bytes(digest, "big")


def digest_of(records: Mapping[str, bytes]) -> bytes:
    """The digest of all records."""
    return digest_bytes(sum(part(key, record) for key, record in records.items()))
