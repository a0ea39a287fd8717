"""A graph laid out as a tree shows every event once at a small depth; in diagrams no text can end its label."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.projections.graphdiagram import render_dot, render_mermaid
from chatsnapshot.projections.graphtree import Row, rows
from chatsnapshot.projections.views import view

HOSTILE = [
    'x"]; n9["owned',
    '"]\n  click n1 "javascript:alert(1)"',
    "%%{init: {}}%%",
    "</pre><script>alert(1)</script>",
    "`**bold**`",
    "#quot;#35;&quot;",
    'a\\" ]; b [label="',
    "trailing backslash \\",
    "\x1b[2J\x07\u202eevil\u2028next",
    "\ud800",
    "end",
    "subgraph",
    "}",
]

MERMAID_LINE = re.compile(
    r'flowchart TD|  subgraph c\d+\["[\w .,:_\-/()#;]*"\]|  end|    n\d+\["[\w .,:_\-/()#;]*"\]'
    r"|  n\d+ (-->|==>|-\.->)(\|[a-z_ ]+\|)? n\d+|  m\d+\(\[\"not in the ledger\"\]\) -\.-> n\d+"
)
QUOTED = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
DOT_LINE = re.compile(
    rf"digraph {QUOTED} \{{|  node \[shape=box\];|  subgraph cluster_\d+ \{{|    label={QUOTED};|  \}}|\}}"
    rf"|    n\d+ \[label={QUOTED}\];|  n\d+ -> n\d+ \[style=[a-z]+(, label=\"[a-z_ ]+\")?\];"
    r"|  m\d+ \[label=\"not in the ledger\", style=dashed\];|  m\d+ -> n\d+ \[style=dashed\];"
)


def record_hostile(history: Any, text: str) -> None:
    safe = re.sub("[\x00-\x1f\ud800]", "?", text)
    first = history.add("execution.run_started", {"name": text}, run=safe, name=safe)
    history.add("execution.message", {"role": text, "content": text}, run=safe, name=safe, cause=first)
    history.add(
        "execution.message",
        {"role": "user", "content": text},
        run=safe,
        cause="00000000-0000-0000-0000-00000000ffff",
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_a_diagram(history: Any, text: str) -> None:
    record_hostile(history, text)
    graph = view(history, "graph", history.entries[0].correlation_id)
    for render, allowed in ((render_mermaid, MERMAID_LINE), (render_dot, DOT_LINE)):
        drawn = render(graph)
        assert drawn.endswith("\n")
        for line in drawn[:-1].split("\n"):
            assert allowed.fullmatch(line), line


@given(text=st.text(max_size=30) | st.text('"\\]}[`#&;%\n', max_size=12))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_is_said_each_line_of_a_diagram_is_one_of_ours(history: Any, text: str) -> None:
    history.entries.clear()
    history.sequences.clear()
    history.add("execution.message", {"role": text, "content": text})
    graph = view(history, "graph", "run-1")
    assert all(MERMAID_LINE.fullmatch(line) for line in render_mermaid(graph)[:-1].split("\n"))
    assert all(DOT_LINE.fullmatch(line) for line in render_dot(graph)[:-1].split("\n"))


def test_a_diagram_tells_kinds_of_edges_apart(history: Any) -> None:
    call = history.add("execution.tool_call", {"name": "f", "call_id": "x"})
    history.add("execution.tool_result", {"call_id": "x"})
    history.add("execution.model_call", links=[call.event_id])
    graph = view(history, "graph", "run-1")
    assert "  n1 -.->|call_id| n2\n  n1 ==>|link| n3\n" in render_mermaid(graph)
    assert '  n1 -> n2 [style=dashed, label="call_id"];\n' in render_dot(graph)


# --- the tree ---


def tree(history: Any, run: str = "run-1") -> list[Row]:
    return rows(view(history, "graph", run))


def drawn(history: Any) -> list[tuple[int, int, bool]]:
    return [(row.node.position, row.depth, row.branch) for row in tree(history)]


def test_a_chain_stays_at_one_depth(history: Any) -> None:
    cause = None
    for _ in range(300):
        cause = history.add("execution.message", {"content": "x"}, cause=cause)
    assert {row.depth for row in tree(history)} == {0}


def test_the_longer_line_goes_on_after_the_branches(history: Any) -> None:
    first = history.add("execution.run_started")
    second = history.add("execution.message", {"content": "on"}, cause=first)
    history.add("execution.message", {"content": "aside"}, cause=first)
    history.add("execution.message", {"content": "on"}, cause=second)
    assert drawn(history) == [(1, 0, False), (3, 1, True), (2, 0, False), (4, 0, False)]


def test_a_child_run_is_a_branch_also_when_it_is_longer(history: Any) -> None:
    call = history.add("execution.tool_call", {"name": "ask"})
    child = history.add("execution.run_started", run="child", cause=call)
    for _ in range(5):
        child = history.add("execution.message", {"content": "x"}, run="child", cause=child)
    history.add("execution.tool_result", {"name": "ask"}, cause=call)
    assert drawn(history)[0] == (1, 0, False)
    assert drawn(history)[-1] == (8, 0, False)
    assert {depth for _, depth, _ in drawn(history)[1:-1]} == {1}


def test_a_join_stands_once_with_its_other_causes(history: Any) -> None:
    first, second = (history.add("execution.message", {"content": "x"}) for _ in range(2))
    history.add("execution.model_call", cause=first, links=[second.event_id])
    (joined,) = [row for row in tree(history) if row.node.position == 3]
    assert joined.edge is not None
    assert (joined.edge.source, [edge.source for edge in joined.others]) == (1, [2])


@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["run-1", "run-2"])), min_size=1, max_size=12))
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_event_stands_in_the_tree_once_whatever_the_causes(
    history: Any, made: list[tuple[int, str]]
) -> None:
    history.entries.clear()
    history.sequences.clear()
    for cause, run in made:
        named = f"00000000-0000-0000-0000-{cause:012x}" if cause else None
        history.add("execution.message", {"content": "x"}, cause=named, run=run)
    graph = view(history, "graph", made[0][1])
    found = rows(graph)
    assert sorted(row.node.position for row in found) == [node.position for node in graph.nodes]
    assert sum((row.edge is not None) + len(row.others) for row in found) == len(graph.edges)
    for before, row in pairwise(found):
        assert row.depth <= before.depth + 1
        assert row.branch or row.depth <= before.depth
