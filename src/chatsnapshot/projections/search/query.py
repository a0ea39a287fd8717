"""What a person types into a search, as an expression for the index: words, "phrases", prefix*, -not."""

from __future__ import annotations

import re
import unicodedata

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.search.words import apart

__all__ = ["expression"]

CHARS_MAX = 1_000
TERMS_MAX = 64

_TERM = re.compile(r'(?P<no>-?)(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))(?P<more>\*?)')


def expression(query: str) -> str:
    """The FTS5 expression of a query: all words must be there, none that begins with ``-``.

    Every term is quoted, so that no text of a user is syntax of the index. Raises :class:`InvalidEvent` without a word to
    look for, and for more than 64 terms or 1,000 characters.
    """
    if not isinstance(query, str):
        raise InvalidEvent(f"a search is text, not {type(query).__name__}", path="query")
    if len(query) > CHARS_MAX:
        raise InvalidEvent(f"a search has at most {CHARS_MAX:,} characters, not {len(query):,}", path="query")
    wanted: list[str] = []
    unwanted: list[str] = []
    for found in _TERM.finditer(query):
        text = found["phrase"] if found["phrase"] is not None else found["word"]
        prefix = bool(found["more"]) or (found["word"] or "").endswith("*")
        if any(map(_counts, text)):
            safe = apart(text.replace("\0", " ")).replace('"', '""')
            term = f'"{safe}"' + (" *" if prefix else "")
            (unwanted if found["no"] else wanted).append(term)
    if not wanted:
        raise InvalidEvent(
            f"a search needs a word to look for, found in {query!r:.80}: none"
            + (" but words to leave out" if unwanted else ""),
            path="query",
        )
    if len(wanted) + len(unwanted) > TERMS_MAX:
        raise InvalidEvent(f"a search has at most {TERMS_MAX} words", path="query")
    all_of = " AND ".join(wanted)
    return f"({all_of})" + "".join(f" NOT {term}" for term in unwanted) if unwanted else all_of


def _counts(character: str) -> bool:
    """Whether the index takes the character as part of a word."""
    return unicodedata.category(character)[0] in "LN"
