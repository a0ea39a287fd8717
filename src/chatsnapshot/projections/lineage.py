"""Which correlation hangs under which: a child's first event has its cause in another correlation.

Spans of other systems come from the inside out: the first event of such a child is caused by the start of its own run,
which comes later. Then that start's cause tells. Stores find children from above by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from chatsnapshot.projections.once import Once
from chatsnapshot.stores.hanging import RUN_STARTED

__all__ = [
    "Begun",
    "Link",
    "Start",
    "Where",
    "children_of",
    "depths",
    "hangs_by",
    "links",
    "take_late",
    "upwards",
]

Where = Callable[[str], "tuple[str, int] | None"]
"""Gives the correlation and position of an event id, ``None`` for one that is not there."""


class Start(msgspec.Struct, frozen=True):
    """How a correlation began: its first position that was seen, and its first event's cause.

    ``late`` is the cause of the first ``execution.run_started`` after that event.
    """

    position: int
    cause: str | None
    late: str | None = None


class Begun(Protocol):
    """A state that keeps how its correlation began."""

    cause: str | None
    late: str | None


def take_late(state: Begun, once: Once) -> None:
    """Keep where a correlation hangs whose first event had a cause, if this entry tells and no other has."""
    if state.late is None and once.event_type == RUN_STARTED:
        state.late = once.causation_id


class Link(msgspec.Struct, frozen=True):
    """How a correlation hangs: ``kind`` is ``root``, ``child``, ``dangling`` or ``cycle``.

    ``parent`` is set for a child whose parent is among what was asked for; ``position`` is where its cause stands, and
    ``cause`` the event.
    """

    kind: str
    parent: str | None = None
    position: int | None = None
    cause: str | None = None


def links(starts: Mapping[str, Start], where: Where) -> dict[str, Link]:
    """The link of each correlation. Of correlations that hang under themselves the earliest becomes a root."""
    found = {correlation: _link(correlation, start, starts, where) for correlation, start in starts.items()}
    settled: set[str] = set()
    for correlation in found:
        path: list[str] = []
        at: str | None = correlation
        while at is not None and at not in settled and at not in path:
            path.append(at)
            at = found[at].parent
        if at is not None and at not in settled:
            ring = path[path.index(at) :]
            top = min(ring, key=lambda one: starts[one].position)
            found[top] = Link("cycle", None, found[top].position, found[top].cause)
        settled.update(path)
    return found


def _link(correlation: str, start: Start, starts: Mapping[str, Start], where: Where) -> Link:
    if start.cause is None:
        return Link("root")
    cause, place = hangs_by(correlation, start, where)
    if place is None:
        return Link("dangling", cause=cause)
    parent, position = place
    if parent == correlation:
        return Link("root", cause=cause)
    return Link("child", parent if parent in starts else None, position, cause)


def hangs_by(correlation: str, start: Start, where: Where) -> tuple[str | None, tuple[str, int] | None]:
    """The event that tells where a correlation hangs, and the place of that event; ``None`` where it is not there."""
    place = None if start.cause is None else where(start.cause)
    if start.late is not None and place is not None and place[0] == correlation:
        return start.late, where(start.late)
    return start.cause, place


def children_of(found: Mapping[str, Link]) -> dict[str, list[str]]:
    """The children of each correlation that has any, in the order of their causes."""
    below: dict[str, list[str]] = {}
    for correlation, link in found.items():
        if link.parent is not None:
            below.setdefault(link.parent, []).append(correlation)
    for children in below.values():
        children.sort(key=lambda one: (found[one].position or 0, one))
    return below


def depths(found: Mapping[str, Link]) -> dict[str, int]:
    """How deep each correlation stands: 0 for one without a parent here."""
    below = children_of(found)
    depth = {correlation: 0 for correlation, link in found.items() if link.parent is None}
    level = list(depth)
    while level:
        level = [child for parent in level for child in below.get(parent, ())]
        depth.update((child, depth[found[child].parent or ""] + 1) for child in level)
    return depth


def upwards(found: Mapping[str, Link]) -> list[str]:
    """All correlations, each after those below it."""
    depth = depths(found)
    return sorted(depth, key=lambda one: -depth[one])
