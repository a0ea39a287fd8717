"""``evaluate``, ``end`` and ``runs --evaluation``: what is said about a run afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import chatsnapshot


def test_a_run_is_evaluated_and_found_by_it(run, story: Path) -> None:
    at = ("--ledger", str(story))
    done = run("evaluate", "run-1", "--name", "correctness", "--score", "0.75", "--kind", "human", *at)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("evaluated run run-1; at position ")
    assert "run-1" in run("runs", "--evaluation", "correctness>=0.7", *at).stdout
    assert run("runs", "--evaluation", "correctness>0.75", *at).stdout == "no run was evaluated so\n"
    assert (
        "evaluated" in run("show", "run-1", *at).stdout
        and "correctness 0.75" in run("show", "run-1", *at).stdout
    )
    assert "evaluation correctness 0.75" in run("timeline", "run-1", *at).stdout


def test_an_event_is_evaluated(run, story: Path) -> None:
    with chatsnapshot.open(story, read_only=True) as ledger:
        message = next(iter(ledger.read(event_type="execution.message")))
    done = run(
        "evaluate", message.event_id, "--name", "tone", "--label", "kind", "--comment", "well said",
        "--evaluator", "ada", "--json", "--ledger", str(story),
    )  # fmt: skip
    event = json.loads(done.stdout)["event"]
    assert event["payload"] == {
        "target_event_id": message.event_id, "name": "tone", "label": "kind", "comment": "well said",
        "evaluator": "ada",
    }  # fmt: skip


def test_what_cannot_be_evaluated_says_why(run, story: Path, tmp_path: Path) -> None:
    at = ("--ledger", str(story))
    assert run("evaluate", "run-1", "--name", "x", *at).exit_code == 1
    assert "--score NUMBER or --label TEXT" in run("evaluate", "run-1", "--name", "x", *at).stderr
    done = run("evaluate", "nobody", "--name", "x", "--score", "1", *at)
    assert done.exit_code == 1 and "no run 'nobody'" in done.stderr
    nowhere = run("evaluate", "x", "--name", "x", "--score", "1", "--ledger", str(tmp_path / "none.db"))
    assert nowhere.exit_code == 2 and not (tmp_path / "none.db").exists()
    assert run("runs", "--evaluation", "x>=good", *at).exit_code == 1


def test_a_run_whose_process_died_is_ended(run, path: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        ledger.record("execution.run_started", {"run_id": "lost"}, correlation_id="c")
    at = ("--ledger", str(path))
    done = run("end", "lost", "--status", "failed", "--reason", "out of memory", *at)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("recorded execution.run_failed of lost, at position 2\n")
    assert "out of memory" in run("runs", *at).stdout
    again = run("end", "lost", *at)
    assert again.exit_code == 1 and "has ended with execution.run_failed" in again.stderr
    assert run("end", "lost", "--ledger", str(path) + "x").exit_code == 2
