"""Programs that know nothing of any recording, and ways to run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

PROGRAMS = Path(__file__).with_name("programs")


class Program:
    """One of the programs, run by itself or under ``chatsnapshot run``."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.file = PROGRAMS / f"{name}.py"
        self.ledger = folder / "runs.db"

    def command(self, *arguments: str, options: tuple[str, ...] = (), recorded: bool = True) -> list[str]:
        plain = [sys.executable, str(self.file), *arguments]
        if not recorded:
            return plain
        ours = [sys.executable, "-m", "chatsnapshot", "run", "--ledger", str(self.ledger), *options]
        return [*ours, "--", *plain]

    def __call__(
        self, *arguments: str, env: dict[str, str] | None = None, **options: Any
    ) -> tuple[int, str, str]:
        """Run it to its end; gives exit code, output and errors."""
        ended = subprocess.run(
            self.command(
                *arguments, **{key: options[key] for key in ("options", "recorded") if key in options}
            ),
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            input=options.get("given", ""),
        )
        return ended.returncode, ended.stdout, ended.stderr

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it recorded, in a process group of its own, and wait until it says that it is ready."""
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def events(self) -> list[Any]:
        with chatsnapshot.open(self.ledger, read_only=True) as ledger:
            assert ledger.verify().ok
            return list(ledger.read())

    def ends(self) -> list[tuple[str, str, Any]]:
        """Name, kind of end, and error or reason of every run, in the order of their ends."""
        found = []
        for entry in self.events():
            kind = entry.event_type.removeprefix("execution.run_")
            if entry.event_type.startswith("execution.run_") and kind not in ("started", "resumed"):
                why = entry.payload.get("error", entry.payload.get("reason", entry.payload.get("output")))
                found.append((entry.event.source.name, kind, why))
        return found


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Program]:
    """``program(name)``: one of the programs, with a folder of its own to work in."""
    return lambda name: Program(tmp_path, name)
