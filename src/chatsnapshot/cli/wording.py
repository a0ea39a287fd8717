"""Numbers in words for people: sizes, moments, counts."""

from __future__ import annotations

__all__ = ["UNKNOWN", "count", "moment", "size"]

UNKNOWN = "–"


def size(byte_count: int | None) -> str:
    """A size in bytes: ``512 B``, ``1.5 KiB``, ``20.1 MiB`` (1 KiB = 1024 B); unknown is a dash."""
    if byte_count is None:
        return UNKNOWN
    if byte_count < 1024:
        return f"{byte_count} B"
    value = float(byte_count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def moment(text: str | None, *, digits: int = 3) -> str:
    """A stored time (27 characters, UTC) as ``2026-11-30 02:26:03.123Z``; unknown is a dash."""
    if not text:
        return UNKNOWN
    fraction = text[19 : 20 + digits] if digits else ""
    return f"{text[:10]} {text[11:19]}{fraction}Z"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """``1 event``, ``2 events``, ``12,000 events``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
