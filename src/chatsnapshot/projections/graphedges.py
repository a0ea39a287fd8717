"""The edges of a graph: recorded causes and links, and what shared ids tell where no cause was recorded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from chatsnapshot.projections.graphmarks import Mark, NodeState
from chatsnapshot.projections.graphshapes import GraphEdge
from chatsnapshot.projections.graphtasks import Chains, task_pairs

__all__ = ["derived", "make_edge"]

_RESULTS = {"execution.tool_result": "execution.tool_call", "integration.response": "integration.call"}
_ANSWERS = {"execution.human_input_received": "execution.human_input_requested"}

Index = dict[tuple[str, int, str], list[NodeState]]
"""Who has a part in a shared id, in position order."""


def derived(nodes: Sequence[NodeState], tasks: Chains) -> Iterator[tuple[NodeState, NodeState, str]]:
    """What follows from what inside one correlation by shared ids, and by which; only where no cause was recorded.

    An answer follows from the part before it (a result from its call, else from the message that asked for it). An id
    that is used again goes with the last one before, as on the timeline; an answer that comes first with the first after.
    """
    index: Index = {}
    for node in nodes:
        for one in node.marks:
            index.setdefault((one.via, one.part, one.id), []).append(node)
    for node in nodes:
        if node.cause is not None or not node.marks:
            continue
        found: dict[str, str] = {}
        for one in node.marks:
            before = _before(index, one, node)
            if before is not None and before.event_id not in found:
                found[before.event_id] = one.via
                yield before, node, one.via
    yield from task_pairs(tasks)


def _before(index: Index, one: Mark, node: NodeState) -> NodeState | None:
    for part in range(one.part - 1, -1, -1):
        there = index.get((one.via, part, one.id))
        if there:
            place = bisect_right(there, node.position, key=lambda other: other.position)
            found = there[max(place - 1, 0)]
            if found is not node:
                return found
    return None


def make_edge(
    source: NodeState, target: NodeState, kind: str, via: str | None, correlations: Mapping[int, str]
) -> GraphEdge:
    """The edge as readers get it; ``correlations`` gives the correlation of a position."""
    apart = correlations[source.position] != correlations[target.position]
    return GraphEdge(
        source.position,
        target.position,
        kind,
        via,
        "child" if apart and kind == "cause" else _relation(source, target),
        source.position > target.position,
    )


def _relation(source: NodeState, target: NodeState) -> str | None:
    if _RESULTS.get(target.event_type) == source.event_type:
        return "result"
    if _ANSWERS.get(target.event_type) == source.event_type:
        return "answer"
    if source.task is not None and target.task is not None:
        return "task"
    return "handoff" if source.event_type == "execution.handoff" else None
