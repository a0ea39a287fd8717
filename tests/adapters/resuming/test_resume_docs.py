"""The page and the example on going on after a kill say what the code does."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from chatsnapshot.adapters.ag2 import ResumedChat, ResumedGroup, ResumedRun, aresume_run, resume_run

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "ag2-saving.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Resume after a kill", 1)[1].split("\n## ", 1)[0]


def test_the_example_kills_itself_and_goes_on(tmp_path: Path) -> None:
    example = ROOT / "examples" / "ag2_resume_after_kill.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "executed: {'book': 1, 'pay': 2}" in lines
    assert lines[-2:] == ["run case-7 completed ['unfinished', 'completed']", "verified: True"]


def test_every_option_stands_in_the_section() -> None:
    options = {
        name
        for function in (resume_run, aresume_run, ResumedChat.go_on, ResumedGroup.go_on, ResumedRun.go_on)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert {name for name in options if f"{name}=" not in SECTION} == set()


def test_the_attributes_that_the_section_names_are_there() -> None:
    named = set(re.findall(r"`resumed\.(\w+)", SECTION)) - {"ask"}
    assert named == {"open_calls", "ended"}
    for kind in (ResumedRun, ResumedChat, ResumedGroup):
        source = inspect.getsource(kind.__init__)
        assert all(f"self.{name}" in source for name in named)
