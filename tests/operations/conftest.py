"""Ledgers on both durable stores, programs in processes of their own, and mounts that only they see."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import chatsnapshot
from chatsnapshot.cli.main import cli

STORES = {"sqlite": "runs.db", "jsonl": "runs.jsonl"}

Program = Callable[..., "subprocess.Popen[str]"]
Mounted = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=sorted(STORES))
def name(request: pytest.FixtureRequest) -> str:
    """The file name of a ledger, once for each durable store."""
    return STORES[request.param]


@pytest.fixture
def path(name: str, tmp_path: Path) -> Path:
    """Where a ledger goes, in a folder of its own, once for each durable store."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    return folder / name


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    """Where a copy of it goes."""
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder / f"copy{path.suffix}"


@pytest.fixture
def fill() -> Callable[..., None]:
    """``fill(path, 30)``: record so many events, every tenth with a blob, and close."""

    def record(path: Path, count: int, first: int = 0, **options: Any) -> None:
        with chatsnapshot.open(path, durability="os", **options) as ledger:
            ledger.record_many(
                [
                    {
                        "event_type": "execution.message",
                        "correlation_id": f"run-{number % 3}",
                        "payload": {"number": number}
                        | ({"data": bytes([number % 251]) * 40_000} if number % 10 == 0 else {}),
                    }
                    for number in range(first, first + count)
                ]
            )

    return record


@pytest.fixture
def run() -> Callable[..., Result]:
    """``run("doctor", "--json")``: one command line, in this process."""
    return lambda *arguments: CliRunner().invoke(cli, [str(one) for one in arguments])


@pytest.fixture
def program() -> Iterator[Program]:
    """``program(code, *arguments)``: a Python process; at the end of the test it is killed at the latest."""
    running: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.fixture
def mounted() -> Mounted:
    """``mounted("mount -t tmpfs none /x", code, *arguments)``: a Python program with mounts that only it sees."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    possible = (
        shutil.which("unshare") is not None
        and subprocess.run([*unshare, "true"], capture_output=True).returncode == 0
    )
    if not possible:
        pytest.skip("mounts of one's own are refused here (unshare -m)")

    def start(mounts: str, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        script = f'{mounts} && exec "$0" -W error -c "$@"'
        return subprocess.run(
            [*unshare, "sh", "-ec", script, sys.executable, code, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=100,
        )

    return start


@pytest.fixture
def numbers() -> Callable[[Path], list[int]]:
    """``numbers(path)``: what :func:`fill` and the writers of these tests have recorded, in order."""

    def read(path: Path) -> list[int]:
        with chatsnapshot.open(path, create=False, read_only=True) as ledger:
            return [entry.payload["number"] for entry in ledger.read()]

    return read
