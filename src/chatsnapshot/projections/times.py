"""When events happened, and differences between times, exact in nanoseconds; what cannot be known is ``None``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.fields import payload_of

__all__ = ["between", "duration", "happened"]

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_UNKNOWN = re.compile(rb'"time"\s*:\s*"unknown"')


def happened(entry: LedgerEntry) -> str | None:
    """When an event happened; ``None`` where its payload says ``"native": {"time": "unknown"}``.

    Importers write that for what has no time in its file; the timestamp is then the time of the import.
    """
    if entry.payload_json is None or _UNKNOWN.search(entry.payload_json) is None:
        return entry.timestamp
    native = payload_of(entry).get("native")
    return None if isinstance(native, Mapping) and native.get("time") == "unknown" else entry.timestamp


def between(earlier: str | None, later: str | None) -> int | None:
    """Nanoseconds from one stored time to another, negative when ``later`` comes first; ``None`` where one is unknown.

    Both are the 27 characters of the envelope (UTC, microseconds).
    """
    if earlier is None or later is None:
        return None
    try:
        return (_read(later) - _read(earlier)) * 1000
    except (ValueError, OverflowError):
        return None


def duration(started: str | None, ended: str | None) -> int | None:
    """How long something took; ``None`` where a time is unknown or the clocks disagree so far that it ends first."""
    found = between(started, ended)
    return found if found is None or found >= 0 else None


@lru_cache(maxsize=1024)
def _read(text: str) -> int:
    """Microseconds since 1970."""
    # datetime.fromisoformat reads a trailing Z only from Python 3.11 on.
    moment = datetime.fromisoformat(text.removesuffix("Z"))
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
    return (moment - _EPOCH) // _MICROSECOND
