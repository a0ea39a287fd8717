"""A graph as an indented tree with its joins marked, and its tasks as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from chatsnapshot.cli.entries import POSITION_COLUMNS
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Styled, Terminal, Text, cyan, dim, green, red, yellow
from chatsnapshot.cli.width import cut
from chatsnapshot.cli.wording import count

if TYPE_CHECKING:
    from chatsnapshot.projections.graphshapes import Graph, GraphTask
    from chatsnapshot.projections.graphtree import Row

__all__ = ["graph_table"]

LISTED = 12
"""Positions that a note names; of more it tells how many."""

TEXT_COLUMNS = 32
"""Columns that the tree leaves to what is told, however deep it is."""

_STYLES = {"completed": green, "failed": red, "cancelled": yellow}

_TASKS = (
    Column("TASK", gives=2),
    Column("NAME", gives=1, spare=1),
    Column("STATUS", gives=1),
    Column("WAITS FOR", gives=1, least=16),
    Column("PART OF", gives=1, spare=1),
    Column("POSITIONS"),
)


def graph_table(out: Terminal, graph: Graph) -> None:
    """Write the tree, then the tasks where there are any, then what is odd."""
    from chatsnapshot.projections.graphtree import rows

    kinds = Counter(edge.kind for edge in graph.edges)
    told = [count(len(graph.nodes), "event"), count(len(graph.edges), "edge")]
    told += [count(kinds["link"], "link")] if kinds["link"] else []
    told += [f"{kinds['derived']:,} derived"] if kinds["derived"] else []
    told += [count(len(graph.joins), "join")] if graph.joins else []
    out.line(dim(", ".join(told)))
    facts = _facts(graph)
    where = {node.position: node.correlation_id for node in graph.nodes}
    for row in rows(graph):
        _line(out, row, [*_notes(row, where, graph.correlation_id), *facts.get(row.node.position, ())])
    if graph.tasks:
        out.line()
        table(out, _TASKS, [_task(out, task) for task in graph.tasks])
    for group in graph.cycles:
        out.line(yellow(f"cycle: {_positions(group)} lead to themselves"))
    for names in graph.task_cycles:
        out.line(yellow("cycle: "), out.one_line(", ".join(names[:LISTED])), yellow(" wait for themselves"))


def _stem(out: Terminal, row: Row) -> tuple[str, str]:
    """What stands before a node, and before the notes under it; of a depth that leaves no room for text, its number."""
    bar, tee = ("│ ", "├ ") if out.unicode else ("| ", "|-")
    deepest = max((out.width - POSITION_COLUMNS - TEXT_COLUMNS) // 2, 2)
    if row.depth > deepest:
        stem = f"{bar}{row.depth}{bar}"
        return stem, stem
    return bar * (row.depth - 1) + tee if row.branch else bar * row.depth, bar * row.depth


def _line(out: Terminal, row: Row, notes: Sequence[Text]) -> None:
    first, stem = _stem(out, row)
    node = row.node
    who = f"{cut(out.one_line(node.who), 20, out.mark)}  " if node.who else ""
    room = out.width - POSITION_COLUMNS - 2 - out.measure(first) - out.measure(who)
    what = cut(out.one_line(node.what), max(room, 8), out.mark)
    gutter = f"{node.position:>{POSITION_COLUMNS}}  "
    out.line(gutter, dim(first), cyan(who), dim(what) if node.erased else what)
    for note in notes:
        text, sgr = note if isinstance(note, Styled) else (note, "2")
        blank = " " * (POSITION_COLUMNS + 2)
        shown = cut(out.one_line(text), max(out.width - len(blank) - out.measure(stem) - 2, 8), out.mark)
        out.line(blank, dim(stem), "  ", Styled(shown, sgr))


def _notes(row: Row, where: Mapping[int, str], asked: str) -> Iterator[Text]:
    """What the place in the tree does not say."""
    edge = row.edge
    above = where[edge.source] if edge is not None else asked
    if row.node.correlation_id != above:
        yield f"in {row.node.correlation_id}"
    if edge is not None and edge.kind == "derived":
        yield f"after {edge.source} by {edge.via}"
    elif edge is not None and edge.kind != "cause":
        yield f"after {edge.source} by {edge.kind}"
    if edge is not None and edge.late:
        yield yellow(f"recorded before what led to it ({edge.source})")
    if row.others:
        named = [
            f"{one.source} ({one.via or one.kind}{', late' if one.late else ''})"
            for one in row.others[:LISTED]
        ]
        more = f" and {len(row.others) - LISTED:,} more" if len(row.others) > LISTED else ""
        yield cyan(f"joins {', '.join(named)}{more}")


def _facts(graph: Graph) -> dict[int, list[Text]]:
    """What is to be said about single positions."""
    found: dict[int, list[Text]] = {}
    for one in graph.outside:
        told = f"follows from {one.cause_position} in {one.correlation_id}"
        found.setdefault(one.position, []).append(told)
    for lost in graph.dangling:
        found.setdefault(lost.position, []).append(
            yellow(f"its {lost.kind} {lost.event_id} is not in the ledger")
        )
    for branch in graph.branches:
        told = f"forked from {branch.from_correlation_id} after {branch.from_position}"
        found.setdefault(branch.position, []).append(told)
    return found


def _positions(group: Sequence[int]) -> str:
    more = f" and {len(group) - LISTED:,} more" if len(group) > LISTED else ""
    return ", ".join(map(str, group[:LISTED])) + more


def _task(out: Terminal, task: GraphTask) -> Sequence[Text]:
    waits = [f"{name} (unknown)" if name in task.unknown else name for name in task.depends_on]
    style = _STYLES.get(task.status, dim)
    status = task.status if task.attempts < 2 else f"{task.status}, try {task.attempts}"
    return (
        out.one_line(task.task_id),
        out.one_line(task.name if task.name and task.name != task.task_id else ""),
        style(status),
        out.one_line(", ".join(waits)),
        out.one_line(task.parent_task_id or ""),
        "-".join(map(str, sorted({task.first_position, task.last_position}))),
    )
