"""``chatsnapshot scan``: tells where secrets are, never what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot.cli.main import cli

TOKEN = "gh" + "p_" + "aB3x" * 9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"fine": 1}, correlation_id="clean")
        ledger.record(
            "a.b", {"items": [{"k": TOKEN}], TOKEN: {"password": "hunter2"}}, correlation_id="run-1"
        )
        ledger.record(
            "a.b", {"log": "x " * 200_000 + TOKEN}, correlation_id="run-2", attributes={"actor": TOKEN}
        )
        erased = ledger.record("a.b", {"password": "hunter2"}, correlation_id="run-2")
        ledger.erase(erased.position, reason="test")
        ledger.record("a.b", {"\x1b[31m": TOKEN, "done": "[redacted:password]"}, correlation_id="run-3")
    return path


def scan(path: Path, *arguments: str):
    return CliRunner().invoke(cli, ["scan", "--ledger", str(path), *arguments])


def test_each_place_is_listed_without_the_secret(path):
    done = scan(path, "--json")
    found = [json.loads(line) for line in done.output.splitlines()]
    assert done.exit_code == 10
    assert [(one["position"], one["path"], one["kind"], one["shown"]) for one in found] == [
        (2, "payload", "github-token", "ghp_"),
        (2, "payload.[redacted:github-token].password", "password", ""),
        (2, "payload.items[0].k", "github-token", "ghp_"),
        (3, "payload.log", "github-token", "ghp_"),
        (3, "attributes.actor", "github-token", "ghp_"),
        (6, "payload.\x1b[31m", "github-token", "ghp_"),
    ]
    assert TOKEN[4:] not in done.output and "hunter2" not in done.output


def test_people_get_counts_and_the_call_that_erases(path):
    done = scan(path)
    assert done.exit_code == 10
    assert "6 secrets in 3 events" in done.output and "erase([2, 3, 6]" in done.output
    assert TOKEN[4:] not in done.output and "hunter2" not in done.output and "\x1b" not in done.output


def test_one_run_alone_and_a_clean_one(path):
    assert "1 secret in 1 event" in scan(path, "run-3").output
    done = scan(path, "clean")
    assert (done.exit_code, "nothing found" in done.output) == (0, True)


def test_scanning_changes_nothing_and_needs_a_ledger(path, tmp_path):
    before = path.read_bytes()
    scan(path)
    assert path.read_bytes() == before
    assert scan(tmp_path / "none.db").exit_code == 2


def test_patterns_from_a_file(path, tmp_path):
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("# ours\n\nfine-word  f[i]ne\n")
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"text": "all is fine today"}, correlation_id="run-9")
    assert "fine-word" in scan(path, "run-9", "--patterns", str(patterns)).output
    patterns.write_text("alone\n")
    assert scan(path, "--patterns", str(patterns)).exit_code == 1


def test_a_pattern_that_backtracks_ends_the_scan_with_a_sentence(path, tmp_path):
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("slow (a+)+$\n")
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"text": "a" * 5_000 + "!"}, correlation_id="run-9")
    done = scan(path, "run-9", "--patterns", str(patterns))
    assert done.exit_code == 1 and "the patterns took over 50 ms at position" in done.output
