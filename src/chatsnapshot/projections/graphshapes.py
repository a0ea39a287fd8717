"""The shapes that readers of the graph get: events, what led to them, tasks, and what is odd about them."""

from __future__ import annotations

import msgspec

__all__ = ["Branch", "Graph", "GraphEdge", "GraphNode", "GraphTask", "Missing", "Outside"]


class GraphNode(msgspec.Struct, frozen=True, gc=False):
    """One event. ``fan_in`` and ``fan_out`` count the edges of this graph that end and begin at it."""

    position: int
    sequence: int
    correlation_id: str
    event_id: str
    event_type: str
    at: str | None
    what: str
    who: str | None
    fan_in: int
    fan_out: int
    erased: bool


class GraphEdge(msgspec.Struct, frozen=True, gc=False):
    """``source`` led to ``target`` (both are positions).

    ``kind``: ``cause`` (recorded as ``causation_id``), ``link`` (recorded in ``attributes.links``), ``derived`` (both
    share an id, ``via`` names which, and no cause was recorded) or ``fork`` (``forked_from``). ``relation`` says what the
    two are to each other: ``child`` (another correlation begins or is reached), ``result``, ``answer``, ``task``,
    ``handoff``, or ``None``. ``late``: the effect was recorded before its cause.
    """

    source: int
    target: int
    kind: str
    via: str | None
    relation: str | None
    late: bool


class Outside(msgspec.Struct, frozen=True, gc=False):
    """The event at ``position`` follows from one that is in the ledger but not in this graph."""

    position: int
    event_id: str
    kind: str
    correlation_id: str
    cause_position: int


class Missing(msgspec.Struct, frozen=True, gc=False):
    """The event at ``position`` names as its cause (or link, by ``kind``) an event that is not in the ledger."""

    position: int
    event_id: str
    kind: str


class Branch(msgspec.Struct, frozen=True, gc=False):
    """The run that starts at ``position`` was forked from another; ``known``: that place is in this graph."""

    position: int
    correlation_id: str
    from_correlation_id: str
    from_position: int
    known: bool


class GraphTask(msgspec.Struct, frozen=True, gc=False):
    """One task of one correlation.

    ``status``: ``scheduled``, ``started``, ``retried``, ``completed``, ``failed`` or ``cancelled``. ``unknown`` are the
    tasks in ``depends_on`` of which nothing was seen. ``attempts`` counts its starts.
    """

    correlation_id: str
    task_id: str
    name: str | None
    status: str
    depends_on: tuple[str, ...]
    unknown: tuple[str, ...]
    parent_task_id: str | None
    attempts: int
    first_position: int
    last_position: int
    error: str | None


class Graph(msgspec.Struct, frozen=True):
    """What led to what under one correlation and its children.

    ``nodes`` are in position order, ``edges`` by target and source. ``roots``, ``joins`` and ``fan_outs`` are positions
    of nodes with no edge to them, with several to them, and with several from them. ``cycles`` are groups of positions
    that lead to themselves, ``task_cycles`` groups of task ids that wait for themselves.
    """

    correlation_id: str
    last_position: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    roots: tuple[int, ...]
    joins: tuple[int, ...]
    fan_outs: tuple[int, ...]
    outside: tuple[Outside, ...]
    dangling: tuple[Missing, ...]
    cycles: tuple[tuple[int, ...], ...]
    branches: tuple[Branch, ...]
    tasks: tuple[GraphTask, ...]
    task_cycles: tuple[tuple[str, ...], ...]
