"""Runs, their views, search, verification and blobs over HTTP are what the ledger itself gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

import chatsnapshot
from chatsnapshot.projections.markdown import render_markdown
from chatsnapshot.server.routes.viewing import VIEWS


@pytest.fixture(scope="module")
def filled(module_served: Any) -> Any:
    """The tests of this file only read."""
    with chatsnapshot.open(module_served.path) as ledger:
        for name in ("triage", "billing"):
            with ledger.run(correlation_id=f"run-{name}", name=name) as run:
                run.record("execution.message", {"role": "user", "content": f"the {name} refund policy"})
                run.record("execution.tool_call", {"name": "look_up", "call_id": "c1", "arguments": {}})
                run.record(
                    "execution.tool_result", {"name": "look_up", "call_id": "c1", "result": b"x" * 40_000}
                )
    return module_served


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_runs_and_one_run_are_those_of_the_ledger(filled: Any) -> None:
    listed = filled.client.get("/v1/runs").json()["runs"]
    assert [run["name"] for run in listed] == ["triage", "billing"]
    with chatsnapshot.open(filled.path, read_only=True) as ledger:
        assert listed == plain(ledger.view("runs"))
    assert filled.client.get("/v1/runs?last=1").json()["runs"] == listed[1:]
    assert filled.client.get("/v1/runs/run-billing").json() == listed[1]


@pytest.mark.parametrize("kind", VIEWS)
def test_each_view_is_that_of_the_ledger(filled: Any, kind: str) -> None:
    answer = filled.client.get(f"/v1/runs/run-triage/{kind}")
    assert answer.status_code == 200, answer.text
    with chatsnapshot.open(filled.path, read_only=True) as ledger:
        assert answer.json() == plain(ledger.view(kind, "run-triage"))
        early = filled.client.get(f"/v1/runs/run-triage/{kind}?until=2")
        assert early.json() == plain(ledger.view(kind, "run-triage", until=2))


def test_forms_of_a_view_for_people(filled: Any) -> None:
    answer = filled.client.get("/v1/runs/run-triage/transcript?format=markdown")
    with chatsnapshot.open(filled.path, read_only=True) as ledger:
        assert answer.text == render_markdown(ledger.view("transcript", "run-triage"))
    assert answer.headers["content-type"].startswith("text/plain")
    assert filled.client.get("/v1/runs/run-triage/graph?format=mermaid").text.startswith("flowchart")
    assert filled.client.get("/v1/runs/run-triage/graph?format=svg").status_code == 400


def test_search_finds_words(filled: Any) -> None:
    found = filled.client.get("/v1/search", params={"q": "billing refund"}).json()["hits"]
    assert [hit["correlation_id"] for hit in found] == ["run-billing"]
    assert filled.client.get("/v1/search?q=").status_code == 400


def test_a_blob_comes_back_as_bytes_that_no_browser_shows(filled: Any) -> None:
    entries = filled.client.get("/v1/events?event_type=execution.tool_result").json()["entries"]
    reference = entries[0]["event"]["payload"]["result"]
    name = reference.get("$blob") or reference["value"]["$blob"]
    answer = filled.client.get(f"/v1/blobs/{name}")
    assert answer.content == b"x" * 40_000
    assert answer.headers["content-disposition"] == "attachment"
    assert filled.client.get("/v1/blobs/sha256:" + "0" * 64).status_code == 404
    assert filled.client.get("/v1/blobs/x").status_code == 400


def test_verification_and_the_whole_are_there(filled: Any) -> None:
    report = filled.client.get("/v1/verify").json()
    assert report["ok"] and report["head"] == 10
    with chatsnapshot.open(filled.path, read_only=True) as ledger:
        for kind in ("metrics", "audit"):
            assert filled.client.get(f"/v1/{kind}").json() == plain(ledger.view(kind))


def test_an_unknown_run_names_those_that_are_near(filled: Any) -> None:
    answer = filled.client.get("/v1/runs/run-triag/timeline")
    assert answer.status_code == 404 and "run-triage" in answer.json()["detail"]


@pytest.mark.parametrize("prefix", ["/v1", "/v1/ledgers/main"])
@pytest.mark.parametrize(
    "name", ["a/b", "5b8efff798038103d269b633813fc60c/eee19b7ec3c1b174", "x/timeline", "%2F", "/"]
)
def test_a_run_whose_id_has_a_slash_is_asked_for_with_the_slash_encoded(
    filled: Any, prefix: str, name: str
) -> None:
    started = {"event_type": "execution.run_started", "correlation_id": name, "idempotency_key": "start"}
    assert filled.client.post("/v1/events", json=started).status_code == 200
    path = f"{prefix}/runs/{quote(name, safe='')}"
    for below in ("", "/timeline", "/transcript", "/context", "/graph"):
        answer = filled.client.get(path + below)
        assert answer.status_code == 200, answer.text
        assert answer.json().get("correlation_id", name) == name


def test_a_search_that_cannot_keep_its_index_names_no_folder(serve: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.db.search").mkdir()
    (tmp_path / "runs.db.search" / "mine").touch()
    answer = serve("--ledger", tmp_path / "runs.db").client.get("/v1/search?q=lamp").json()
    assert "runs.db.search cannot be written" in answer["note"] and str(tmp_path) not in answer["note"]
