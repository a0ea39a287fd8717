"""The ``critical_path`` projection: what the end of a run waited for, and when nothing or several things went on."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.pathshapes import CriticalPath, IdleGap, PathStep, Span
from chatsnapshot.projections.shapes import Timeline
from chatsnapshot.projections.spans import HOLDERS, Found, Known, children_of, find_spans
from chatsnapshot.projections.timeline import TimelineProjection, TimelineState

__all__ = ["IDLE_NS_MIN", "CriticalPathProjection", "critical_path"]

IDLE_NS_MIN = 1_000_000_000
"""A gap is told from one second on."""

_TIMELINE = TimelineProjection()


@register
class CriticalPathProjection:
    """Key: the correlation. Its state is that of ``timeline``, which it reads otherwise."""

    name = "critical_path"
    version = 100 * TimelineProjection.version + 1
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation."""
        return _TIMELINE.key(entry)

    def initial(self) -> TimelineState:
        """No entry."""
        return _TIMELINE.initial()

    def apply(self, state: TimelineState, entry: LedgerEntry) -> TimelineState:
        """Append the entry to the timeline."""
        return _TIMELINE.apply(state, entry)

    def take_once(self, state: TimelineState, once: Once) -> TimelineState:
        """As :meth:`apply`."""
        return _TIMELINE.take_once(state, once)

    def result(self, state: TimelineState) -> CriticalPath:
        """The critical path of this correlation alone."""
        return critical_path(_TIMELINE.result(state))

    def start(self, state: TimelineState) -> Start:
        """How this correlation began."""
        return _TIMELINE.start(state)

    def compose(
        self, states: Mapping[str, TimelineState], links: Mapping[str, Link], correlation_id: str
    ) -> CriticalPath:
        """The critical path through a correlation and its children."""
        return critical_path(_TIMELINE.compose(states, links, correlation_id))


def critical_path(timeline: Timeline) -> CriticalPath:
    """The critical path of a timeline.

    From the end backwards: inside a span the path goes to what caused the step after it, where that is a span that had
    ended, else to the span that ended last before; then on from that one's start. What a span on the path holds is
    followed in the same way; time that nothing inside accounts for is the span's own.
    """
    found = find_spans(timeline)
    steps = _steps(found)
    on_path = _with_holders(found.spans, {step.position for step in steps})
    work = [one for one in found.spans.values() if one.item.span not in (*HOLDERS, "question")]
    asked = [one for one in found.spans.values() if one.item.span == "question"]
    holding = {one.parent for one in work}
    parallel, at_once = _parallel([one for one in work if one.item.position not in holding])
    occupied = _union([*work, *asked])
    return CriticalPath(
        correlation_id=timeline.correlation_id,
        last_position=timeline.last_position,
        started_at=timeline.started_at,
        duration_ns=found.last - found.first,
        busy_ns=_length(_union(work)),
        parallel_ns=parallel,
        at_once=at_once,
        waiting_ns=_length(_union(asked)),
        idle_ns=found.last - found.first - _length(occupied),
        open_spans=sum(one.item.open for one in found.spans.values()),
        unknown_spans=found.unknown,
        steps=tuple(steps),
        gaps=tuple(_gaps(found, [*work, *asked], occupied)),
        spans=tuple(
            Span(
                one.item.position,
                one.item.partner,
                one.item.correlation_id,
                one.item.span or "",
                one.item.what,
                one.item.who,
                one.start,
                one.end,
                one.depth,
                one.item.open,
                one.item.failed,
                one.item.position in on_path,
            )
            for one in found.spans.values()
        ),
    )


def _steps(found: Found) -> list[PathStep]:
    below = children_of(found.spans)
    # The item that ends a span leads on to what it caused.
    ends = {
        one.item.position if one.item.partner is None else one.item.partner: one
        for one in found.spans.values()
        if not one.item.open
    }
    steps: list[PathStep] = []
    waiting: list[tuple[Known | None, int, int]] = [(None, found.first, found.last)]
    while waiting:
        holder, first, last = waiting.pop()
        held = below.get(None if holder is None else holder.item.position, ())
        chain = _chain(held, first, last, ends)
        at = last
        for one in chain:
            if one.end < at:
                steps.append(_step(holder, one.end, at, own=True))
            if one.item.position in below:
                waiting.append((one, one.start, one.end))
            else:
                steps.append(_step(one, one.start, one.end, own=False))
            at = one.start
        if first < at or (holder is not None and not chain):
            steps.append(_step(holder, first, at, own=True))
    return sorted(steps, key=lambda step: (step.from_ns, step.to_ns, step.position or 0))


def _chain(held: Sequence[Known], first: int, last: int, ends: Mapping[int, Known]) -> list[Known]:
    """The spans that the end of a holder waited for, the last one first; none reaches out of the holder's time."""
    inside = [one for one in held if first <= one.start and one.end <= last]
    times = [one.end for one in inside]
    chain: list[Known] = []
    at, taken, upper = last, set[int](), len(inside)
    while True:
        cause = chain[-1].after if chain else None
        caused = None if cause is None else ends.get(cause)
        if (
            caused is not None
            and caused.parent == chain[-1].parent
            and first <= caused.start <= caused.end <= at
        ):
            one = caused
        else:
            upper = min(upper, bisect_right(times, at))
            while upper and inside[upper - 1].item.position in taken:
                upper -= 1
            if not upper:
                return chain
            one = inside[upper - 1]
        if one.item.position in taken:
            return chain
        taken.add(one.item.position)
        chain.append(one)
        at = one.start


def _step(span: Known | None, first: int, last: int, *, own: bool) -> PathStep:
    if span is None:
        return PathStep("outside", "", None, first, last, last - first, own)
    item = span.item
    return PathStep(item.span or "", item.what, item.position, first, last, last - first, own)


def _with_holders(spans: Mapping[int, Known], positions: Iterable[int | None]) -> set[int]:
    found: set[int] = set()
    for position in positions:
        at = position
        while at is not None and at not in found:
            found.add(at)
            at = spans[at].parent
    return found


def _union(spans: Iterable[Known]) -> list[tuple[int, int]]:
    """The stretches of time that the spans cover, in order, without overlaps."""
    found: list[tuple[int, int]] = []
    for start, end in sorted((one.start, one.end) for one in spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _length(stretches: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in stretches)


def _parallel(spans: Iterable[Known]) -> tuple[int, int]:
    """How long at least two of the spans went on, and how many did at most."""
    edges = sorted(edge for one in spans if one.end > one.start for edge in ((one.start, 1), (one.end, -1)))
    total = now = most = before = 0
    for at, step in edges:
        total += at - before if now > 1 else 0
        now, before = now + step, at
        most = max(most, now)
    return total, most


def _gaps(found: Found, spans: Sequence[Known], occupied: Sequence[tuple[int, int]]) -> Iterable[IdleGap]:
    ended = {one.end: one.item.partner or one.item.position for one in spans}
    started = {one.start: one.item.position for one in reversed(spans)}
    at = found.first
    for start, end in [*occupied, (found.last, found.last)]:
        if start - at >= IDLE_NS_MIN:
            yield IdleGap(at, start, start - at, ended.get(at), started.get(start))
        at = max(at, end)
