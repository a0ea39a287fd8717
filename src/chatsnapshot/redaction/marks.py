"""What stands in the place of what was taken out: ``[redacted:KIND]`` and ``[hash:sha256:…]``."""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import Any

import msgspec

__all__ = ["KIND", "MARK", "hashed", "is_mark", "masked"]

KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
"""How a kind of secret is named."""

MARK = re.compile(r"\[(?:redacted:[a-z0-9][a-z0-9-]{0,63}|hash:(?:hmac-)?sha256:[0-9a-f]{64})\]")
"""A mark; it is left alone, so that redacting twice gives what redacting once gave."""

_encode = msgspec.json.Encoder(order="sorted").encode


def masked(kind: str) -> str:
    """The mark for a value that is gone."""
    return f"[redacted:{kind}]"


def hashed(value: Any, key: bytes | None) -> str:
    """The mark for a value that can still be compared: SHA-256 of its text (of its JSON when it is no text).

    With a key it is HMAC-SHA256 (RFC 2104). Without one, whoever can guess the value can confirm the guess.
    """
    data = value.encode() if type(value) is str else _encode(value)
    if key is None:
        return f"[hash:sha256:{sha256(data).hexdigest()}]"
    return f"[hash:hmac-sha256:{hmac.digest(key, data, 'sha256').hex()}]"


def is_mark(value: Any) -> bool:
    """Whether a value is a mark and nothing else."""
    return type(value) is str and MARK.fullmatch(value) is not None
