"""What the tests of kinds share: a ledger on each store, and programs of their own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger

FILES = {"sqlite": "runs.db", "jsonl": "runs.jsonl"}


@pytest.fixture(params=["memory", *FILES])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger goes, once for each store."""
    return "memory:" if request.param == "memory" else str(tmp_path / FILES[request.param])


@pytest.fixture(params=list(FILES))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger goes, once for each store that keeps files."""
    return str(tmp_path / FILES[request.param])


@pytest.fixture
def opened() -> Iterator[Callable[..., Ledger]]:
    """``opened(url, **options)``: a ledger that is closed when the test ends."""
    ledgers: list[Ledger] = []

    def open_one(url: object, **options: Any) -> Ledger:
        ledgers.append(chatsnapshot.open(url, **options))  # type: ignore[arg-type]
        return ledgers[-1]

    yield open_one
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def ledger(url: str, opened: Callable[..., Ledger]) -> Ledger:
    """An empty ledger, once for each store."""
    return opened(url)


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python(program, *arguments)``: run it from a file of its own, so that spawned children can import it."""

    def run(
        program: str, *arguments: object, code: int = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "program.py"
        file.write_text(program)
        done = subprocess.run(
            # Python 3.12 and on warns of every fork beside a thread.
            [
                sys.executable,
                "-W",
                "error",
                "-W",
                "ignore::DeprecationWarning",
                str(file),
                *map(str, arguments),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            **options,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``start("-m", "chatsnapshot", "runs")``: a Python process that goes on beside the test and ends with it."""
    with contextlib.ExitStack() as running:

        def begin(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield begin


@pytest.fixture
def numbers() -> Callable[[str], list[int]]:
    """``numbers(path)``: what is stored under ``a.b``, after a check of the whole ledger."""

    def read(path: str) -> list[int]:
        with chatsnapshot.open(path, read_only=True) as ledger:
            assert ledger.verify().ok
            return [entry.payload["n"] for entry in ledger.read(event_type="a.b")]

    return read
