"""Patterns of strangers: run by the ``regex`` package, which can be stopped in the middle of a search."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from chatsnapshot.errors import InvalidEvent, MissingExtra
from chatsnapshot.redaction.assignments import Hit
from chatsnapshot.redaction.patterns import Pattern

__all__ = ["Timed", "timed"]


class Timed:
    """A pattern that gives up when the time of its event is over."""

    __slots__ = ("_expression", "_group", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        try:
            import regex
        except ImportError:
            raise MissingExtra("a redaction pattern of your own", "redaction") from None
        self.pattern = pattern
        try:
            self._expression: Any = regex.compile(
                pattern.expression, regex.IGNORECASE if pattern.ignore_case else 0, cache_pattern=False
            )
        except (regex.error, RecursionError) as error:
            raise InvalidEvent(
                f"the expression of pattern {pattern.kind!r} is no regular expression: {error}", path="redact"
            ) from None
        self._group = "secret" if "secret" in self._expression.groupindex else 0

    def hits(self, text: str, deadline: float) -> Iterator[Hit]:
        """The places where it matches; raises ``TimeoutError`` at the deadline (``time.monotonic``)."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for redacting one event is over")
        accept, kind, group = self.pattern.accept, self.pattern.kind, self._group
        for found in self._expression.finditer(text, timeout=left):
            if found[group] and (accept is None or accept(found[group])):
                yield found.start(group), found.end(group), kind


@lru_cache(1_024)
def timed(pattern: Pattern) -> Timed:
    """A stranger's pattern made ready; raises :class:`MissingExtra` and :class:`InvalidEvent`."""
    return Timed(pattern)
