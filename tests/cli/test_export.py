"""``chatsnapshot export`` as a person meets it: files, standard output, what is said, and errors."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import chatsnapshot


def test_a_file_is_written_and_told(story: Path, run: Any, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    done = run("export", "run-1", "--format", "csv", "-o", str(target), "--ledger", str(story))
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].endswith(f"out.csv  csv, 11 events, {target.stat().st_size:,} bytes")
    assert len(list(csv.reader(io.StringIO(target.read_text(), newline="")))) == 12


def test_standard_output_gets_the_export_and_nothing_else(story: Path, run: Any) -> None:
    done = run("export", "--all", "--format", "jsonl", "--type", "execution.message", "--ledger", str(story))
    assert done.exit_code == 0
    assert [json.loads(line)["event_type"] for line in done.stdout.splitlines()] == ["execution.message"] * 3
    assert done.stderr == ""


def test_what_is_left_out_is_said_on_standard_error(story: Path, run: Any) -> None:
    with chatsnapshot.open(story) as ledger:
        ledger.evaluate("run-1", name="correctness", score=0.9)
    done = run(
        "export", "--all", "--format", "chat", "--evaluation", "correctness>=0.8", "--ledger", str(story)
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == "  left out: 1 runs that were not evaluated so\n"


def test_a_run_id_names_its_correlation(path: Path, run: Any) -> None:
    with chatsnapshot.open(path) as ledger:
        ledger.record("execution.run_started", {"run_id": "turn-1"}, correlation_id="talk")
    done = run("export", "turn-1", "--format", "jsonl", "--ledger", str(path))
    assert json.loads(done.stdout)["correlation_id"] == "talk"


def test_the_report_as_json(story: Path, run: Any, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    done = run("export", "--all", "--format", "ocel", "-o", str(target), "--json", "--ledger", str(story))
    report = json.loads(done.stdout)
    assert report["written"] == 11
    assert report["left_out"] == {}
    assert report["bytes"] == target.stat().st_size


def test_wrong_usage_is_one_sentence_and_makes_no_file(story: Path, run: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "out")
    ledger = ("--ledger", str(story))
    for arguments, said in (
        (("export", "--format", "csv"), "name runs, or give --all"),
        (("export", "run-1", "--all", "--format", "csv"), "name runs, or give --all"),
        (("export", "run-1", "--format", "cvs", "-o", target), "did you mean csv"),
        (("export", "run-1", "--format", "OTLP", "-o", target), "did you mean otlp"),
        (("export", "nobody", "--format", "csv", "-o", target), "no run 'nobody'"),
        (("export", "run-1", "--format", "csv", "--json"), "name it with -o"),
        (("export", "--all", "--format", "dot", "-o", target), "name one run"),
        (("export", "run-1", "--format", "chat", "--origin", "ui", "-o", target), "whole runs"),
        (("export", "run-1", "--format", "csv", "--start", "noon", "-o", target), "noon"),
    ):
        done = run(*arguments, *ledger)
        assert done.exit_code == 1, arguments
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert not os.path.exists(target)


def test_an_older_file_stays_unless_it_is_replaced_by_force(story: Path, run: Any, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("older")
    arguments = ("export", "run-1", "--format", "csv", "-o", str(target), "--ledger", str(story))
    done = run(*arguments)
    assert (done.exit_code, target.read_text()) == (1, "older")
    assert "--force" in done.stderr
    assert run(*arguments, "--force").exit_code == 0
    assert target.read_text().startswith("position,")


def test_secrets_are_taken_out_when_that_is_asked_for(path: Path, run: Any) -> None:
    secret = "ghp_" + "a1B2" * 9
    with chatsnapshot.open(path) as ledger:
        ledger.record("execution.message", {"role": "user", "content": secret}, correlation_id="run-1")
    arguments = ("export", "run-1", "--format", "jsonl", "--ledger", str(path))
    assert secret in run(*arguments).stdout
    assert secret not in run(*arguments, "--redact").stdout


def test_no_ledger_is_told(run: Any, tmp_path: Path) -> None:
    done = run("export", "--all", "--format", "csv", "--ledger", str(tmp_path / "none.db"))
    assert done.exit_code == 2


def test_pages_of_several_runs_go_to_a_folder(story: Path, run: Any, tmp_path: Path) -> None:
    with chatsnapshot.open(story) as ledger:
        ledger.record("execution.run_started", {"run_id": "turn-1", "name": "first"}, correlation_id="talk")
        ledger.record("execution.run_completed", {"run_id": "turn-1"}, correlation_id="talk")
        ledger.record("execution.run_started", {"run_id": "turn-2", "name": "second"}, correlation_id="talk")
    folder = tmp_path / "pages"
    done = run("export", "run-1", "turn-1", "--format", "html", "-o", f"{folder}/", "--ledger", str(story))
    assert done.exit_code == 0 and "html, 2 runs" in done.stdout
    assert sorted(os.listdir(folder)) == ["index.html", "run-1.html", "talk.html"]
    assert "first, a run in ChatSnapshot" in (folder / "talk.html").read_text().replace("\u2068", "").replace(
        "\u2069", ""
    )


def test_prices_are_for_pages_alone(story: Path, run: Any) -> None:
    done = run("export", "run-1", "--format", "csv", "--prices", "p.json", "--ledger", str(story))
    assert done.exit_code == 1 and "--prices are about pages" in done.stderr
