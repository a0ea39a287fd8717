"""``demo``: the command hands its ledger over and ends as the demonstration ends."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize("code", [0, 3])
def test_the_demonstration_plays_into_the_ledger_that_is_named(
    run, path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def main(url: str, *, say: Callable[[str], None]) -> int:
        say(f"playing into {url}\x1b[2J")
        return code

    stage = types.ModuleType("chatsnapshot.demo")
    stage.main = main  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "chatsnapshot.demo", stage)
    done = run("demo", "--ledger", str(path))
    assert done.exit_code == code
    assert done.stdout == f"playing into {path}␛[2J\n"
