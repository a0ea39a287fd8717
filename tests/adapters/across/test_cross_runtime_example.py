"""examples/cross_runtime.py: three runtimes in one process, one connected graph with parents and children."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.projections.finding import every_run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("across") / "runs.db"
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "cross_runtime.py"), str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "desk: Within 30 days.",
        "3 runs in ag2, langgraph, openai_agents; 29 events, verified",
    ]
    with chatsnapshot.open(path, validation="strict") as ledger:
        yield ledger


def test_each_runtime_has_its_run_and_each_child_follows_from_a_tool_call_of_its_parent(
    recorded: Any,
) -> None:
    (root,) = recorded.view("runs", "refund-question").runs
    chain = list(every_run([root]))
    assert [(run.name, run.runtimes, run.status) for run in chain] == [
        ("desk", ("ag2",), "completed"),
        ("researcher", ("langgraph",), "completed"),
        ("writer", ("openai_agents",), "completed"),
    ]
    for parent, child in itertools.pairwise(chain):
        cause = recorded.get(child.cause)
        assert (cause.event_type, cause.correlation_id) == ("execution.tool_call", parent.correlation_id)
        first = next(iter(recorded.read(correlation_id=child.correlation_id)))
        assert first.payload["parent_run_id"] == parent.run_id


def test_everything_is_one_connected_graph_without_a_missing_cause(recorded: Any) -> None:
    graph = recorded.view("graph", "refund-question")
    assert len(graph.nodes) == recorded.head
    joined = {graph.nodes[0].position}
    while True:
        more = {
            end
            for edge in graph.edges
            for end in (edge.source, edge.target)
            if joined & {edge.source, edge.target}
        }
        if more <= joined:
            break
        joined |= more
    assert joined == set(range(1, recorded.head + 1))
    assert not graph.dangling


def test_the_transcript_tells_it_as_one_conversation(recorded: Any) -> None:
    from chatsnapshot.projections.render import render_text

    text = render_text(recorded.view("transcript", "refund-question"))
    order = [
        "How long do refunds take?",
        "research(topic=",
        "refunds: 30 days",
        "We pay back within 30 days.",
        "Within 30 days.",
    ]
    places = [text.index(said) for said in order]
    assert places == sorted(places)


def test_the_page_in_the_docs_shows_what_the_example_prints(recorded: Any) -> None:
    page = (ROOT / "docs" / "across-runtimes.md").read_text()
    assert "3 runs in ag2, langgraph, openai_agents; 29 events, verified" in page
    assert (ROOT / "docs" / "pictures" / "across-runtimes.png").stat().st_size > 10_000
    for line in ('5  desk  calls research(topic="refunds")', "6  ├ researcher  run researcher started"):
        assert line in page
