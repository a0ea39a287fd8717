"""Real runtimes, instrumentations and exporter into a real service: their runs read as they happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import chatsnapshot

PROGRAMS = Path(__file__).parent / "otlp_programs"


class Told:
    """What a program's run left in the ledger, asked over HTTP and from the file."""

    def __init__(self, client: httpx.Client, path: Path) -> None:
        self.client = client
        self.path = path

    def runs(self) -> list[Any]:
        return self.client.get("/v1/runs").json()["runs"]  # type: ignore[no-any-return]

    def view(self, kind: str, run: str) -> Any:
        answer = self.client.get(f"/v1/runs/{run}/{kind}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def tools(self, run: str) -> list[tuple[Any, ...]]:
        """Name, arguments and result of each tool as the transcript has it."""
        items = self.view("transcript", run)["items"]
        return [(item["name"], item["result"]) for item in items if item.get("kind") == "tool"]

    def said(self, run: str) -> list[tuple[str, str]]:
        items = self.view("transcript", run)["items"]
        return [
            (item["role"], item["text"]) for item in items if item.get("kind") == "message" and item["text"]
        ]

    def entries(self) -> list[Any]:
        with chatsnapshot.open(self.path, read_only=True) as ledger:
            report = ledger.verify()
            assert report.ok
            return list(ledger.read())


@pytest.fixture
def told(served: Any, tmp_path: Path) -> Callable[[str], Told]:
    def run(program: str) -> Told:
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": served.url,
            "OPENAI_AGENTS_DISABLE_TRACING": "0",
        }
        done = subprocess.run(
            [sys.executable, PROGRAMS / program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return Told(served.client, tmp_path / "runs.db")

    return run


def cause_of(entries: list[Any], event_type: str, which: int = 0) -> Any:
    """The entry that led to the event of this type."""
    event = [entry for entry in entries if entry.event_type == event_type][which]
    return next(entry for entry in entries if entry.event_id == event.causation_id)


def fits(path: Path) -> None:
    """Every payload fits its schema, and every cause is there."""
    done = subprocess.run(
        [sys.executable, "-m", "chatsnapshot", "verify", "--schemas", "--json", "--ledger", path],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert (report["misfits"]["count"], report["dangling_causes"], report["open_tool_calls"]) == (0, [], [])
    assert report["misfits"]["checked"] == report["entries"]


def test_langgraph(told: Any) -> None:
    found = told("langgraph_run.py")
    (run,) = found.runs()
    assert (run["name"], run["kind"], run["status"], run["correlation_id"]) == (
        "LangGraph", "workflow", "completed", "thread-1",
    )  # fmt: skip
    assert [child["name"] for child in run["children"]] == ["agent", "agent"]
    assert found.said("thread-1") == [("user", "What is the weather?"), ("assistant", "It is sunny.")]
    assert found.tools("thread-1") == [("look_up", "sunny in Oslo")]
    tokens = found.view("metrics", "thread-1")["total"]["model"]["tokens"]
    assert (tokens["input"], tokens["output"]) == (31, 7)
    entries = found.entries()
    assert cause_of(entries, "execution.tool_call").payload["parts"][0]["id"] == "call-1"
    ids = {entry.event_id for entry in entries}
    assert all(entry.causation_id is None or entry.causation_id in ids for entry in entries)
    fits(found.path)


def test_openai_agents(told: Any) -> None:
    found = told("openai_agents_run.py")
    (run,) = found.runs()
    assert (run["name"], run["status"]) == ("Agent workflow", "completed")
    assert [child["name"] for child in run["children"]] == ["desk", "scribe"]
    trace = run["correlation_id"]
    assert found.said(trace) == [("user", "My lamp came broken."), ("assistant", "A letter is written.")]
    assert found.tools(trace)[0] == ("look_up", "order 7: a lamp")
    entries = found.entries()
    handoffs = [entry.payload for entry in entries if entry.event_type == "execution.handoff"]
    assert [(one["from"], one["to"]) for one in handoffs] == [("desk", "scribe")]
    tokens = found.view("metrics", trace)["total"]["model"]["tokens"]
    assert (tokens["input"], tokens["output"], tokens["cache_read"], tokens["reasoning"]) == (30, 15, 12, 6)
    assert cause_of(entries, "execution.tool_call").event_type == "execution.message"
    ids = {entry.event_id for entry in entries}
    assert all(entry.causation_id is None or entry.causation_id in ids for entry in entries)
    fits(found.path)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Pydantic AI needs Python 3.11")
def test_pydantic_ai(told: Any) -> None:
    found = told("pydantic_ai_run.py")
    (run,) = found.runs()
    assert (run["name"], run["status"]) == ("desk", "completed")
    (child,) = run["children"]
    assert (child["name"], child["status"]) == ("scribe", "completed")
    assert child["correlation_id"] != run["correlation_id"]
    said = found.said(run["correlation_id"])
    assert said[:2] == [("system", "Be kind."), ("user", "My lamp came broken.")]
    assert said[-1] == ("assistant", "Sent.")
    assert found.tools(run["correlation_id"]) == [("look_up", "a lamp"), ("write", "Dear Odile")]
    entries = found.entries()
    asked = cause_of(entries, "execution.tool_call")
    assert [part["name"] for part in asked.payload["parts"]] == ["look_up", "write"]
    begun = [entry for entry in entries if entry.event_type == "execution.run_started"]
    around = next(entry for entry in entries if entry.event_id == begun[1].causation_id)
    assert (around.event_type, around.payload["name"]) == ("execution.tool_call", "write")
    total = found.client.get("/v1/metrics").json()["total"]["model"]
    assert total["calls"] == 3
    spans = sum(
        entry.payload["usage"]["input_tokens"]
        for entry in entries
        if entry.event_type == "execution.model_call"
    )
    assert total["tokens"]["input"] == spans > 0
    fits(found.path)
