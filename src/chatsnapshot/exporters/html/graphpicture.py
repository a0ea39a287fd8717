"""The graph of a short run: one event a line in the order of the ledger, a lane for each run, a curve for each cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chatsnapshot.exporters.html.eventlist import failed_here
from chatsnapshot.exporters.html.facts import PageFacts
from chatsnapshot.exporters.html.graphgroups import groups_picture
from chatsnapshot.exporters.html.markup import Anchors, Html, element, isolated, joined, void
from chatsnapshot.projections.graphshapes import Graph, GraphEdge, GraphNode

__all__ = ["NODES_MAX", "graph_picture"]

NODES_MAX = 120
"""Up to so many events each one is drawn; of more, groups are."""

_ROW = 22
_LANE = 20
_LEFT = 34
_TOP = 8


def graph_picture(facts: PageFacts, anchors: Anchors) -> Html:
    """The section's content."""
    graph = facts.graph
    failed = {item.position for item in facts.timeline.items if failed_here(item)}
    whole = len(graph.nodes) <= NODES_MAX
    picture = _events(graph, failed, anchors) if whole else groups_picture(facts, failed, anchors)
    return joined(
        [element("p", _summary(graph)), picture, _key() if whole else Html(), *_odd(graph, anchors)]
    )


def _summary(graph: Graph) -> str:
    recorded = sum(edge.kind in ("cause", "link") for edge in graph.edges)
    derived = sum(edge.kind == "derived" for edge in graph.edges)
    known = _count(recorded, "recorded cause or link", "recorded causes and links")
    told = f"{_count(len(graph.nodes), 'event')}; {known} between them"
    if derived:
        told += f", {derived:,} more told by shared ids"
    return told + "."


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _odd(graph: Graph, anchors: Anchors) -> list[Html]:
    """What the picture does not show, or what one should know about it."""
    found: list[Html] = []
    late = [edge for edge in graph.edges if edge.late]
    for words, positions in (
        ("Causes that are not in this ledger, named at", [one.position for one in graph.dangling]),
        ("Causes elsewhere in this ledger, named at", [one.position for one in graph.outside]),
        ("Recorded before their causes:", [edge.target for edge in late]),
        ("In circles:", [one for group in graph.cycles for one in group]),
    ):
        if positions:
            shown = sorted(set(positions))
            links: list[str] = []
            for position in shown[:20]:
                links += [" ", anchors(position)]
            more = f" and {len(shown) - 20:,} more" if len(shown) > 20 else ""
            found.append(element("p", words, *links, more, class_="small"))
    return found


def _lanes(nodes: Sequence[GraphNode]) -> dict[str, int]:
    """A lane for each correlation; one that has ended gives its lane to a later one."""
    last = {node.correlation_id: n for n, node in enumerate(nodes)}
    lanes: dict[str, int] = {}
    busy: list[int] = []
    for n, node in enumerate(nodes):
        key = node.correlation_id
        if key in lanes:
            continue
        free = next((lane for lane, until in enumerate(busy) if until < n - 1), len(busy))
        if free == len(busy):
            busy.append(0)
        busy[free] = last[key]
        lanes[key] = free
    return lanes


