"""Reads a ledger: filters, pages, replay with child runs. Every read ends at the head of its start."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import starmap
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.clock import timestamp_text
from chatsnapshot.envelope import ORIGINS, LedgerEntry, check_event_type
from chatsnapshot.errors import Corrupt, InvalidEvent, NotFound
from chatsnapshot.fields import Causelike, attributes_text, cause_key, checked_text, correlation_text
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.stores.base import Page, Query, Row, Store

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = [
    "Moment",
    "Reading",
    "Replay",
    "blob_name",
    "make_query",
    "off_loop",
    "position_until",
    "to_entries",
]

Moment = int | str | datetime
"""A position, or a time (aware datetime or RFC 3339 text)."""

_EVERYTHING = Query()
_CONDITIONS_MAX = 500
"""Types, prefixes and attributes of one filter; a store of SQL nests a thousand conditions at most."""


def make_query(
    *,
    correlation_id: object = None,
    event_type: str | Sequence[str] | None = None,
    origin: str | None = None,
    runtime: str | None = None,
    name: str | None = None,
    attributes: Mapping[str, str | bool | int] | None = None,
    causation_id: Causelike | None = None,
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    limits: Limits = DEFAULTS,
) -> Query:
    """The filters of a read; raises :class:`InvalidEvent` for one that cannot match anything by its form."""
    exact, prefixes = _types(event_type)
    if origin is not None and origin not in ORIGINS:
        raise InvalidEvent(f"origin is one of {', '.join(ORIGINS)}, not {origin!r:.80}", path="origin")
    query = Query(
        correlation_id=None if correlation_id is None else correlation_text(correlation_id, limits),
        event_types=exact,
        type_prefixes=prefixes,
        origin=origin,
        runtime=None if runtime is None else checked_text(runtime, "runtime", limits.id_chars_max),
        name=None if name is None else checked_text(name, "name", limits.id_chars_max),
        attributes=_attributes(attributes or {}),
        causation_id=cause_key(causation_id),
        start=None if start is None else timestamp_text(start),
        end=None if end is None else timestamp_text(end),
    )
    check_query(query)
    return query


def check_query(query: Query) -> None:
    """Raise :class:`InvalidEvent` for a filter of more conditions than every store can take."""
    found = len(query.event_types or ()) + len(query.type_prefixes or ()) + len(query.attributes)
    if found > _CONDITIONS_MAX:
        raise InvalidEvent(
            f"a filter has at most {_CONDITIONS_MAX} types and attributes, and this one has {found:,}; "
            "read with a prefix such as execution.*, or several times",
            path="attributes" if query.attributes else "event_type",
        )


def _types(
    event_type: str | Sequence[str] | None,
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Exact types and prefixes; two times ``None`` for no filter."""
    if event_type is None:
        return None, None
    exact: list[str] = []
    prefixes: list[str] = []
    given = [event_type] if isinstance(event_type, str) else event_type
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise InvalidEvent(
            f"event_type is a type, a prefix or several, not {type(given).__name__}", path="event_type"
        )
    for wanted in given:
        if wanted == "*":
            return None, None
        if isinstance(wanted, str) and wanted.endswith(".*"):
            check_event_type(wanted[:-1] + "x")
            prefixes.append(wanted[:-1])
        else:
            exact.append(check_event_type(wanted))
    return tuple(exact), tuple(prefixes) or None


def _attributes(wanted: Mapping[str, str | bool | int]) -> tuple[tuple[str, str | bool | int], ...]:
    """Attributes to match, in the form in which they are stored."""
    if not isinstance(wanted, Mapping):
        raise InvalidEvent(f"attributes must be a mapping, not {type(wanted).__name__}", path="attributes")
    for key, value in wanted.items():
        if not isinstance(value, (str, bool, int)):
            raise InvalidEvent(
                f"attribute {key!r:.80} is matched by text, bool or int, not {type(value).__name__}",
                path="attributes",
            )
    text = attributes_text(wanted)
    return () if text is None else tuple(msgspec.json.decode(text).items())


