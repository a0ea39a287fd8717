"""How many terminal columns a text takes, and cutting and padding by columns."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

__all__ = ["columns", "cut", "pad"]


@lru_cache(maxsize=4096)
def _character(character: str) -> int:
    code = ord(character)
    if code == 0xAD:  # a soft hyphen is a format character that terminals draw
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or 0x1160 <= code <= 0x11FF:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def columns(text: str) -> int:
    """The columns that ``text`` takes: 2 for wide characters and emoji, 0 for combining marks (UAX #11)."""
    return len(text) if text.isascii() else sum(map(_character, text))


def cut(text: str, limit: int, mark: str = "…") -> str:
    """``text`` in at most ``limit`` columns; what was longer ends in ``mark``."""
    if columns(text) <= limit:
        return text
    room = limit - columns(mark)
    if room < 0:
        return mark[:limit]
    used = 0
    for index, character in enumerate(text):
        used += _character(character)
        if used > room:
            return text[:index] + mark
    return text


def pad(text: str, limit: int, *, right: bool = False) -> str:
    """``text`` filled with blanks to ``limit`` columns; ``right`` puts the text at the right edge."""
    blanks = " " * (limit - columns(text))
    return blanks + text if right else text + blanks
