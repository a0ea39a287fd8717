"""The time axis of a waterfall: where a moment lies, with long quiet stretches cut short, and ticks in human units."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from chatsnapshot.projections.spans import HOLDERS, Known

__all__ = ["Quiet", "Scale", "scale_of", "tick_text"]

CUTS_MAX = 6
CUT_FROM = 0.12
"""A quiet stretch is cut when it is longer than this share of what is drawn, the longest first …"""
CUT_WIDTH = 7.0
"""… and then takes this many hundredths of the width."""

_US, _MS, _S, _MIN, _H, _D = 10**3, 10**6, 10**9, 60 * 10**9, 3600 * 10**9, 86400 * 10**9
_STEPS = [
    *(n * unit for unit in (_US, 10 * _US, 100 * _US, _MS, 10 * _MS, 100 * _MS) for n in (1, 2, 5)),
    *(n * _S for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MIN for n in (1, 2, 5, 10, 15, 30)),
    *(n * _H for n in (1, 2, 3, 6, 12)),
    *(n * _D for n in (1, 2, 7, 14, 30, 90, 365, 1000, 10_000, 100_000, 1_000_000)),
]


class Quiet(msgspec.Struct, frozen=True):
    """A stretch in which nothing was at work; ``waiting``: a question to a person was open in it."""

    from_ns: int
    to_ns: int
    waiting: bool


class Scale(msgspec.Struct, frozen=True):
    """Places on the axis in hundredths of its width. ``cuts`` are stretches that are drawn shorter than they were."""

    times: list[int]
    places: list[float]
    cuts: list[Quiet]

    def at(self, ns: int) -> float:
        """Where a moment lies."""
        n = min(max(bisect_right(self.times, ns) - 1, 0), len(self.times) - 2)
        start, end = self.times[n], self.times[n + 1]
        share = (ns - start) / (end - start) if end > start else 0.0
        return self.places[n] + min(max(share, 0.0), 1.0) * (self.places[n + 1] - self.places[n])

    def ticks(self) -> list[int]:
        """Round moments to mark, about five, none inside a cut."""
        first, last = self.times[0], self.times[-1]
        drawn = (last - first) - sum(cut.to_ns - cut.from_ns for cut in self.cuts)
        step = next((one for one in _STEPS if drawn / one <= 5), _STEPS[-1])
        found: list[int] = []
        for start, end in self._segments():
            at = -(-start // step) * step
            found += range(at, end + 1, step)
        kept: list[int] = []
        for at in found:
            if not kept or self.at(at) - self.at(kept[-1]) >= 9:
                kept.append(at)
        return kept

    def _segments(self) -> Iterable[tuple[int, int]]:
        at = self.times[0]
        for cut in self.cuts:
            yield at, cut.from_ns
            at = cut.to_ns
        yield at, self.times[-1]


def scale_of(spans: Iterable[Known], first_ns: int, last_ns: int) -> Scale:
    """The axis from the first known time to the last."""
    held = list(spans)
    work = _union(one for one in held if one.item.span not in (*HOLDERS, "question"))
    asked = _union(one for one in held if one.item.span == "question")
    drawn = max(last_ns - first_ns, 1)
    cuts: list[Quiet] = []
    for one in sorted(_quiet(work, asked, first_ns, last_ns), key=lambda one: one.from_ns - one.to_ns):
        length = one.to_ns - one.from_ns
        if len(cuts) == CUTS_MAX or length <= CUT_FROM * drawn or length == drawn:
            break
        # Of what is left a shorter stretch may take a large share in its turn.
        cuts.append(one)
        drawn -= length
    cuts.sort(key=lambda one: one.from_ns)
    width = 100.0 - CUT_WIDTH * len(cuts)
    times, places = [first_ns], [0.0]
    for cut in cuts:
        times += [cut.from_ns, cut.to_ns]
        at = places[-1] + width * (cut.from_ns - times[-3]) / drawn
        places += [at, at + CUT_WIDTH]
    times.append(max(last_ns, first_ns + 1))
    places.append(100.0)
    return Scale(times, places, cuts)


def _union(spans: Iterable[Known]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted((one.start, one.end) for one in spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _quiet(
    work: Sequence[tuple[int, int]], asked: Sequence[tuple[int, int]], first: int, last: int
) -> Iterable[Quiet]:
    """Stretches without work, parted where a question to a person begins or ends."""
    at = first
    for start, end in [*work, (last, last)]:
        if start > at:
            edges = sorted({at, start, *(edge for one in asked for edge in one if at < edge < start)})
            for here, there in pairwise(edges):
                waiting = any(one[0] <= here and there <= one[1] for one in asked)
                yield Quiet(here, there, waiting)
        at = max(at, end)


def tick_text(ns: int) -> str:
    """A round moment after the start: ``0``, ``500 ms``, ``2 s``, ``1 min``, ``1 h 30 min``, ``2 d``."""
    if ns < 0:
        return "-" + tick_text(-ns)
    if ns == 0:
        return "0"
    if ns < _MS:
        return f"{ns / _US:g} µs"
    if ns < _S:
        return f"{ns / _MS:g} ms"
    if ns < _MIN:
        return f"{ns / _S:g} s"
    parts = ((ns // _D, "d"), (ns % _D // _H, "h"), (ns % _H // _MIN, "min"), (ns % _MIN // _S, "s"))
    return " ".join(f"{number:,} {unit}" for number, unit in parts if number)
