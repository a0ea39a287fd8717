"""Takes secrets out of one text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from chatsnapshot.redaction.assignments import Hit, assignments
from chatsnapshot.redaction.marks import MARK, masked
from chatsnapshot.redaction.names import has_name
from chatsnapshot.redaction.patterns import Pattern

__all__ = ["Finder", "Found", "compiled", "found_in", "redacted_text"]

ROUNDS_MAX = 4
"""A text is looked at again until nothing more is found, so that redacting twice changes nothing."""

SHOWN_CHARS = 4


class Found(NamedTuple):
    """One secret: its kind, and what of it may be shown (up to four characters of a public prefix)."""

    kind: str
    shown: str


class Finder(Protocol):
    """A pattern that was made ready to search."""

    pattern: Pattern

    def hits(self, text: str, deadline: float) -> Iterator[Hit]:
        """The places where it matches; raises ``TimeoutError`` when the deadline (``time.monotonic``) is over."""


class _Linear:
    """A pattern that runs in linear time, with :mod:`re`."""

    __slots__ = ("_expression", "_group", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._expression = re.compile(pattern.expression, re.IGNORECASE if pattern.ignore_case else 0)
        self._group = "secret" if "secret" in self._expression.groupindex else 0

    def hits(self, text: str, deadline: float) -> Iterator[Hit]:
        accept, kind, group = self.pattern.accept, self.pattern.kind, self._group
        for found in self._expression.finditer(text):
            if found[group] and (accept is None or accept(found[group])):
                yield found.start(group), found.end(group), kind


@lru_cache(1_024)
def compiled(pattern: Pattern) -> Finder:
    """A built-in pattern made ready; raises ``re.error`` for one that is no regular expression."""
    return _Linear(pattern)


def found_in(
    text: str, finders: Sequence[Finder], names: bool, deadline: float = math.inf
) -> list[tuple[int, int, str, bool]]:
    """Start, end, kind and whether the prefix is public, in order and without overlaps; marks are left alone."""
    hits: list[tuple[int, int, str, bool]] = []
    for finder in finders:
        public = finder.pattern.public
        hits.extend((start, end, kind, public) for start, end, kind in finder.hits(text, deadline))
    if names and has_name(text.lower()):
        hits.extend((*hit, False) for hit in assignments(text))
    if not hits:
        return hits
    marks = [mark.span() for mark in MARK.finditer(text)] if "[" in text else []
    merged: list[tuple[int, int, str, bool]] = []
    for hit in sorted(hits, key=lambda hit: (hit[0], -hit[1])):  # stable: patterns come before names
        if any(start < hit[1] and hit[0] < end for start, end in marks):
            continue
        if merged and hit[0] < merged[-1][1]:
            start, end, kind, public = merged[-1]
            merged[-1] = (start, max(end, hit[1]), kind, public)
        else:
            merged.append(hit)
    return merged


def redacted_text(
    text: str,
    finders: Sequence[Finder],
    names: bool,
    deadline: float = math.inf,
    found: list[Found] | None = None,
) -> str:
    """The text with a mark in the place of each secret; the same object when there is none."""
    for _ in range(ROUNDS_MAX):
        hits = found_in(text, finders, names, deadline)
        if not hits:
            break
        parts: list[str] = []
        at = 0
        for start, end, kind, public in hits:
            if found is not None:
                found.append(Found(kind, text[start : start + SHOWN_CHARS] if public else ""))
            parts += (text[at:start], masked(kind))
            at = end
        text = "".join(parts) + text[at:]
    return text
