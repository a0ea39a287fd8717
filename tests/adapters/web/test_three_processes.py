"""examples/three_processes: what three processes and two runtimes record of one question is one connected graph."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.projections.finding import every_run

EXAMPLE = Path(__file__).parents[3] / "examples" / "three_processes" / "run.py"


def connected(graph: Any) -> set[int]:
    """The positions that edges connect with the first node, whatever their direction."""
    beside: dict[int, set[int]] = {node.position: set() for node in graph.nodes}
    for edge in graph.edges:
        beside[edge.source].add(edge.target)
        beside[edge.target].add(edge.source)
    found: set[int] = set()
    waiting = [graph.nodes[0].position]
    while waiting:
        position = waiting.pop()
        if position not in found:
            found.add(position)
            waiting += beside[position]
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sqlite", "http", "spool"])
def test_three_processes_and_two_runtimes_record_one_graph(
    kind: str,
    tmp_path: Path,
    servers: Callable[[str], Any],
    require: Callable[[object, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over HTTP each decides with the service, or all three share one spool, which one of them sends on."""
    url = found = str(tmp_path / "runs.db")
    if kind != "sqlite":
        server = servers("http")
        require(not isinstance(server, Exception), f"the HTTP service ({server})")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        url = f"{server.address}?ledger={kind}-{os.getpid()}"
        found = f"{url}&mode=direct"
        url = found if kind == "http" else url
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), url], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("It left on Monday.")
    assert len(list((tmp_path / "state").rglob("*.spool"))) == (kind == "spool")

    with chatsnapshot.open(found) as ledger:
        entries = list(ledger.read())
        (first,) = [entry for entry in entries if entry.causation_id is None]
        graph = ledger.view("graph", first.correlation_id)
        assert {node.position for node in graph.nodes} == {entry.position for entry in entries}
        assert connected(graph) == {entry.position for entry in entries}
        assert (graph.dangling, graph.outside, graph.cycles) == ((), (), ())
        assert graph.roots == (first.position,)

        begun = [entry for entry in entries if entry.event_type == "integration.api_triggered"]
        assert [entry.source.name for entry in begun] == ["web", "agents", "tools"]
        assert {entry.source.runtime for entry in entries} >= {"ag2", "asgi", "httpx", "none"}
        ended = [entry for entry in entries if entry.event_type == "integration.response"]
        assert [entry.payload["status"] for entry in ended] == [200] * 5

        (root,) = ledger.view("runs", first.correlation_id).runs
        runs = list(every_run((root,)))
        assert [run.name for run in runs[1:]] == ["question", "desk", "look-up"]
        assert [run.status for run in runs[1:]] == ["completed"] * 3
        assert [run.link for run in runs[1:]] == ["child"] * 3
        assert ledger.verify().ok
