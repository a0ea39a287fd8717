"""Mermaid and DOT: the graph of one run with its children, as a diagram."""

from __future__ import annotations

from collections.abc import Callable

from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.projections.graphdiagram import render_dot, render_mermaid
from chatsnapshot.projections.graphshapes import Graph
from chatsnapshot.projections.views import view

__all__ = ["Dot", "Mermaid"]


class Mermaid:
    """A Mermaid flowchart."""

    format = "mermaid"
    what = "the graph of one run as a Mermaid flowchart"
    unit = "events"
    runs_only = True
    one_run = True
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """The whole graph is held in memory."""
        _draw(choice, out, tally, render_mermaid)


class Dot:
    """A graph in the DOT language of Graphviz."""

    format = "dot"
    what = "the graph of one run in the DOT language of Graphviz"
    unit = "events"
    runs_only = True
    one_run = True
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """The whole graph is held in memory."""
        _draw(choice, out, tally, render_dot)


def _draw(choice: Choice, out: Sink, tally: Tally, render: Callable[[Graph], str]) -> None:
    for run in choice.named or ():
        graph: Graph = view(choice, "graph", run, until=choice.until, children=choice.children)
        out.write(render(graph).encode())
        tally.written += len(graph.nodes)
