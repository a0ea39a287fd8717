"""``show --html`` and the end of the demonstration: a page beside the ledger."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import chatsnapshot


def test_show_writes_a_run_as_a_page_and_names_the_file(run, story: Path, tmp_path: Path) -> None:
    done = run("show", "run-1", "--html", "run.html", "--ledger", str(story))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("11 events, ") and done.stdout.endswith(": run.html\n")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "completed, 1 tool error" in page


def test_show_tells_about_the_page_as_json(run, story: Path, tmp_path: Path) -> None:
    done = run("show", "run-1", "--html", "run.html", "--json", "--ledger", str(story))
    told = json.loads(done.stdout)
    assert told == {
        "path": "run.html",
        "bytes": (tmp_path / "run.html").stat().st_size,
        "events": 11,
        "until": 11,
        "verified": True,
    }


def test_show_refuses_a_file_that_is_there_unless_forced(run, story: Path, tmp_path: Path) -> None:
    (tmp_path / "run.html").write_text("mine")
    done = run("show", "run-1", "--html", "run.html", "--ledger", str(story))
    assert done.exit_code == 1 and "run.html" in done.stderr
    assert (tmp_path / "run.html").read_text() == "mine"
    assert run("show", "run-1", "--html", "run.html", "--force", "--ledger", str(story)).exit_code == 0


def test_options_of_a_page_need_a_page(run, story: Path) -> None:
    for option in (["--force"], ["--redact"], ["--prices", "prices.json"]):
        done = run("show", "run-1", *option, "--ledger", str(story))
        assert done.exit_code == 1 and "--html" in done.stderr


def test_show_writes_no_page_of_a_run_that_is_not_there(run, story: Path, tmp_path: Path) -> None:
    done = run("show", "run-9", "--html", "run.html", "--ledger", str(story))
    assert done.exit_code == 1 and "did you mean run-1" in done.stderr
    assert not (tmp_path / "run.html").exists()


def test_a_page_of_a_damaged_ledger_is_written_and_the_damage_said(
    run, story: Path, damage, tmp_path: Path
) -> None:
    damage(story, "UPDATE entry SET timestamp = '2020-01-01T00:00:00.000000Z'")
    done = run("show", "run-1", "--html", "run.html", "--ledger", str(story))
    assert "the ledger is not sound" in done.stdout
    assert "not sound" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_prices_and_redaction_reach_the_page(run, path: Path, tmp_path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        usage = {"input_tokens": 1_000_000, "output_tokens": 0}
        ledger.record("execution.model_call", {"model": "m-1", "usage": usage}, correlation_id="run-1")
        ledger.record("execution.message", {"content": "password=hunter2hunter2"}, correlation_id="run-1")
    prices = {"currency": "USD", "models": {"m-1": {"input": "3.00", "output": "15.00"}}}
    (tmp_path / "prices.json").write_text(json.dumps(prices))
    options = ("--prices", "prices.json", "--redact", "--ledger", str(path))
    assert run("show", "run-1", "--html", "run.html", *options).exit_code == 0
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "3 USD" in page and "hunter2" not in page


@pytest.mark.parametrize(
    ("url", "place"), [("sub/runs.db", "sub/lamp-1.html"), ("postgresql://x/y", "lamp-1.html")]
)
def test_the_page_of_the_demonstration_stands_beside_the_ledger(tmp_path: Path, url: str, place: str) -> None:
    from chatsnapshot.demo.stage import _page_beside, _shown_path

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "runs.db").touch()
    page = _page_beside(url, "lamp-1")
    assert _shown_path(page) == place.replace("/", os.sep)
