"""Finds what leads to itself: strongly connected components, in linear time and without recursion (Tarjan, 1972)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["cycles"]


def cycles(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """The groups of nodes that reach each other, and nodes that lead to themselves; each sorted, by their first.

    ``edges[n]`` are the nodes that node ``n`` leads to.
    """
    order: list[int] = [0] * len(edges)
    low: list[int] = [0] * len(edges)
    open_nodes: list[int] = []
    is_open = [False] * len(edges)
    found: list[list[int]] = []
    count = 0
    for root in range(len(edges)):
        if order[root]:
            continue
        path: list[tuple[int, int]] = [(root, 0)]
        while path:
            node, place = path.pop()
            if place == 0:
                count += 1
                order[node] = low[node] = count
                open_nodes.append(node)
                is_open[node] = True
            elif is_open[edges[node][place - 1]]:
                low[node] = min(low[node], low[edges[node][place - 1]])
            if place < len(edges[node]):
                path.append((node, place + 1))
                if not order[edges[node][place]]:
                    path.append((edges[node][place], 0))
                continue
            if low[node] == order[node]:
                group = _closed(node, open_nodes, is_open)
                if len(group) > 1 or node in edges[node]:
                    found.append(sorted(group))
    return sorted(found)


def _closed(node: int, open_nodes: list[int], is_open: list[bool]) -> list[int]:
    group: list[int] = []
    while not group or group[-1] != node:
        group.append(open_nodes.pop())
        is_open[group[-1]] = False
    return group
