"""Searches all runs: words found in the index, as hits that say where they are and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.search.index import Index, Line
from chatsnapshot.projections.search.placing import forget, with_index
from chatsnapshot.projections.search.query import expression
from chatsnapshot.projections.search.words import together
from chatsnapshot.reading import make_query, position_until

__all__ = ["Found", "Hit", "forget", "search"]

FILTERS = (
    *("correlation_id", "event_type", "origin", "runtime", "name", "attributes"),
    *("causation_id", "start", "end"),
)
"""The filters of ``read`` beside its bounds."""

_SNIPPET_WORDS = 24
_LIMIT_MAX = 10_000


class Hit(msgspec.Struct, frozen=True):
    """An event that was found.

    ``snippet`` is a piece of its text as it was recorded, data to be made safe where it is shown; ``marks`` are the
    places in it that matched, as characters from and to. ``score`` is BM25, the larger the better.
    """

    position: int
    correlation_id: str
    event_id: str
    event_type: str
    at: str
    who: str | None
    snippet: str
    marks: tuple[tuple[int, int], ...]
    score: float


class Found(msgspec.Struct, frozen=True):
    """The hits of a search, best first or newest first; ``note`` says when the index could not be kept."""

    query: str
    hits: tuple[Hit, ...]
    note: str | None = None

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)


def search(
    ledger: Any,
    query: str,
    *,
    limit: int = 20,
    order: str = "best",
    after: int = 0,
    until: Any = None,
    keep: bool | None = None,
    **filters: Any,
) -> Found:
    """The events in which all words of ``query`` are found: words, ``"a phrase"``, ``begin*``, ``-without``.

    Case and accents do not matter. ``order`` is ``best`` (BM25, then the newest) or ``newest``. ``filters`` are those of
    :meth:`Ledger.read`. ``keep``: whether the index may be written, beside the ledger (by default unless that was
    opened read-only) or, of a ledger on a server, in the user's cache. What has been erased is taken out of it before
    it answers.

    Raises :class:`InvalidEvent` for a query without a word and for filters that ``read`` refuses.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= _LIMIT_MAX:
        raise InvalidEvent(f"limit is a number of hits up to {_LIMIT_MAX:,}, not {limit!r:.80}", path="limit")
    if order not in ("best", "newest"):
        raise InvalidEvent(f"order is 'best' or 'newest', not {order!r:.80}", path="order")
    wanted = expression(query)
    unknown = [name for name in filters if name not in FILTERS]
    if unknown:
        raise TypeError(f"search() has no filter {unknown[0]!r}; it takes {', '.join(FILTERS)}")
    where = make_query(limits=ledger.limits, **filters)
    last = position_until(ledger._store, until, ledger.head)

    def work(index: Index) -> tuple[Hit, ...]:
        lines = index.find(wanted, where, after, last, limit, order) if limit else []
        return tuple(_hit(line, index.snippet(wanted, line[0], _SNIPPET_WORDS)) for line in lines)

    hits, note = with_index(ledger, keep, work)
    return Found(query, hits, note)


def _hit(line: Line, snippet: str) -> Hit:
    text, marks = _marked(together(snippet))
    return Hit(
        position=line[0],
        correlation_id=line[7],
        event_id=uuid_text(line[3]),
        event_type=line[4],
        at=line[5],
        who=line[12],
        snippet=text,
        marks=marks,
        score=-float(line[13]),
    )


def _marked(snippet: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text without the signs around hits, and where these were; hits that touch are one."""
    pieces: list[str] = []
    marks: list[tuple[int, int]] = []
    length = 0
    for number, piece in enumerate(snippet.replace("\ue001\ue000", "").split("\ue000")):
        hit, _, rest = piece.partition("\ue001") if number else ("", "", piece)
        if hit:
            marks.append((length, length + len(hit)))
        pieces += [hit, rest]
        length += len(hit) + len(rest)
    return "".join(pieces), tuple(marks)
