"""Which correlation hangs under which: a child's first event has its cause in another correlation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

__all__ = ["Link", "Start", "Where", "children_of", "depths", "links", "upwards"]

Where = Callable[[str], "tuple[str, int] | None"]
"""Gives the correlation and position of an event id, ``None`` for one that is not there."""


class Start(msgspec.Struct, frozen=True):
    """How a correlation began: its first position that was seen, and its first event's cause."""

    position: int
    cause: str | None


class Link(msgspec.Struct, frozen=True):
    """How a correlation hangs: ``kind`` is ``root``, ``child``, ``dangling`` or ``cycle``.

    ``parent`` is set for a child whose parent is among what was asked for; ``position`` is where its cause stands.
    """

    kind: str
    parent: str | None = None
    position: int | None = None


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
            found[top] = Link("cycle", None, found[top].position)
        settled.update(path)
    return found


def _link(correlation: str, start: Start, starts: Mapping[str, Start], where: Where) -> Link:
    if start.cause is None:
        return Link("root")
    place = where(start.cause)
    if place is None:
        return Link("dangling")
    parent, position = place
    if parent == correlation:
        return Link("root")
    return Link("child", parent if parent in starts else None, position)


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
