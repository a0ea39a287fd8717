"""``chatsnapshot import``: files of another program, each event once, with what was left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

LOG: dict[str, Any] = {
    "history": [
        {"content": "How many?", "role": "human"},
        {"content": "Twelve \x1b[2J.", "role": "Counter"},
    ],
    "mistake_agent": "Counter",
    "mistake_step": "1",
    "mistake_reason": "It is eleven.",
    "question": "How many?",
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(LOG))
    return path


def test_a_log_is_imported_once_and_the_ledger_is_made(run: Any, path: Path, log: Path) -> None:
    first = run("import", "auto", str(log), "--ledger", str(path))
    assert (first.exit_code, first.stderr) == (0, "")
    assert "ag2-logs, 5 events stored, 0 known" in first.stdout
    again = json.loads(run("import", "ag2-logs", str(log), "--json", "--ledger", str(path)).stdout)
    assert (again["stored"], again["known"], again["problem_count"]) == (0, 5, 0)
    correlation = again["files"][0]["correlations"][0]
    assert "mistake" in run("show", correlation, "--ledger", str(path)).stdout
    assert run("runs", "--evaluation", "mistake=faulty", "--ledger", str(path)).stdout.count("ag2-") == 1


def test_times_that_the_log_does_not_have_are_shown_as_unknown(run: Any, path: Path, log: Path) -> None:
    imported = run("import", "auto", str(log), "--json", "--ledger", str(path))
    correlation = json.loads(imported.stdout)["files"][0]["correlations"][0]
    assert "times are unknown" in run("timeline", correlation, "--ledger", str(path)).stdout
    shown = run("show", correlation, "--ledger", str(path)).stdout
    facts = dict(line.split(None, 1) for line in shown.splitlines() if line.startswith("  "))
    assert (facts["started"], facts["ended"], facts["took"]) == ("unknown",) * 3
    assert "2026" not in run("runs", "--ledger", str(path)).stdout


def test_a_file_that_is_cut_off_ends_with_ten_and_names_the_byte(run: Any, path: Path, log: Path) -> None:
    log.write_bytes(log.read_bytes()[:70])
    result = run("import", "auto", str(log), "--ledger", str(path))
    assert result.exit_code == 10
    assert "byte 56  the file is cut off in item 1 of 'history', which begins here" in result.stdout


def test_one_file_of_another_kind_stops_it_before_anything_is_stored(
    run: Any, path: Path, log: Path, tmp_path: Path
) -> None:
    other = tmp_path / "trace.json"
    other.write_text('{"resourceSpans": []}')
    result = run("import", "ag2-logs", str(log), str(other), "--ledger", str(path))
    assert result.exit_code == 1
    assert "trace.json is no ag2-logs file" in result.stderr
    assert "it looks like OTLP JSON" in result.stderr
    assert not path.exists()


def test_an_unknown_kind_and_a_missing_file_are_told_in_one_sentence(run: Any, log: Path) -> None:
    assert "did you mean ag2-logs" in run("import", "ag2", str(log)).stderr
    assert run("import", str(log)).exit_code == 1
    assert "does not exist" in run("import", "auto", "nowhere.json").stderr


def test_secrets_stay_only_where_that_is_asked_for(run: Any, path: Path, log: Path) -> None:
    secret = "sk-ant-api03-" + "Ab1" * 30
    log.write_text(json.dumps({**LOG, "question": secret}))
    for number, options in enumerate(([], ["--no-redact"])):
        where = path.with_name(f"{number}.db")
        assert run("import", "auto", str(log), *options, "--ledger", str(where)).exit_code == 0
        with chatsnapshot.open(where) as ledger:
            assert any(secret in str(entry.payload) for entry in ledger.read()) == bool(options)