def to_entries(rows: Sequence[Row], ledger: Ledger) -> list[LedgerEntry]:
    """Entries of rows; those that name blobs know where to fetch them. Raises :class:`Corrupt` for what is no payload."""
    entries = list(starmap(LedgerEntry, rows))
    index = 0
    try:
        for index, row in enumerate(rows):
            payload = row[9]
            if payload is not None and b"$blob" in payload:
                entries[index] = LedgerEntry(*row, ledger.blob)
    except TypeError:  # a changed bit in a file of SQLite makes text or a number of it
        position = rows[index][0]
        raise Corrupt(
            f"the payload at position {position} is not what was stored; run chatsnapshot verify, "
            "and restore the entry from a copy",
            position=position,
        ) from None
    return entries


def position_until(store: Store, until: Moment | None, head: int) -> int:
    """The last position that ``until`` allows: a position, or the last one recorded at or before a time."""
    if until is None:
        return head
    if isinstance(until, bool) or not isinstance(until, (int, str, datetime)):
        raise InvalidEvent(f"until is a position or a time, not {type(until).__name__}", path="until")
    if isinstance(until, int):
        return min(until, head)
    moment = timestamp_text(until)
    low, high = 0, head  # the answer lies in low..high; recorded_at never goes back
    while low < high:
        middle = (low + high + 1) // 2
        page = store.read(_EVERYTHING, after=middle - 1, until=middle, limit=1, reverse=False, hint=None)
        if not page.rows:
            raise Corrupt(f"position {middle} is missing; run chatsnapshot verify", position=middle)
        if page.rows[0][2] <= moment:
            low = middle
        else:
            high = middle - 1
    return low


def blob_name(reference: object) -> tuple[str, bytes]:
    """The name and digest of a blob, given by its name, a ``$blob`` object or a ``BlobRef``."""
    name = reference.get("$blob") if isinstance(reference, Mapping) else getattr(reference, "ref", reference)
    if isinstance(name, str) and name.startswith("sha256:") and len(name) == 71:
        try:
            return name, bytes.fromhex(name[7:])
        except ValueError:
            pass
    raise InvalidEvent(f"a blob is named by sha256: and 64 hex digits, not {name!r:.80}")


