"""GraphML: well-formed whatever agents said, every edge between nodes, every value under a declared key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

Exported = Callable[..., bytes]
NS = "{http://graphml.graphdrawing.org/xmlns}"


def read(data: bytes) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, dict[str, str]]]]:
    """Nodes and edges with their values; every value is under a key that is declared for it."""
    root = ElementTree.fromstring(data)
    keys = {(key.attrib["id"], key.attrib["for"]): key.attrib["attr.name"] for key in root.iter(f"{NS}key")}

    def values(of: Any, owner: str) -> dict[str, str]:
        return {keys[one.attrib["key"], owner]: one.text or "" for one in of.iter(f"{NS}data")}

    nodes = {node.attrib["id"]: values(node, "node") for node in root.iter(f"{NS}node")}
    edges = [
        (edge.attrib["source"], edge.attrib["target"], values(edge, "edge"))
        for edge in root.iter(f"{NS}edge")
    ]
    return nodes, edges


def test_nodes_are_the_events_and_edges_their_causes(story: Any, exported: Exported) -> None:
    nodes, edges = read(exported(story, "graphml", runs=["run-1"]))
    assert list(nodes) == [f"n{position}" for position in range(1, 14)]
    assert nodes["n11"]["what"] == "assistant: =At 04:12."
    assert nodes["n6"]["correlation_id"] == "child-1"
    assert ("n5", "n6", {"kind": "cause", "relation": "child", "late": "false"}) in edges
    assert all(source in nodes and target in nodes for source, target, _ in edges)


def test_what_agents_say_stays_text(ledger: Any, tell: Any, timeless: Any, exported: Exported) -> None:
    said = "</data><node id='x'/>&lt;\x00\x1b]]>\ud800 \ufffe"
    tell("execution.message", {"role": "assistant", "content": said}, 'a"<&>')
    nodes, _ = read(exported(ledger, "graphml", runs=['a"<&>']))
    (node,) = nodes.values()
    assert node["correlation_id"] == 'a"<&>'
    assert "</data><node id='x'/>&lt;" in node["what"]
    (old,) = read(exported(ledger, "graphml", runs=["old-1"]))[0].values()
    assert "at" not in old
