"""The header ``chatsnapshot-context``: correlation, cause and run as one line of text, and back; strict in reading.

``correlation=order-1042; cause=0199d3a2-…; run=order-1042``: names in any order, each once, values percent-encoded UTF-8.
``correlation`` must be there. A reader passes over names that it does not know.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from chatsnapshot.clock import uuid_bytes, uuid_text
from chatsnapshot.errors import LedgerError
from chatsnapshot.fields import correlation_text

__all__ = ["HEADER", "HEADER_BYTES_MAX", "Carried", "decoded", "encoded", "made", "read", "write"]

HEADER = "chatsnapshot-context"
HEADER_BYTES_MAX = 8_192
"""A header that is longer is not written and not read; two ids of 256 characters, all encoded, stay below it."""

_LEDGER = "ledger"
"""The correlation of the ledger's own facts: nobody on the wire adds to it."""

_SAFE = "-._~:@+/!*"
_VALUE = re.compile(r"(?:[A-Za-z0-9._~:@+/!*-]|%[0-9A-Fa-f]{2})+")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class Carried(NamedTuple):
    """What goes over the wire: the correlation, the event that leads to what follows, the run that it is of."""

    correlation_id: str
    cause: str | None
    run_id: str | None


def write(carried: Carried) -> str | None:
    """The header's text; ``None`` when it would be too long."""
    pieces = [f"correlation={encoded(carried.correlation_id)}"]
    if carried.cause is not None:
        pieces.append(f"cause={carried.cause}")
    if carried.run_id is not None:
        pieces.append(f"run={encoded(carried.run_id)}")
    text = "; ".join(pieces)
    return text if len(text) <= HEADER_BYTES_MAX else None


def read(text: str) -> Carried | None:
    """What a header says; ``None`` for anything that :func:`write` could not have written."""
    if len(text) > HEADER_BYTES_MAX or not text.isascii():
        return None
    found: dict[str, str] = {}
    for piece in text.split(";"):
        name, equals, value = piece.strip(" \t").partition("=")
        if not equals or not _NAME.fullmatch(name) or name in found:
            return None
        found[name] = value
    return made(found.get("correlation"), found.get("cause"), found.get("run"))


def made(correlation: str | None, cause: str | None, run: str | None) -> Carried | None:
    """Three encoded values as what was carried; ``None`` unless all that are there can be meant."""
    if correlation is None:
        return None
    try:
        named = correlation_text(decoded(correlation))
        if named == _LEDGER:
            return None
        return Carried(
            named,
            None if cause is None else uuid_text(uuid_bytes(decoded(cause), "cause")),
            None if run is None else correlation_text(decoded(run)),
        )
    except (LedgerError, ValueError):
        return None


@lru_cache(1_024)
def encoded(text: str) -> str:
    """Percent-encoded so that it may stand in this header and in ``baggage``."""
    return quote(text, safe=_SAFE)


def decoded(value: str) -> str:
    """The text of an encoded value; raises ``ValueError`` when it is none."""
    if not _VALUE.fullmatch(value):
        raise ValueError("not percent-encoded")
    return unquote_to_bytes(value).decode("utf-8")
