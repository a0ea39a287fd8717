"""Which spans a waterfall draws: all of a short run; of a long one groups, then what stands highest, the rest counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from chatsnapshot.projections.shapes import Timeline
from chatsnapshot.projections.spans import HOLDERS, Found, Known, find_spans

__all__ = ["ROWS_MAX", "Row", "Rows", "choose_rows"]

ROWS_MAX = 120
GROUP_MIN = 4
_PIECES_MAX = 80
_LABEL_END = re.compile(r"[(:]")
_STARTED = re.compile(r" started$")


Below = Mapping[int | None, Sequence[Known]]
"""The spans that each one holds, by its position; ``None``: those at the top."""


class Row(msgspec.Struct):
    """A line of the waterfall: one span, or ``count`` spans of one kind and name.

    ``pieces`` are from and to in nanoseconds, ``bad`` those of spans that failed, ``took_ns`` the sum of durations.
    ``inside`` counts spans below it that have no row of their own, ``failed_inside`` those of them that failed.
    """

    position: int
    label: str
    kind: str
    depth: int
    pieces: list[tuple[int, int]]
    bad: list[tuple[int, int]]
    took_ns: int
    count: int = 1
    failed: int = 0
    open: int = 0
    inside: int = 0
    failed_inside: int = 0


class Rows(msgspec.Struct, frozen=True):
    """The lines, in order, the first and last known time, and how many spans are left out and why.

    ``grouped`` spans stand in lines with others, ``hidden`` in none; of ``unknown`` a time is unknown.
    """

    rows: list[Row]
    first_ns: int
    last_ns: int
    spans: int
    grouped: int
    hidden: int
    unknown: int
    found: Found


def choose_rows(timeline: Timeline, rows_max: int = ROWS_MAX) -> Rows:
    """The lines of the waterfall of a timeline, each span below the one that holds it."""
    found = find_spans(timeline)
    below: dict[int | None, list[Known]] = {}
    for span in found.spans.values():
        # What names itself as what holds it stands at the top.
        holder = span.parent if span.parent in found.spans and span.parent != span.item.position else None
        below.setdefault(holder, []).append(span)
    for held in below.values():
        held.sort(key=lambda one: (one.start, one.item.position))
    total = len(found.spans)
    rows = _tree(below, group=False)
    if len(rows) > rows_max:
        rows = _tree(below, group=True)
    if len(rows) > rows_max:
        rows = _shallow(rows, rows_max)
    if len(rows) > rows_max:
        rows = _weightiest(rows, rows_max)
    shown = sum(row.count for row in rows)
    grouped = sum(row.count for row in rows if row.count > 1)
    return Rows(rows, found.first, found.last, total, grouped, total - shown, found.unknown, found)


def _tree(below: Below, *, group: bool) -> list[Row]:
    """A row for each span; with ``group`` for those of one kind and name below the same row, whatever they hold."""
    rows: list[Row] = []
    waiting = [(one, 0) for one in reversed(_bundles(below.get(None, ()), group))]
    while waiting:
        bundle, depth = waiting.pop()
        rows.append(_row(bundle, depth))
        held = [inner for one in bundle for inner in below.get(one.item.position, ())]
        waiting += [(one, depth + 1) for one in reversed(_bundles(held, group))]
    return rows


def _bundles(spans: Sequence[Known], group: bool) -> list[list[Known]]:
    """Spans one by one, or at least ``GROUP_MIN`` of one kind and name together."""
    if not group:
        return [[one] for one in spans]
    alike: dict[tuple[str, str], list[Known]] = {}
    for one in spans:
        alike.setdefault((one.item.span or "", _label(one)), []).append(one)
    found = [
        part
        for bundle in alike.values()
        for part in ([bundle] if len(bundle) >= GROUP_MIN else [[one] for one in bundle])
    ]
    return sorted(found, key=lambda bundle: (bundle[0].start, bundle[0].item.position))


def _label(span: Known) -> str:
    """What a span is called: without arguments and numbers, so that equal ones are called equally."""
    what = _STARTED.sub("", span.item.what)
    kind = span.item.span
    return what if kind in (*HOLDERS, "question") else _LABEL_END.split(what)[0].strip() or what


def _row(bundle: Sequence[Known], depth: int) -> Row:
    first = bundle[0]
    label = _STARTED.sub("", first.item.what) if len(bundle) == 1 else _label(first)
    return Row(
        first.item.position,
        label,
        first.item.span or "",
        depth,
        _merged((one.start, one.end) for one in bundle),
        _merged((one.start, one.end) for one in bundle if one.item.failed),
        sum(one.end - one.start for one in bundle),
        len(bundle),
        sum(one.item.failed for one in bundle),
        sum(one.item.open for one in bundle),
    )


def _merged(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches in order without overlaps; of very many those with the smallest holes between them become one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(pieces):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    if len(found) <= _PIECES_MAX:
        return found
    holes = sorted((found[n + 1][0] - found[n][1], n) for n in range(len(found) - 1))
    closed = {n for _, n in holes[: len(found) - _PIECES_MAX]}
    wide: list[tuple[int, int]] = [found[0]]
    for n, piece in enumerate(found[1:]):
        if n in closed:
            wide[-1] = wide[-1][0], piece[1]
        else:
            wide.append(piece)
    return wide


def _shallow(rows: Sequence[Row], rows_max: int) -> list[Row]:
    """As many levels as there is room for, at least the first; what lies below is counted at the line above it."""
    depth = 0
    while sum(row.depth <= depth + 1 for row in rows) <= rows_max:
        depth += 1
    kept: list[Row] = []
    for row in rows:
        if row.depth <= depth:
            kept.append(row)
        elif kept:
            kept[-1].inside += row.count
            kept[-1].failed_inside += row.failed
    return kept


def _weightiest(rows: Sequence[Row], rows_max: int) -> list[Row]:
    """What failed, is open or took longest."""
    ranked = sorted(
        range(len(rows)), key=lambda n: (not rows[n].failed, not rows[n].open, -rows[n].took_ns, n)
    )
    return [rows[n] for n in sorted(ranked[:rows_max])]
