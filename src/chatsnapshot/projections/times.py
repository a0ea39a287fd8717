"""Differences between stored times, exact in nanoseconds; what cannot be known is ``None``."""

from __future__ import annotations

from datetime import datetime, timedelta

__all__ = ["between", "duration"]

_MICROSECOND = timedelta(microseconds=1)


def between(earlier: str | None, later: str | None) -> int | None:
    """Nanoseconds from one stored time to another, negative when ``later`` comes first; ``None`` where one is unknown.

    Both are the 27 characters of the envelope (UTC, microseconds).
    """
    if earlier is None or later is None:
        return None
    try:
        return (_read(later) - _read(earlier)) // _MICROSECOND * 1000
    except ValueError:
        return None


def duration(started: str | None, ended: str | None) -> int | None:
    """How long something took; ``None`` where a time is unknown or the clocks disagree so far that it ends first."""
    found = between(started, ended)
    return found if found is None or found >= 0 else None


def _read(text: str) -> datetime:
    # datetime.fromisoformat reads a trailing Z only from Python 3.11 on.
    return datetime.fromisoformat(text.removesuffix("Z"))
