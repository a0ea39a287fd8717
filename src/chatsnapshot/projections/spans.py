"""The spans of a timeline: what took time, and which span holds which, by cause and by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from chatsnapshot.projections.latency import believable
from chatsnapshot.projections.shapes import Timeline, TimelineItem

__all__ = ["HOLDERS", "Found", "Known", "children_of", "find_spans"]

_RESUMED = ("execution.run_resumed", "system.workflow_resumed")

HOLDERS = ("run", "workflow")
"""Kinds of spans that are no work themselves."""


class Known(msgspec.Struct):
    """A span whose times are known; ``parent`` is the position of the one that holds it, ``after`` that of its cause."""

    item: TimelineItem
    start: int
    end: int
    parent: int | None = None
    after: int | None = None
    depth: int = 0


class Found(msgspec.Struct):
    """The spans by the position of their starts, those of which a time is unknown, and the first and last known time."""

    spans: dict[int, Known]
    unknown: int
    first: int
    last: int


def find_spans(timeline: Timeline) -> Found:
    """The spans of a timeline, in position order."""
    items = {item.position: item for item in timeline.items}
    times = [item.offset_ns for item in timeline.items if item.offset_ns is not None]
    last = max(times, default=0)
    ends = _cut_off(timeline)
    spans: dict[int, Known] = {}
    unknown = 0
    for item in timeline.items:
        if item.edge not in ("start", "whole"):
            continue
        found = _span(item, items, _until(item, ends, last))
        if found is None:
            unknown += 1
        else:
            spans[item.position] = found
    _nest(spans, items)
    first = min([*times, *(one.start for one in spans.values())], default=0)
    return Found(spans, unknown, first, max([last, *(one.end for one in spans.values())]))


def _cut_off(timeline: Timeline) -> dict[str, list[tuple[int, int]]]:
    """Where runs of each correlation went on after they were cut off: position, and the last time before it."""
    found: dict[str, list[tuple[int, int]]] = {}
    latest: dict[str, int] = {}
    for item in timeline.items:
        key = item.correlation_id
        if item.event_type in _RESUMED and key in latest:
            found.setdefault(key, []).append((item.position, latest[key]))
        if item.offset_ns is not None:
            latest[key] = max(latest.get(key, item.offset_ns), item.offset_ns)
    return found


def _until(item: TimelineItem, ends: Mapping[str, Sequence[tuple[int, int]]], last: int) -> int:
    """Up to when something without an end went on, as far as that is known."""
    later = (at for position, at in ends.get(item.correlation_id, ()) if position > item.position)
    return next(later, last)


def _span(item: TimelineItem, items: Mapping[int, TimelineItem], last: int) -> Known | None:
    at = item.offset_ns
    if at is None:
        return None
    if item.edge == "whole":
        took = believable(item.duration_ns)
        return None if took is None else Known(item, at - took, at)
    if item.partner is None:
        return Known(item, at, max(at, last))
    end = items[item.partner].offset_ns
    return None if end is None or end < at else Known(item, at, end)


def _nest(spans: Mapping[int, Known], items: Mapping[int, TimelineItem]) -> None:
    """A span is held by the one that led to it and outlasts it, else by a run of its correlation or of its cause's."""
    holders: dict[str, list[Known]] = {}
    tasks: dict[int, Known] = {}
    for span in spans.values():
        span.after = span.item.cause_position
        span.parent = _above(span, spans, items)
        if span.after is not None and span.item.span == "task":
            tasks[span.after] = span
        elif span.after is not None and span.item.span == "run" and span.item.sequence == 1:
            # A task and a child run that one event began are one inside the other.
            task = tasks.get(span.after)
            if task is not None and task.start <= span.start and span.end <= task.end:
                span.parent = task.item.position
        if span.parent is None:
            span.parent = _around(span, holders.get(span.item.correlation_id, ()), span.start)
        cause = items.get(span.after or 0)
        if span.parent is None and cause is not None:
            # It outlives what began it: the run above holds it.
            span.parent = _around(span, holders.get(cause.correlation_id, ()), span.end)
        if span.parent is not None:
            span.depth = spans[span.parent].depth + 1
        if span.item.span in HOLDERS:
            holders.setdefault(span.item.correlation_id, []).append(span)
            holders[span.item.correlation_id] = holders[span.item.correlation_id][-8:]


def _around(span: Known, holders: Sequence[Known], until: int) -> int | None:
    """The last run of these that had begun when the span began and goes on until then."""
    around = [one for one in holders if one.start <= span.start and one.end >= until]
    return around[-1].item.position if around else None


def _above(span: Known, spans: Mapping[int, Known], items: Mapping[int, TimelineItem]) -> int | None:
    """The nearest span among the causes of this one that goes on when it starts; what was recorded later is none."""
    at = span.item.cause_position
    seen = 0
    while at is not None and at < span.item.position and seen < 1_000:
        above = spans.get(at)
        if above is not None and above.start <= span.start <= above.end and above.end >= span.end:
            return at
        found = items.get(at)
        further = None if found is None else found.cause_position
        if further is not None and further >= at:
            return None
        at, seen = further, seen + 1
    return None


def children_of(spans: Mapping[int, Known]) -> dict[int | None, Sequence[Known]]:
    """The spans that each one holds, by the time of their ends."""
    below: dict[int | None, list[Known]] = {}
    for span in spans.values():
        below.setdefault(span.parent, []).append(span)
    return {key: sorted(held, key=lambda one: (one.end, one.item.position)) for key, held in below.items()}
