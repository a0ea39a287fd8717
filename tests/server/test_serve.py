"""The service starts, says where, answers, and ends in order."""

from __future__ import annotations

from typing import Any

import chatsnapshot


def test_it_says_where_it_is_and_answers_there(served: Any) -> None:
    assert served.client.get("/healthz").text == "ok\n"
    assert served.client.get("/readyz").text == "ready\n"


def test_the_head_is_that_of_the_ledger(served: Any, tmp_path: Any) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        for number in range(3):
            ledger.record("execution.message", {"content": str(number)}, correlation_id="run-1")
        report = ledger.verify()
    found = served.client.get("/v1/head").json()
    assert (found["position"], found["root"], found["ledger_id"]) == (3, report.root, ledger.ledger_id)


def test_several_ledgers_have_names(serve: Any, tmp_path: Any) -> None:
    service = serve("--ledger-named", f"a={tmp_path / 'a.db'}", "--ledger-named", f"b={tmp_path / 'b.jsonl'}")
    ids = [service.client.get(f"/v1/ledgers/{name}/head").json()["ledger_id"] for name in "ab"]
    assert len(set(ids)) == 2
    assert service.client.get("/v1/head").json()["type"] == "urn:chatsnapshot:problem:which-ledger"


def test_every_refusal_is_a_problem_of_one_shape(served: Any) -> None:
    for method, path, status in (
        ("GET", "/nope", 404), ("DELETE", "/v1/head", 405), ("GET", "/v1/ledgers/x/head", 404)
    ):  # fmt: skip
        answer = served.client.request(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json().keys() >= {"type", "title", "status", "detail"}
