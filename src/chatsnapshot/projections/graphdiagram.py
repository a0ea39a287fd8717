"""A graph as a Mermaid flowchart or in the DOT language: nothing that an agent said can end its label."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chatsnapshot.events.text import one_line
from chatsnapshot.projections.graphshapes import Graph, GraphEdge, GraphNode

__all__ = ["render_dot", "render_mermaid"]

LABEL_CHARS_MAX = 60

_MERMAID_SAFE = frozenset(" .,:_-/()")
_ARROWS = {"cause": "-->", "link": "==>", "derived": "-.->", "fork": "-.->"}
_STYLES = {"cause": "solid", "link": "bold", "derived": "dashed", "fork": "dotted"}


def render_mermaid(graph: Graph) -> str:
    """The graph as a Mermaid flowchart, a box for each correlation; ends with a line feed.

    Solid arrows are recorded causes, thick ones links, dotted ones derived edges and forks. In labels every character
    but letters, digits and a few marks is written as an entity (``#34;``). Mermaid itself draws at most 500 edges
    unless its ``maxEdges`` is raised.
    """
    out = ["flowchart TD"]
    for number, (correlation, nodes) in enumerate(_groups(graph)):
        out.append(f'  subgraph c{number}["{_entities(one_line(correlation, LABEL_CHARS_MAX))}"]')
        out += [f'    n{node.position}["{_label(node, _entities)}"]' for node in nodes]
        out.append("  end")
    for edge in graph.edges:
        said = _said(edge)
        words = f"|{said}|" if said else ""
        out.append(f"  n{edge.source} {_ARROWS[edge.kind]}{words} n{edge.target}")
    for missing in graph.dangling:
        out.append(f'  m{missing.position}(["not in the ledger"]) -.-> n{missing.position}')
    return "\n".join(out) + "\n"


def render_dot(graph: Graph) -> str:
    """The graph in the DOT language of Graphviz, a cluster for each correlation; ends with a line feed.

    Labels are quoted strings in which quotes, backslashes and entities are escaped.
    """
    out = [f"digraph {_quoted(one_line(graph.correlation_id, 256))} {{", "  node [shape=box];"]
    for number, (correlation, nodes) in enumerate(_groups(graph)):
        out.append(f"  subgraph cluster_{number} {{")
        out.append(f"    label={_quoted(one_line(correlation, LABEL_CHARS_MAX))};")
        out += [f'    n{node.position} [label="{_label(node, _escaped)}"];' for node in nodes]
        out.append("  }")
    for edge in graph.edges:
        said = _said(edge)
        words = f', label="{said}"' if said else ""
        out.append(f"  n{edge.source} -> n{edge.target} [style={_STYLES[edge.kind]}{words}];")
    for missing in graph.dangling:
        out.append(f'  m{missing.position} [label="not in the ledger", style=dashed];')
        out.append(f"  m{missing.position} -> n{missing.position} [style=dashed];")
    return "\n".join([*out, "}"]) + "\n"


def _groups(graph: Graph) -> Iterator[tuple[str, list[GraphNode]]]:
    groups: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        groups.setdefault(node.correlation_id, []).append(node)
    yield from groups.items()


def _label(node: GraphNode, safe: Callable[[str], str]) -> str:
    who = f"{one_line(node.who, 20)}: " if node.who else ""
    return f"{node.position} {safe(who + one_line(node.what, LABEL_CHARS_MAX))}"


def _said(edge: GraphEdge) -> str:
    """What stands at an edge: words of ours only."""
    pieces = [edge.via if edge.kind == "derived" else edge.kind if edge.kind != "cause" else None]
    pieces.append("late" if edge.late else None)
    return " ".join(filter(None, pieces))


def _entities(text: str) -> str:
    return "".join(one if one.isalnum() or one in _MERMAID_SAFE else f"#{ord(one)};" for one in text)


def _escaped(text: str) -> str:
    # Graphviz reads entities of HTML in every label, and backslashes as its own escapes.
    text = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return text


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'
