"""The examples of agents that read their own past run as they stand, offline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_loop_answers_from_what_an_earlier_run_recorded_and_cites_it(tmp_path: Path) -> None:
    said = run("own_past_loop.py", tmp_path).splitlines()
    assert said[0] == "Good morning! -> I do not know yet."
    assert (
        said[2]
        == "What is our refund policy? -> 30 days, as recorded: [position 4, run monday, tool_result look_up]"
    )
    assert said[-1] == "True"


def test_an_ag2_agent_begins_with_the_past_of_a_run_and_recalls_more(tmp_path: Path) -> None:
    pytest.importorskip("ag2")
    said = run("own_past_ag2.py", tmp_path)
    assert said.startswith("began with 7 events of AG2 (")
    assert "Handbook on refunds: money is paid back within 30 days." in said
    assert "[position 6, run monday, tool_result look_up]" in said
    assert said.splitlines()[-1] == "True"
