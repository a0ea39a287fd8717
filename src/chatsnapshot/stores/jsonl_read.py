"""Pages of a JSONL ledger: the index tells where lines are, the lines are the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from chatsnapshot.errors import Corrupt
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import PAYLOAD_BYTES, Page, Query, Row
from chatsnapshot.stores.jsonl_index import JsonlIndex
from chatsnapshot.stores.jsonl_lines import BadLine, read_row
from chatsnapshot.stores.jsonl_segments import Place, Segments
from chatsnapshot.stores.matching import matcher

__all__ = ["read_page", "rows_at"]

_STEP = 1_000
_FIRST_STEP = 64


def rows_at(index: JsonlIndex, segments: Segments, places: Iterable[Place]) -> Iterator[Row]:
    """The rows of these places; raises :class:`Corrupt` naming position and offset of the first bad line."""
    for place, line in segments.fetch(places):
        yield _row(index, segments, place, line)


def _row(index: JsonlIndex, segments: Segments, place: Place, line: bytes) -> Row:
    try:
        row = read_row(line)
    except BadLine as error:
        reason = str(error)
        if index.is_erasing(place.position):
            try:
                return read_row(line, erasing=True)
            except BadLine as other:
                reason = str(other)
        raise _corrupt(segments, place.segment, place.position, place.offset, reason) from None
    if row[0] != place.position:
        raise _corrupt(
            segments, place.segment, place.position, place.offset, f"position {row[0]} stands there"
        )
    return row


def _corrupt(segments: Segments, segment: int, position: int, offset: int, reason: str) -> Corrupt:
    return Corrupt(
        f"position {position} is damaged: line at byte {offset} of {segments.path(segment)}: {reason}; "
        f"the other lines are readable (read on after {position}), restore this one from a copy",
        position=position,
    )


def read_page(
    index: JsonlIndex,
    segments: Segments,
    limits: Limits,
    size: int,
    query: Query,
    after: int,
    until: int,
    limit: int,
    reverse: bool,
    hint: int | None,
) -> Page:
    """One page of matching rows, see ``Store.read``. The caller holds one snapshot of the index.

    A page ends in front of a damaged line; the page that begins with it raises :class:`Corrupt`.
    """
    low, high = max(after, 0), min(until, size)
    # Whose a damaged line was is unknown: in one correlation a hole in the sequences tells.
    bound = None if query.correlation_id is not None else _damage(index, segments, low, high, reverse)
    stop: Corrupt | None = None
    if bound is not None:
        stop, near, far = bound
        if reverse:
            low = far
        else:
            high = near - 1
        if low >= high:
            raise stop
    found: list[Row] = []
    taken = scanned = 0
    matches = None if query.unfiltered else matcher(query)
    hinted = _needles(query)
    scan_max = limits.scan_entries_max if query.scans else 1 << 62
    edge = high if reverse else low
    step = min(limit, _STEP) if query.unfiltered or not query.scans else _FIRST_STEP
    while True:
        wanted = max(step, 1)
        if query.correlation_id is not None:
            places = index.members(query.correlation_id, low, high, hint, wanted, reverse=reverse)
            hint = None  # from here on the edges lead
        else:
            places = index.places(low, high, wanted, reverse=reverse)
        if not places:
            break
        try:
            for row, place in _in_order(index, segments, places, reverse, hinted):
                if len(found) >= limit or taken >= limits.page_bytes_max or scanned >= scan_max:
                    return Page(found, edge, False)
                scanned += 1
                edge = place.position - 1 if reverse else place.position
                if row is not None and (matches is None or matches(row)):
                    found.append(row)
                    taken += row[PAYLOAD_BYTES]
        except Corrupt:
            if not scanned:
                raise
            return Page(found, edge, False)
        if len(places) < wanted or edge == (low if reverse else high):
            break
        if len(found) >= limit or taken >= limits.page_bytes_max or scanned >= scan_max:
            return Page(found, edge, False)
        if reverse:
            high = edge
        else:
            low = edge
        step = _STEP
    if reverse:
        return Page(found, low, stop is None)
    return Page(found, high if stop is not None else max(high, after), stop is None)


def _damage(
    index: JsonlIndex, segments: Segments, low: int, high: int, reverse: bool
) -> tuple[Corrupt, int, int] | None:
    """The nearest damage that takes entries away from low < position <= high: its error, first and last position."""
    known = [(segment, one) for segment, one in index.damages(low, high) if one.until >= one.position]
    if not known:
        return None
    segment, one = known[-1 if reverse else 0]
    first, last = max(one.position, low + 1), min(one.until, high)
    return _corrupt(segments, segment, last if reverse else first, one.offset, one.reason), first, last


def _in_order(
    index: JsonlIndex,
    segments: Segments,
    places: Sequence[Place],
    reverse: bool,
    needles: Callable[[bytes], bool] | None,
) -> Iterator[tuple[Row | None, Place]]:
    """Rows in the order of ``places``; ``None`` for lines that cannot match."""
    if reverse:
        lines: Iterable[tuple[Place, bytes]] = reversed(list(segments.fetch(reversed(places))))
    else:
        lines = segments.fetch(places)
    for place, line in lines:
        if needles is not None and not needles(line):
            yield None, place
        else:
            yield _row(index, segments, place, line), place


def _needles(query: Query) -> Callable[[bytes], bool] | None:
    """A cheap test that lines of other event types fail, so that they need not be read."""
    if query.event_types is None and query.type_prefixes is None:
        return None
    wanted = [f'"event_type":"{name}"'.encode() for name in query.event_types or ()]
    wanted += [f'"event_type":"{name}'.encode() for name in query.type_prefixes or ()]
    return lambda line: any(needle in line for needle in wanted)