class Reading:
    """An iterator (``for`` and ``async for``) over matching entries, page by page, up to the head of its start.

    ``scanned_to`` is the position that has been looked at; :meth:`page` gives one page at a time.
    """

    def __init__(
        self,
        ledger: Ledger,
        query: Query,
        *,
        after: int = 0,
        until: Moment | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidEvent(f"limit is a number of entries, not {limit!r}", path="limit")
        if isinstance(after, bool) or not isinstance(after, int):
            raise InvalidEvent(f"after is a position, not {after!r:.80}", path="after")
        self._ledger = ledger
        self._store = ledger._store
        self._limits: Limits = ledger.limits
        self._query = query
        self._left = limit
        self._reverse = reverse
        self._after = max(after, 0)
        head = self._store.head().size
        self._until = position_until(self._store, until, head)
        self.scanned_to = self._until if reverse else self._after
        self._hint: int | None = None
        self._expected: int | None = None
        self._done = self._until <= self._after or limit == 0
        # An iterator of its own, so that a loop that breaks off can go on where it was.
        self._buffer: Iterator[LedgerEntry] = iter(())
        self._steps: Iterator[LedgerEntry] | None = None

    def __iter__(self) -> Iterator[LedgerEntry]:
        yield from self._buffer
        while not self._done:
            self._buffer = iter(self.page())
            yield from self._buffer

    def __next__(self) -> LedgerEntry:
        if self._steps is None:
            self._steps = iter(self)
        return next(self._steps)

    async def __aiter__(self) -> AsyncIterator[LedgerEntry]:
        import asyncio

        for entry in self._buffer:
            yield entry
        while not self._done:
            self._buffer = iter(await asyncio.to_thread(self.page))
            for entry in self._buffer:
                yield entry

    @property
    def exhausted(self) -> bool:
        """Whether there is no further page."""
        return self._done

    def page(self) -> list[LedgerEntry]:
        """The next page: up to 1,000 matches, or what up to 50,000 scanned entries hold (it may be empty)."""
        if self._done:
            return []
        limit = self._limits.page_entries_max
        if self._left is not None:
            limit = min(limit, self._left)
        found = self._store.read(
            self._query,
            after=self._after if self._reverse else self.scanned_to,
            until=self.scanned_to if self._reverse else self._until,
            limit=limit,
            reverse=self._reverse,
            hint=self._hint,
        )
        self._check_dense(found)
        self.scanned_to = found.scanned_to
        self._done = found.done
        if found.rows:
            self._hint = found.rows[-1][1]
        if self._left is not None:
            self._left -= len(found.rows)
            if self._left <= 0:
                self._done = True
        return to_entries(found.rows, self._ledger)

    def _check_dense(self, page: Page) -> None:
        """A hole in positions, or in the sequences of one correlation, is an error, never a skip."""
        rows = page.rows
        if self._query == _EVERYTHING:
            by_position, what = True, "position"
            expected = self.scanned_to if self._reverse else self.scanned_to + 1
        elif self._query.correlation_id is not None and self._query == Query(
            correlation_id=self._query.correlation_id
        ):
            by_position, what = False, f"sequence of {self._query.correlation_id!r}"
            if not rows:
                return
            if self._expected is not None:
                expected = self._expected
            else:
                from_the_start = self._after == 0 and not self._reverse
                expected = 1 if from_the_start else rows[0][1]
        else:
            return
        step = -1 if self._reverse else 1
        numbers = [row[0] for row in rows] if by_position else [row[1] for row in rows]
        for number, row in zip(numbers, rows, strict=False):
            if number != expected:
                raise Corrupt(
                    f"{what} {expected} is missing before position {row[0]}; run chatsnapshot verify",
                    position=row[0],
                )
            expected += step
        if by_position and page.done and not self._reverse and expected != self._until + 1:
            raise Corrupt(f"position {expected} is missing; run chatsnapshot verify", position=expected)
        self._expected = expected


class Replay:
    """The entries of one correlation in their order; with ``children`` those of child runs too, merged by position."""

    def __init__(
        self, ledger: Ledger, correlation_id: object, *, until: Moment | None, children: bool
    ) -> None:
        self._ledger = ledger
        self._steps: Iterator[LedgerEntry] | None = None
        self._until = position_until(ledger._store, until, ledger._store.head().size)
        self._correlations = [correlation_text(correlation_id, ledger.limits)]
        if ledger._store.last_sequence(self._correlations[0]) == 0:
            raise NotFound(
                f"there is no event of {self._correlations[0]!r} in {ledger.url}; list what there is with runs"
            )
        if children:
            seen = set(self._correlations)
            for correlation in self._correlations:
                for child in ledger._store.children(correlation):
                    if child not in seen:
                        seen.add(child)
                        self._correlations.append(child)

    @property
    def correlations(self) -> list[str]:
        """The correlations that are replayed, parents first."""
        return list(self._correlations)

    def __next__(self) -> LedgerEntry:
        if self._steps is None:
            self._steps = iter(self)
        return next(self._steps)

    def __iter__(self) -> Iterator[LedgerEntry]:
        readings = [
            iter(Reading(self._ledger, Query(correlation_id=correlation), until=self._until))
            for correlation in self._correlations
        ]
        return readings[0] if len(readings) == 1 else heapq.merge(*readings, key=_position)

    async def __aiter__(self) -> AsyncIterator[LedgerEntry]:
        import asyncio
        from itertools import islice

        entries = await asyncio.to_thread(iter, self)  # it looks the head up
        while chunk := await asyncio.to_thread(lambda: list(islice(entries, 500))):
            for entry in chunk:
                yield entry


async def off_loop(make: Callable[[], Reading | Replay]) -> AsyncIterator[LedgerEntry]:
    """The entries of what ``make`` gives; already its own look-ups, of the head for one, are made off the event loop."""
    import asyncio

    async for entry in await asyncio.to_thread(make):
        yield entry


def _position(entry: LedgerEntry) -> int:
    return entry.position
