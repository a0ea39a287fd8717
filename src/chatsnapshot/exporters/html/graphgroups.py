"""The graph of a long run: its events gathered by run and agent, in layers, with how many led to how many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from chatsnapshot.exporters.html.facts import PageFacts
from chatsnapshot.exporters.html.markup import Anchors, Html, element, isolated, joined, void
from chatsnapshot.exporters.html.runtree import every_run
from chatsnapshot.projections.graphshapes import GraphNode

__all__ = ["GROUPS_MAX", "groups_picture"]

GROUPS_MAX = 24
"""So many boxes are drawn at most."""

_WIDTH, _HEIGHT = 250, 46
_GAP_X, _GAP_Y = 22, 46
_PER_ROW = 4

Key = tuple[str, str]


class _Group(msgspec.Struct):
    """Events in one box."""

    title: str
    who: str
    first: int
    events: int = 0
    failed: int = 0
    runs: set[str] = msgspec.field(default_factory=set)


class _Gathered(NamedTuple):
    groups: dict[Key, _Group]
    edges: dict[tuple[Key, Key], int]
    how: str


def groups_picture(facts: PageFacts, failed: set[int], anchors: Anchors) -> Html:
    """Boxes and arrows; says in words how events were gathered and how many boxes were left out."""
    names = _names(facts)
    ways: Sequence[tuple[str, Callable[[GraphNode], Key]]] = (
        ("run and agent", lambda node: (node.correlation_id, node.who or "")),
        (
            "name of run and agent",
            lambda node: (names.get(node.correlation_id, "other runs"), node.who or ""),
        ),
        ("agent", lambda node: ("", node.who or "")),
    )
    gathered = _gather(facts, failed, names, *ways[0])
    for how, key in ways[1:]:
        if len(gathered.groups) <= GROUPS_MAX:
            break
        gathered = _gather(facts, failed, names, how, key)
    found = len(gathered.groups)
    largest = sorted(gathered.groups, key=lambda key: (-gathered.groups[key].events, key))[:GROUPS_MAX]
    groups = {key: group for key, group in gathered.groups.items() if key in set(largest)}
    edges = {pair: n for pair, n in gathered.edges.items() if pair[0] in groups and pair[1] in groups}
    words = (
        f"The events are gathered by {gathered.how}; a line's number says how many events led from one box "
        "into the other."
    )
    if found > len(groups):
        words += f" Of {found:,} boxes the {len(groups):,} with the most events are drawn."
    return joined([element("p", words, class_="dim small"), _picture(groups, edges, anchors)])


def _names(facts: PageFacts) -> dict[str, str]:
    found: dict[str, str] = {}
    for run in every_run(facts.runs.runs):
        if run.name:
            found.setdefault(run.correlation_id, run.name)
    return found


def _gather(
    facts: PageFacts,
    failed: set[int],
    names: dict[str, str],
    how: str,
    key: Callable[[GraphNode], Key],
) -> _Gathered:
    groups: dict[Key, _Group] = {}
    at: dict[int, Key] = {}
    for node in facts.graph.nodes:
        mine = key(node)
        group = groups.get(mine)
        if group is None:
            title = (
                names.get(node.correlation_id, node.correlation_id) if mine[0] else node.who or "nobody named"
            )
            group = groups[mine] = _Group(title, node.who or "", node.position)
        at[node.position] = mine
        group.events += 1
        group.failed += node.position in failed
        group.runs.add(node.correlation_id)
    edges: dict[tuple[Key, Key], int] = {}
    for edge in facts.graph.edges:
        pair = at[edge.source], at[edge.target]
        if pair[0] != pair[1]:
            edges[pair] = edges.get(pair, 0) + 1
    return _Gathered(groups, edges, how)


def _layers(groups: dict[Key, _Group], edges: dict[tuple[Key, Key], int]) -> dict[Key, int]:
    """How far each box is from the top: below every box that began earlier and led to it."""
    into: dict[Key, list[Key]] = {}
    for source, target in edges:
        if groups[source].first < groups[target].first:
            into.setdefault(target, []).append(source)
    layers: dict[Key, int] = {}
    for key in sorted(groups, key=lambda one: groups[one].first):
        layers[key] = max((layers[one] + 1 for one in into.get(key, ())), default=0)
    return layers


def _places(
    groups: dict[Key, _Group], edges: dict[tuple[Key, Key], int]
) -> tuple[dict[Key, tuple[int, int]], int]:
    layers = _layers(groups, edges)
    places: dict[Key, tuple[int, int]] = {}
    y = 6
    for layer in range(max(layers.values(), default=-1) + 1):
        held = sorted((key for key in groups if layers[key] == layer), key=lambda key: groups[key].first)
        for n, key in enumerate(held):
            places[key] = 6 + n % _PER_ROW * (_WIDTH + _GAP_X), y + n // _PER_ROW * (_HEIGHT + _GAP_Y)
        y += -(-len(held) // _PER_ROW) * (_HEIGHT + _GAP_Y)
    return places, y - _GAP_Y + 6


def _picture(groups: dict[Key, _Group], edges: dict[tuple[Key, Key], int], anchors: Anchors) -> Html:
    places, height = _places(groups, edges)
    width = 12 + max((x for x, _ in places.values()), default=0) + _WIDTH + 40
    drawn: list[Html] = []
    for (source, target), count in sorted(
        edges.items(), key=lambda pair: (groups[pair[0][0]].first, groups[pair[0][1]].first)
    ):
        drawn += _arrow(places[source], places[target], count)
    picture = element(
        "svg",
        element("title", "Graph of groups of events", id="graph-title"),
        element(
            "desc", "Boxes of events; arrows lead from causes to what followed from them.", id="graph-desc"
        ),
        element(
            "defs",
            element(
                "marker",
                void("path", d="M0 0 8 4 0 8z", class_="head"),
                id="arrow",
                viewBox="0 0 8 8",
                refX=7,
                refY=4,
                markerWidth=7,
                markerHeight=7,
                orient="auto",
            ),
        ),
        *drawn,
        *(_box(groups[key], places[key], anchors) for key in groups),
        role="group",
        aria_labelledby="graph-title graph-desc",
        width=width,
        height=height,
    )
    return element("div", picture, class_="picture", role="region", tabindex=0, aria_label="Graph, scrolls")


def _arrow(start: tuple[int, int], end: tuple[int, int], count: int) -> list[Html]:
    down = start[1] < end[1]
    if start[1] == end[1]:
        right = start[0] < end[0]
        x1, x2 = (start[0] + _WIDTH, end[0]) if right else (start[0], end[0] + _WIDTH)
        y = start[1] + (_HEIGHT // 2 - 8 if right else _HEIGHT // 2 + 8)
        path, at = f"M{x1} {y}H{x2}", ((x1 + x2) // 2, y - 4)
    else:
        # What leads down leaves left of the middle, what leads back right of it: the two do not lie on each other.
        shift = -30 if down else 30
        x1, x2 = start[0] + _WIDTH // 2 + shift, end[0] + _WIDTH // 2 + shift
        y1, y2 = (start[1] + _HEIGHT, end[1]) if down else (start[1], end[1] + _HEIGHT)
        middle = (y1 + y2) // 2
        path = f"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}"
        at = (x2 - 8, y2 - 10) if down else (x2 + 8, y2 + 16)
    anchor = "middle" if start[1] == end[1] else "end" if down else "start"
    return [
        void("path", d=path, class_="edge", marker_end="url(#arrow)"),
        element("text", f"{count:,}", x=at[0], y=at[1], text_anchor=anchor, class_="dim halo"),
    ]


def _box(group: _Group, place: tuple[int, int], anchors: Anchors) -> Html:
    x, y = place
    facts = [f"{group.events:,} event{'' if group.events == 1 else 's'}"]
    if len(group.runs) > 1:
        facts.append(f"{len(group.runs):,} runs")
    if group.failed:
        facts.append(f"{group.failed:,} failed")
    who = isolated(group.who, 18) if group.who and group.who != group.title else ""
    second = (f"{who}, " if who else "") + ", ".join(facts)
    name = isolated(group.title, 30)
    parts = [
        void(
            "rect",
            x=x,
            y=y,
            width=_WIDTH,
            height=_HEIGHT,
            rx=6,
            class_="node failed" if group.failed else "node",
        ),
        element("text", name, x=x + 10, y=y + 19),
        element("text", second, x=x + 10, y=y + 37, class_="bad" if group.failed else "dim"),
    ]
    href = anchors.href(group.first)
    return element("a", *parts, href=href) if href else element("g", *parts)
