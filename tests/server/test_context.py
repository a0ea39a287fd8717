"""``GET /v1/runs/{id}/context``: what the library gives, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

import chatsnapshot


@pytest.fixture
def filled(served: Any, tmp_path: Any) -> Any:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger, ledger.run("run-1", name="desk") as run:
        run.record("execution.message", {"role": "user", "content": "Where is the brass lamp?"})
        run.record("execution.message", {"role": "assistant", "content": "On the shelf."})
    return served


def test_each_form_is_that_of_the_library(filled: Any, tmp_path: Any) -> None:
    for form in ("markdown", "messages", "openai", "anthropic"):
        as_the_library(filled, tmp_path, form)


def as_the_library(filled: Any, tmp_path: Any, form: str) -> None:
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        made = ledger.context("run-1", budget_tokens=500, format=form)
    answer = filled.client.get("/v1/runs/run-1/context", params={"budget": 500, "format": form})
    assert answer.status_code == 200, answer.text
    assert answer.text == made.text
    assert answer.headers["chatsnapshot-tokens"] == str(made.tokens)
    assert answer.headers["content-type"].startswith(
        "text/markdown" if form == "markdown" else "application/json"
    )


def test_json_says_what_was_left_out(filled: Any) -> None:
    told = filled.client.get("/v1/runs/run-1/context", params={"search": "lamp"}).json()
    assert "brass lamp" in told["text"] and told["tokens"] > 0
    assert {"left_out", "positions", "items"} <= told.keys()


def test_what_is_wrong_with_the_question_is_said(filled: Any) -> None:
    near = "near=01a22d4b-2238-7443-9474-0b71f6532210"
    for path, status in (
        ("run-2/context", 404),
        ("run-1/context?budget=0", 400),
        ("run-1/context?budget=1", 409),
        ("run-1/context?format=ag2", 400),
        ("run-1/context?near=nothing", 400),
        (f"run-1/context?{near}", 404),
        (f"run-1/context?{near}&search=lamp", 409),
        ("run-1/context?search=", 400),
    ):
        answer = filled.client.get(f"/v1/runs/{path}")
        assert answer.status_code == status, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
