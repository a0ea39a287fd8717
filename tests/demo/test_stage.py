"""The demonstration itself: real processes, a real kill, real agents, and what the ledger tells of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import LedgerError
from chatsnapshot.demo import run

TASKS = ["intake", "triage", "decide", "make_good", "reply"]


class Shown:
    """One play as it is by default, which the tests of this file share: what it said, and a ledger to copy."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "runs.db"
        self.said: list[str] = []
        self.played = run(str(self.path), say=self.said.append)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return Shown(tmp_path_factory.mktemp("shown"))


@pytest.mark.parametrize("kill_after", ["intake", "triage", "make_good"])
def test_no_completed_task_runs_twice_over_a_kill(tmp_path: Path, kill_after: str, shown: Shown) -> None:
    played = shown.played
    if kill_after != "triage":  # that is the default
        played = run(str(tmp_path / "runs.db"), kill_after=kill_after)
    assert played.first_returncode == -signal.SIGKILL
    assert played.before == TASKS[: TASKS.index(kill_after) + 1]
    assert played.after == TASKS[TASKS.index(kill_after) + 1 :]
    assert [line.partition(":")[0] for line in played.book] == TASKS


def test_the_ledger_tells_the_whole_case(shown: Shown) -> None:
    with chatsnapshot.open(shown.path, read_only=True) as ledger:
        entries = list(ledger.replay(shown.played.case, children=True))
        report = ledger.verify()
        assert len(entries) == ledger.head
    assert report.ok
    types = [entry.event_type for entry in entries]
    for event_type in (
        "ui.input_received",
        "system.workflow_started",
        "system.workflow_resumed",
        "system.workflow_completed",
        "integration.call",
        "integration.response",
        "execution.human_input_requested",
        "execution.human_input_received",
        "ui.output_displayed",
    ):
        assert event_type in types, event_type
    assert types.count("system.workflow_started") == 1
    results = [entry.payload for entry in entries if entry.event_type == "execution.tool_result"]
    assert [one["name"] for one in results if one["is_error"]] == ["look_up_order"]
    assert {one["name"] for one in results} >= {
        "look_up_order",
        "check_policy",
        "task_archivist",
        "ask_manager",
    }
    archivist = [entry for entry in entries if entry.source.name == "archivist"]
    cause = next(entry for entry in entries if entry.event_id == archivist[0].causation_id)
    assert (cause.event_type, cause.payload["name"]) == ("execution.tool_call", "task_archivist")
    known = {entry.event_id for entry in entries}
    assert [entry.event_type for entry in entries if entry.causation_id not in known] == ["ui.input_received"]
    assert any("SIGKILL" in line for line in shown.said)


def test_it_can_be_played_again_on_the_same_ledger(tmp_path: Path, shown: Shown) -> None:
    shutil.copytree(shown.path.parent, tmp_path / "copy")
    again = run(str(tmp_path / "copy" / "runs.db"))
    assert [shown.played.case, again.case] == ["lamp-1", "lamp-2"]


def test_a_ledger_in_memory_is_refused_with_a_reason() -> None:
    with pytest.raises(LedgerError, match="give it a ledger on disk"):
        run("memory:")


def test_it_shows_the_case_and_says_what_to_try_next(tmp_path: Path) -> None:
    code = "import sys; from chatsnapshot.demo import main; sys.exit(main('runs.db'))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "120", "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("runs --last 1", "timeline lamp-1", "transcript lamp-1", "verify"):
        assert f"$ chatsnapshot {command} --ledger runs.db" in done.stdout
    assert "$ chatsnapshot show lamp-1 --html lamp-1.html --ledger runs.db" in done.stdout
    page = (tmp_path / "lamp-1.html").read_text(encoding="utf-8")
    assert "completed, 1 tool error" in page and "look_up_order" in page and "</span> verified</span>" in page
    assert "none happened twice" in done.stdout
    assert "workflow broken lamp resumed" in done.stdout
    assert "sound" in done.stdout
    assert done.stdout.splitlines()[-2].startswith("Next: chatsnapshot replay lamp-1")
