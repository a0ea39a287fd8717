"""The ``graph`` projection: what led to what under one correlation and its children, and its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.projections.base import register
from chatsnapshot.projections.graphcycles import cycles
from chatsnapshot.projections.graphedges import derived, make_edge
from chatsnapshot.projections.graphmarks import NodeState, mark
from chatsnapshot.projections.graphshapes import (
    Branch,
    Graph,
    GraphEdge,
    GraphNode,
    GraphTask,
    Missing,
    Outside,
)
from chatsnapshot.projections.graphtasks import chains, shape_tasks, task_cycles
from chatsnapshot.projections.lineage import Link, Start, take_late
from chatsnapshot.projections.once import Once

__all__ = ["GraphProjection", "GraphState"]

Places = Mapping[str, tuple[str, int]]
"""Correlation and position of events, by id."""


class GraphState(msgspec.Struct, gc=False):
    """The events of one correlation so far, in position order."""

    correlation_id: str = ""
    cause: str | None = None
    late: str | None = None
    nodes: list[NodeState] = []


@register
class GraphProjection:
    """Key: the correlation. One node for each entry; edges are made when the graph is read."""

    name = "graph"
    version = 4
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation."""
        return entry.correlation_id

    def initial(self) -> GraphState:
        """No entry."""
        return GraphState()

    def apply(self, state: GraphState, entry: LedgerEntry) -> GraphState:
        """Append the entry's node."""
        return self.take_once(state, Once(entry))

    def take_once(self, state: GraphState, once: Once) -> GraphState:
        """As :meth:`apply`."""
        if not state.nodes:
            state.correlation_id = once.correlation_id
            state.cause = once.causation_id if once.sequence == 1 else None
        elif state.cause is not None:
            take_late(state, once)
        state.nodes.append(mark(once))
        return state

    def result(self, state: GraphState) -> Graph:
        """The graph of this correlation alone; causes elsewhere count as missing."""
        alone = {state.correlation_id: Link("root")}
        return self.compose({state.correlation_id: state}, alone, state.correlation_id)

    def start(self, state: GraphState) -> Start:
        """How this correlation began."""
        return Start(state.nodes[0].position, state.cause, state.late)

    def outward(self, states: Mapping[str, GraphState]) -> Iterable[str]:
        """Ids of causes that are not among these states."""
        inside = {node.event_id for state in states.values() for node in state.nodes}
        named: dict[str, None] = {}
        for state in states.values():
            for node in state.nodes:
                if node.cause is not None or node.links:
                    named.update((one, None) for one in _causes(node) if one not in inside)
        return named

    def compose(
        self,
        states: Mapping[str, GraphState],
        links: Mapping[str, Link],
        correlation_id: str,
        outside: Places | None = None,
    ) -> Graph:
        """One graph of a correlation and its children; ``outside`` tells where causes elsewhere stand."""
        return _Making(states, outside or {}).graph(correlation_id)


def _causes(node: NodeState) -> list[str]:
    return node.links if node.cause is None else [node.cause, *node.links]


class _Making:
    """A graph while it is being made."""

    def __init__(self, states: Mapping[str, GraphState], outside: Places) -> None:
        self.outside = outside
        self.nodes = [node for state in states.values() for node in state.nodes]
        if len(states) > 1:
            self.nodes.sort(key=lambda node: node.position)
        self.correlations = {node.position: key for key, state in states.items() for node in state.nodes}
        self.by_id = {node.event_id: node for node in self.nodes}
        self.by_position = {node.position: node for node in self.nodes}
        self.edges: dict[tuple[int, int], GraphEdge] = {}
        self.elsewhere: list[Outside] = []
        self.missing: list[Missing] = []
        self.tasks: list[GraphTask] = []
        self.task_cycles: list[tuple[str, ...]] = []
        for node in self.nodes:
            if node.cause is not None or node.links:
                self._recorded(node)
        for key, state in states.items():
            found = chains(state.nodes)
            self.tasks += shape_tasks(key, found)
            self.task_cycles += task_cycles(found)
            for source, target, via in derived(state.nodes, found):
                self._edge(source, target, "derived", via)
        self.branches = [self._branch(node, *node.forked_from) for node in self.nodes if node.forked_from]

    def _recorded(self, node: NodeState) -> None:
        for event_id in _causes(node):
            kind = "cause" if event_id == node.cause else "link"
            source = self.by_id.get(event_id)
            place = self.outside.get(event_id)
            if source is not None:
                self._edge(source, node, kind, None)
            elif place is not None:
                self.elsewhere.append(Outside(node.position, event_id, kind, *place))
            else:
                self.missing.append(Missing(node.position, event_id, kind))

    def _branch(self, node: NodeState, correlation_id: str, position: int) -> Branch:
        known = self.correlations.get(position) == correlation_id
        if known:
            self._edge(self.by_position[position], node, "fork", "forked_from")
        return Branch(node.position, self.correlations[node.position], correlation_id, position, known)

    def _edge(self, source: NodeState, target: NodeState, kind: str, via: str | None) -> None:
        pair = source.position, target.position
        # What was recorded comes first, and is not told again by an id.
        if pair not in self.edges:
            self.edges[pair] = make_edge(source, target, kind, via, self.correlations)

    def graph(self, correlation_id: str) -> Graph:
        edges = sorted(self.edges.values(), key=lambda edge: (edge.target, edge.source))
        fan_in = Counter([edge.target for edge in edges]).get
        fan_out = Counter([edge.source for edge in edges]).get
        positions = [node.position for node in self.nodes]
        return Graph(
            correlation_id=correlation_id,
            last_position=positions[-1] if positions else 0,
            nodes=tuple(
                GraphNode(
                    node.position,
                    node.sequence,
                    self.correlations[node.position],
                    node.event_id,
                    node.event_type,
                    node.at,
                    node.what,
                    node.who,
                    fan_in(node.position, 0),
                    fan_out(node.position, 0),
                    node.erased,
                )
                for node in self.nodes
            ),
            edges=tuple(edges),
            roots=tuple(one for one in positions if not fan_in(one, 0)),
            joins=tuple(one for one in positions if fan_in(one, 0) > 1),
            fan_outs=tuple(one for one in positions if fan_out(one, 0) > 1),
            outside=tuple(self.elsewhere),
            dangling=tuple(self.missing),
            cycles=self._cycles(edges),
            branches=tuple(self.branches),
            tasks=tuple(sorted(self.tasks, key=lambda task: task.first_position)),
            task_cycles=tuple(self.task_cycles),
        )

    def _cycles(self, edges: Iterable[GraphEdge]) -> tuple[tuple[int, ...], ...]:
        if all(edge.source < edge.target for edge in edges):
            return ()
        numbers = {node.position: number for number, node in enumerate(self.nodes)}
        leads: list[list[int]] = [[] for _ in self.nodes]
        for edge in edges:
            leads[numbers[edge.source]].append(numbers[edge.target])
        return tuple(tuple(self.nodes[number].position for number in group) for group in cycles(leads))