def _events(graph: Graph, failed: set[int], anchors: Anchors) -> Html:
    nodes = graph.nodes
    lanes = _lanes(nodes)
    rows = {node.position: n for n, node in enumerate(nodes)}
    places = {
        node.position: (
            _LEFT + lanes[node.correlation_id] * _LANE,
            _TOP + rows[node.position] * _ROW + _ROW // 2,
        )
        for node in nodes
    }
    firsts: dict[str, int] = {}
    lasts: dict[str, int] = {}
    for node in nodes:
        firsts.setdefault(node.correlation_id, node.position)
        lasts[node.correlation_id] = node.position
    lines = [
        void(
            "line",
            x1=places[first][0],
            x2=places[first][0],
            y1=places[first][1],
            y2=places[lasts[key]][1],
            class_="lane",
        )
        for key, first in firsts.items()
    ]
    starts = frozenset(firsts.values())
    near = _neighbours(nodes)
    edges = [_edge(edge, places, starts, near) for edge in graph.edges]
    text_x = _LEFT + (max(lanes.values(), default=0) + 1) * _LANE
    drawn = [_node(node, places[node.position], text_x, failed, anchors) for node in nodes]
    height = _TOP * 2 + _ROW * len(nodes)
    picture = element(
        "svg",
        element("title", "Graph of events", id="graph-title"),
        element(
            "desc",
            "One event a line in the order of the ledger. A curve leads from a cause to what followed from it; runs "
            "stand side by side. Every line links to the event.",
            id="graph-desc",
        ),
        *lines,
        *edges,
        *drawn,
        role="group",
        aria_labelledby="graph-title graph-desc",
        width="100%",
        height=height,
        style="min-width:34rem",
    )
    return element("div", picture, class_="picture", role="region", tabindex=0, aria_label="Graph, scrolls")


def _neighbours(nodes: Sequence[GraphNode]) -> set[tuple[int, int]]:
    """Pairs of positions that follow each other in one lane."""
    before: dict[str, int] = {}
    found: set[tuple[int, int]] = set()
    for node in nodes:
        if node.correlation_id in before:
            found.add((before[node.correlation_id], node.position))
        before[node.correlation_id] = node.position
    return found


def _edge(
    edge: GraphEdge,
    places: Mapping[int, tuple[int, int]],
    starts: frozenset[int],
    near: set[tuple[int, int]],
) -> Html:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    kind = "edge" if edge.kind == "cause" else f"edge {edge.kind}"
    if edge.late:
        kind += " late"
    told = element("title", f"{edge.source} led to {edge.target}" + (f" (by {edge.via})" if edge.via else ""))
    if (edge.source, edge.target) in near:
        path = f"M{x1} {y1}V{y2}"
    elif x1 == x2:
        bow = min(8 + abs(y2 - y1) // 16, 26)
        path = f"M{x1} {y1}C{x1 - bow} {y1 + 8} {x1 - bow} {y2 - 8} {x2} {y2}"
    elif edge.target in starts:
        path = f"M{x1} {y1}C{x2} {y1} {x2} {y1} {x2} {min(y1 + _ROW, y2)}V{y2}"
    else:
        path = f"M{x1} {y1}V{max(y2 - _ROW, y1)}C{x1} {y2} {x1} {y2} {x2} {y2}"
    return element("path", told, d=path, class_=kind)


def _node(node: GraphNode, place: tuple[int, int], text_x: int, failed: set[int], anchors: Anchors) -> Html:
    x, y = place
    classes = ["node"]
    if node.position in failed:
        classes.append("failed")
    if node.erased:
        classes.append("erased")
    if node.event_type.startswith(("ui.", "execution.human_input")):
        classes.append("person")
    mark = "failed: " if node.position in failed else ""
    who = f"{isolated(node.who, 40)}: " if node.who else ""
    words = f"{node.position}  {mark}{who}{isolated(node.what, 110)}"
    parts = [
        void("rect", x=0, y=y - _ROW // 2, width="100%", height=_ROW, class_="row"),
        void("circle", cx=x, cy=y, r=5, class_=" ".join(classes)),
        element("text", words, x=text_x, y=y + 4, class_="bad" if mark else None),
    ]
    href = anchors.href(node.position)
    return element("a", *parts, href=href) if href else element("g", *parts)


def _key() -> Html:
    lines = (
        ("edge", "recorded cause"),
        ("edge derived", "told by a shared id"),
        ("edge link", "further cause, or fork"),
        ("edge late", "recorded before its cause"),
    )
    return element(
        "ul",
        *(
            element(
                "li",
                element(
                    "svg", void("path", d="M0 6H24", class_=kind), width=24, height=12, aria_hidden="true"
                ),
                words,
            )
            for kind, words in lines
        ),
        class_="key",
        aria_label="Key of the graph",
    )
