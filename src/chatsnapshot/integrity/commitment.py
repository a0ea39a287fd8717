"""Payload commitment: binds a header to its payload, and tells nothing of it once the salt is erased."""

from __future__ import annotations

from hashlib import sha256

__all__ = ["COMMITMENT_BYTES", "SALT_BYTES", "commit"]

SALT_BYTES = 16
COMMITMENT_BYTES = 32

# Above this a second copy of the payload costs more than a second call into the hash.
_COPY_BYTES_MAX = 65_536


def commit(salt: bytes, payload: bytes) -> bytes:
    """SHA-256(0x02 ‖ salt ‖ payload): 32 bytes.

    ``salt`` is 16 random bytes of its own for every event; ``payload`` is the payload as it is stored.
    Raises ``ValueError`` for a salt of another length.
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    if len(payload) <= _COPY_BYTES_MAX:
        return sha256(b"\x02" + salt + payload).digest()
    digest = sha256(b"\x02" + salt)
    digest.update(payload)
    return digest.digest()
