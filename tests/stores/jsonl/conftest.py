"""What the tests of the JSONL store share: a path, ledgers that are closed, events, the lines of a file, programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.policies import Opening
from chatsnapshot.stores.jsonl import JsonlStore
from chatsnapshot.stores.jsonl_file import FileIO
from chatsnapshot.stores.open import locate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a JSONL ledger goes, in a folder of its own."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    return folder / "runs.jsonl"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., Ledger]]:
    """``opened()``: the ledger at ``path``; ``opened(files=...)`` with other files under it."""
    ledgers: list[Ledger] = []

    def open_one(
        at: Path | None = None,
        *,
        files: FileIO | None = None,
        limits: Limits = DEFAULTS,
        durability: str = "full",
        **options: Any,
    ) -> Ledger:
        target = at or path
        if files is None:
            ledger = chatsnapshot.open(target, limits=limits, durability=durability, **options)
        else:
            ledger = with_files(target, files, limits=limits, durability=durability)
        ledgers.append(ledger)
        return ledger

    yield open_one
    for ledger in ledgers:
        ledger.close()


def with_files(path: Path, files: FileIO, *, limits: Limits = DEFAULTS, durability: str = "full") -> Ledger:
    """A ledger over a JSONL store whose files are ``files``."""
    import time

    location = locate(path)
    store = JsonlStore(
        location.url,
        location.path,
        create=True,
        read_only=False,
        durability=durability,
        clock=time.time_ns,
        entropy=os.urandom,
        limits=limits,
        files=files,
    )
    opening = Opening(location=location, durability=durability, limits=limits)
    return Ledger(opening, store)


@pytest.fixture
def event() -> Callable[..., dict[str, Any]]:
    """``event(3)``: the arguments of one record."""

    def make(number: int, correlation_id: str = "run-1", **options: Any) -> dict[str, Any]:
        return {
            "event_type": "execution.message",
            "correlation_id": correlation_id,
            "payload": {"number": number, "text": f"number {number}"},
            **options,
        }

    return make


@pytest.fixture
def lines(path: Path) -> Callable[..., list[dict[str, Any]]]:
    """The entries of the file as plain JSON, without its header."""

    def read(at: Path | None = None) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (at or path).read_bytes().splitlines()[1:]]

    return read


@pytest.fixture
def without_index() -> Callable[[Path], None]:
    """Take the index of a ledger away."""

    def remove(path: Path) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}.index.db{suffix}").unlink(missing_ok=True)

    return remove


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``program(code, *arguments)``: a Python process whose output can be read line by line."""
    running: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        running.append(
            subprocess.Popen(
                [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stdin=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate(timeout=30)
