"""GraphML: the graph of one run with its children, for Gephi, yEd, Cytoscape and networkx."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.projections.graphshapes import Graph, GraphEdge, GraphNode
from chatsnapshot.projections.views import view

__all__ = ["GraphMl"]

_NODE = {
    "position": "long", "sequence": "long", "correlation_id": "string", "event_id": "string",
    "event_type": "string", "at": "string", "what": "string", "who": "string", "erased": "boolean",
}  # fmt: skip
_EDGE = {"kind": "string", "via": "string", "relation": "string", "late": "boolean"}

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""


class GraphMl:
    """A node for each event, an edge for each cause; unknown values have no ``data`` element."""

    format = "graphml"
    what = "the graph of one run as GraphML"
    unit = "events"
    runs_only = True
    one_run = True
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """The whole graph is held in memory."""
        for run in choice.named or ():
            graph: Graph = view(choice, "graph", run, until=choice.until, children=choice.children)
            for line in _document(graph):
                out.write(line.encode() + b"\n")
            tally.written += len(graph.nodes)


def _document(graph: Graph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for owner, keys in (("node", _NODE), ("edge", _EDGE)):
        for name, kind in keys.items():
            yield f'  <key id="{owner}.{name}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>'
    yield f'  <graph id={quoteattr(_fit(graph.correlation_id))} edgedefault="directed">'
    for node in graph.nodes:
        yield f'    <node id="n{node.position}">{_data("node", _NODE, node)}</node>'
    for edge in graph.edges:
        yield f'    <edge source="n{edge.source}" target="n{edge.target}">{_data("edge", _EDGE, edge)}</edge>'
    yield "  </graph>"
    yield "</graphml>"


def _data(owner: str, keys: Mapping[str, str], of: GraphNode | GraphEdge) -> str:
    values = {name: getattr(of, name) for name in keys}
    return "".join(
        f'<data key="{owner}.{name}">{_text(value)}</data>'
        for name, value in values.items()
        if value is not None
    )


def _text(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # A carriage return is written as a reference: a reader takes a bare one for a line feed.
    return escape(_fit(str(value)), {"\r": "&#13;"})


def _fit(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
