"""Orders units by how close they stand to one event: what led to it, then what has the same causes, then the newest."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from chatsnapshot.projections.context.gathering import Gathered

__all__ = ["by_closeness", "by_rank"]

_CAUSE, _SIBLING, _RECENT = 0, 1, 2
_WHY = {_CAUSE: "cause", _SIBLING: "sibling", _RECENT: "recent"}


def by_closeness(found: Gathered, focus: int) -> list[tuple[int, str]]:
    """The numbers of the units, closest first, each with why: ``cause``, ``sibling`` or ``recent``.

    From the event at ``focus`` causes and links are walked upwards, the nearest first. What has a cause among those (the
    event's own effects too) comes next, by the distance of that cause; then all others, the nearest position first.
    """
    above = _ancestors(found, focus)
    beside: dict[int, int] = {}
    for position, causes in found.causes.items():
        distances = [above[at] for cause in causes if (at := found.places.get(cause)) in above]
        if distances and position not in above:
            beside[position] = min(distances)
    ordered = []
    for number, unit in enumerate(found.units):
        kind, distance = min(
            (_CAUSE, above[at]) if at in above else (_SIBLING, beside[at]) if at in beside else (_RECENT, 0)
            for at in unit.positions
        )
        near = min(abs(focus - at) for at in unit.positions)
        ordered.append((kind, distance, near, -number))
    ordered.sort()
    return [(-number, _WHY[kind]) for kind, _, _, number in ordered]


def _ancestors(found: Gathered, focus: int) -> dict[int, int]:
    """How many steps each event is above the focus; the focus itself 0. Cycles end where they come back."""
    distance = {focus: 0}
    waiting = deque([focus])
    while waiting:
        position = waiting.popleft()
        for cause in found.causes.get(position, ()):
            at = found.places.get(cause)
            if at is not None and at not in distance:
                distance[at] = distance[position] + 1
                waiting.append(at)
    return distance


def by_rank(found: Gathered, ranked: Sequence[int]) -> list[tuple[int, str]]:
    """The numbers of the units in the order in which a search found them."""
    rank = {position: number for number, position in reversed(list(enumerate(ranked)))}
    best = [
        (min(rank[at] for at in unit.positions if at in rank), number)
        for number, unit in enumerate(found.units)
        if any(at in rank for at in unit.positions)
    ]
    return [(number, "search") for _, number in sorted(best)]
