"""``context`` and ``search`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot


@pytest.fixture
def told(tmp_path: Path) -> str:
    """A ledger with two runs."""
    path = str(tmp_path / "told.db")
    with chatsnapshot.open(path) as ledger:
        for run, text in (
            ("r1", "the refund\npolicy \x1b[31m"),
            ("r1", "thirty days"),
            ("r2", "a refund is due"),
        ):
            ledger.record("execution.message", {"role": "user", "content": text}, correlation_id=run)
    return path


def test_search_lists_hits_with_their_places(run: Any, told: str) -> None:
    done = run("search", "refund", "--ledger", told)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert any(line.startswith("     1  ") and "r1" in line and "execution.message" in line for line in lines)
    assert "        the refund policy ␛[31m" in lines
    assert Path(f"{told}.search").exists()


def test_search_for_programs_and_with_filters(run: Any, told: str) -> None:
    done = run("search", "refund", "--json", "--correlation", "r2", "--ledger", told)
    (hit,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (hit["position"], hit["snippet"], hit["marks"]) == (3, "a refund is due", [[2, 8]])
    done = run("search", "--newest", "--limit", "1", "--type", "execution.*", "--ledger", told, "refund")
    assert done.stdout.startswith("     3  ")
    assert run("search", "--ledger", told, "--", "refund", "-policy").stdout.startswith("     3  ")
    assert run("search", "elephant", "--ledger", told).stdout == "nothing found\n"
    done = run("search", "***", "--ledger", told)
    assert (done.exit_code, "needs a word" in done.stderr) == (1, True)


def test_context_prints_markdown_messages_or_an_object(run: Any, told: str) -> None:
    done = run("context", "r1", "--ledger", told)
    assert done.exit_code == 0, done.output
    assert "[position 2, run r1, user]\n```text\nthirty days\n```\n" in done.stdout
    done = run("context", "r1", "--format", "anthropic", "--bare", "--ledger", told)
    assert [one["role"] for one in json.loads(done.stdout)] == ["user"]
    done = run("context", "r1", "r2", "--json", "--budget", "150", "--ledger", told)
    made = json.loads(done.stdout)
    assert made["tokens"] <= 150 and made["left_out"] + len(made["items"]) == 3
    done = run("context", "--search", "refund", "--json", "--ledger", told)
    assert json.loads(done.stdout)["positions"] == [1, 3]
    assert (
        json.loads(run("context", "--search", "elephant", "--format", "openai", "--ledger", told).stdout)
        == []
    )


def test_context_says_what_is_wrong(run: Any, told: str) -> None:
    done = run("context", "--ledger", told)
    assert (done.exit_code, "name a run" in done.stderr) == (1, True)
    done = run("context", "r9", "--ledger", told)
    assert (done.exit_code, "no run 'r9'" in done.stderr) == (1, True)
    done = run("context", "r1", "--budget", "5", "--ledger", told)
    assert (done.exit_code, "smallest budget" in done.stderr) == (1, True)
    done = run("context", "r1", "--ledger", told + ".not")
    assert done.exit_code == 2
