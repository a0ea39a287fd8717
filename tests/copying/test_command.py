"""``chatsnapshot copy`` and ``promote``: what they print, and their exit codes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

import chatsnapshot
from chatsnapshot.cli.following import Told
from chatsnapshot.cli.main import cli
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.copying import Following
from chatsnapshot.testing.samples import event, events

APART: dict[str, Any] = (
    {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
)
Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """``run("copy", "runs.db", "copy.db")`` in a folder with ``runs.db``, of six events."""
    monkeypatch.chdir(tmp_path)
    with chatsnapshot.open("runs.db") as ledger:
        ledger.record_many(events(6))
    return lambda *arguments: CliRunner(**APART).invoke(cli, list(arguments))


def test_copy_says_what_was_copied_and_that_it_waits(run: Run) -> None:
    done = run("copy", "runs.db", "copy.jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "verified, 6 entries" in done.stdout and "head 6  root " in done.stdout
    assert "until 'chatsnapshot promote'" in done.stdout


def test_copy_as_json_and_without_verifying(run: Run) -> None:
    first = json.loads(run("copy", "runs.db", "copy.db", "--json").stdout)
    again = json.loads(run("copy", "runs.db", "copy.db", "--json", "--no-verify").stdout)
    assert (first["head"], first["entries"], first["verified"], first["erased"]) == (6, 6, True, 0)
    assert (again["head"], again["entries"], again["verified"], again["erased"]) == (6, 0, False, None)
    assert first["root"] == again["root"]
    with chatsnapshot.open("runs.db") as ledger:
        assert first["ledger_id"] == ledger.ledger_id


def test_copy_and_promote_in_one_step(run: Run) -> None:
    made = json.loads(run("copy", "runs.db", "moved.db", "--promote", "--json").stdout)
    assert made["promoted"]["position"] == 7
    assert run("record", "a.b", "{}", "--correlation", "c", "--ledger", "moved.db").exit_code == 0
    refused = run("copy", "runs.db", "moved.db")
    assert refused.exit_code == 1 and "was promoted at position 7" in refused.stderr


def test_promote_says_where_and_which_ledger_it_is_now(run: Run) -> None:
    run("copy", "runs.db", "copy.db")
    told = run("promote", "copy.db", "--reason", "a test")
    assert told.exit_code == 0 and "promoted at position 7" in told.stdout
    found = json.loads(run("promote", "copy.db", "--json").stdout)
    assert (found["position"], found["reason"]) == (7, "a test")
    with chatsnapshot.open("copy.db") as ledger:
        assert found["ledger_id"] == ledger.ledger_id


def test_recording_in_a_copy_names_the_way_out(run: Run) -> None:
    run("copy", "runs.db", "copy.db")
    refused = run("record", "a.b", "{}", "--correlation", "c", "--ledger", "copy.db")
    assert refused.exit_code == 1 and "run chatsnapshot promote" in refused.stderr


def test_exit_codes_of_what_is_not_there_and_what_is_damaged(run: Run) -> None:
    assert run("copy", "none.db", "copy.db").exit_code == 2
    assert run("promote", "none.db").exit_code == 2
    assert run("promote", "runs.db").exit_code == 1
    assert run("copy", "runs.db", "runs.db").exit_code == 1
    assert run("copy", "runs.db", "none/copy.db").exit_code == 1
    assert run("copy", "runs.db", "copy.db", "--follow", "--promote").exit_code == 1
    db = apsw.Connection("runs.db")
    db.execute("DROP TRIGGER entry_fixed; UPDATE entry SET event_type = 'forged.type' WHERE position = 4")
    db.close()
    damaged = run("copy", "runs.db", "copy.jsonl")
    assert damaged.exit_code == 3 and "position 4" in damaged.stderr


# --- progress ---


def test_lines_tell_how_far_a_copy_is_where_no_terminal_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("chatsnapshot.cli.progress._LINE_SECONDS", 0.0)
    with Progress(lines=True) as progress:
        progress.show("copying", 12_000, 40_000)
        progress.show("copying", 40_000, 40_000)
    with Progress() as progress:
        progress.show("copying", 1, 2)
    assert capsys.readouterr().err == "copying 12,000 of 40,000\n"


def test_a_follower_tells_turns_at_once_and_the_rest_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def state(position: int, head: int, problem: str | None = None) -> Following:
        return Following(
            source="a", target="b", position=position, head=head, problem=problem, behind_seconds=2
        )

    told = Told(Terminal.stdout(), as_json=False)
    for one in (state(10, 30), state(20, 30), state(30, 30), state(30, 30, "the server is away\x1b[31m")):
        told.state(one)
    told.state(state(31, 31))
    monkeypatch.setattr("chatsnapshot.cli.following._LINE_SECONDS", 0.0)
    told.state(state(32, 32))
    told.end()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "position 10 of 30, 2.0 s behind",
        "waiting at position 30: the server is away␛[31m",
        "position 31, up to date",
        "position 32, up to date",
    ]


def test_a_quiet_end_repeats_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(Terminal.stdout(), as_json=False)
    told.end()
    assert capsys.readouterr().out == ""


def test_more_than_one_ledger_of_a_file_is_copied_by_name(run: Run) -> None:
    with chatsnapshot.open("runs.db?ledger=tenant-a") as ledger:
        ledger.record(**event(1))
    made = json.loads(run("copy", "runs.db?ledger=tenant-a", "copies.db?ledger=tenant-a", "--json").stdout)
    assert made["head"] == 1
