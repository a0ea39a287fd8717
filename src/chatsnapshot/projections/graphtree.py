"""Lays a graph out as an indented tree whose depth stays small, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chatsnapshot.projections.graphshapes import Graph, GraphEdge, GraphNode

__all__ = ["Row", "rows"]

_FIRST = ("cause", "derived", "link", "fork")
"""Of several edges to a node, the kind of the one on which it hangs."""


class Row(msgspec.Struct, frozen=True):
    """One line of the tree.

    ``edge`` is the edge on which the node hangs (``None``: it stands at the top); ``others`` are its further edges.
    A node stands at the ``depth`` of the one above it when its line goes on with it; ``branch`` says that a line of its
    own begins, one deeper.
    """

    node: GraphNode
    depth: int
    branch: bool
    edge: GraphEdge | None
    others: tuple[GraphEdge, ...]


def rows(graph: Graph) -> list[Row]:
    """Every node once, each below the event that led to it: its cause, else what was derived, linked or forked.

    Where several follow from one event, the one of its own correlation with the most below it goes on at the same depth,
    after the others, which are branches in position order. So the depth stays near the number of nested runs.
    """
    into: dict[int, list[GraphEdge]] = {}
    for edge in graph.edges:
        into.setdefault(edge.target, []).append(edge)
    hangs = {
        target: min(edges, key=lambda edge: (_FIRST.index(edge.kind), edge.source))
        for target, edges in into.items()
    }
    for top in _tops_of_rings(graph, hangs):
        del hangs[top]
    below: dict[int, list[int]] = {}
    for node in graph.nodes:
        if node.position in hangs:
            below.setdefault(hangs[node.position].source, []).append(node.position)
    tops = [node.position for node in graph.nodes if node.position not in hangs]
    sizes = _sizes(tops, below)
    nodes = {node.position: node for node in graph.nodes}
    found: list[Row] = []
    waiting = [(top, 0, False) for top in reversed(tops)]
    while waiting:
        position, depth, branch = waiting.pop()
        above = hangs.get(position)
        others = tuple(one for one in into.get(position, ()) if one is not above)
        found.append(Row(nodes[position], depth, branch, above, others))
        following = below.get(position)
        if following:
            own = nodes[position].correlation_id
            line = max((nodes[one].correlation_id == own, sizes[one], one) for one in following)[2]
            waiting.append((line, depth, False))
            waiting += [(one, depth + 1, True) for one in reversed(following) if one != line]
    return found


def _tops_of_rings(graph: Graph, hangs: Mapping[int, GraphEdge]) -> list[int]:
    """Of events that hang under themselves the earliest, which then stands at the top."""
    settled: set[int] = set()
    tops: list[int] = []
    for node in graph.nodes:
        path: dict[int, None] = {}
        at: int | None = node.position
        while at is not None and at not in settled and at not in path:
            path[at] = None
            at = hangs[at].source if at in hangs else None
        if at is not None and at in path:
            steps = list(path)
            tops.append(min(steps[steps.index(at) :]))
        settled.update(path)
    return tops


def _sizes(tops: list[int], below: Mapping[int, list[int]]) -> dict[int, int]:
    """How many nodes hang under each, itself included."""
    order = list(tops)
    for position in order:
        order.extend(below.get(position, ()))
    sizes: dict[int, int] = {}
    for position in reversed(order):
        sizes[position] = 1 + sum(sizes[one] for one in below.get(position, ()))
    return sizes
