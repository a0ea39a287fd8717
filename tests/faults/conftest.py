"""What the fault tests share: the seed, ledgers over a journaled disk, crashes and what is found after them, programs."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.policies import Opening
from chatsnapshot.stores import sqlite_schema
from chatsnapshot.stores.base import Store
from chatsnapshot.stores.jsonl import JsonlStore
from chatsnapshot.stores.open import locate, open_store
from chatsnapshot.testing.faults import (
    CrashState,
    Journal,
    JournalFiles,
    checkpoint_as_sqlite_does,
    lay_out,
    vfs_under,
)

STORES = {"sqlite": "runs.db", "jsonl": "runs.jsonl"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is a fault test."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.faults)


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
def seeded(seeded: random.Random, request: pytest.FixtureRequest) -> random.Random:
    """Chance that ``CHATSNAPSHOT_TEST_SEED`` repeats; the seed is printed with a failure."""
    print(
        f"repeat with CHATSNAPSHOT_TEST_SEED (see the header) and: pytest -m faults '{request.node.nodeid}'"
    )
    return seeded


@contextmanager
def journaled(
    path: Path, *, limits: Limits = DEFAULTS, durability: str = "full", journal: Journal | None = None
) -> Iterator[tuple[Ledger, Journal]]:
    """A ledger of the real store over files that are journaled, those of its index too."""
    journal = journal or Journal(path.parent)
    with vfs_under(journal):
        location = locate(path)
        options: dict[str, Any] = {
            "create": True,
            "read_only": False,
            "durability": durability,
            "clock": time.time_ns,
            "entropy": os.urandom,
            "limits": limits,
        }
        store: Store
        if location.kind == "jsonl":
            files = JournalFiles(journal, durability)
            store = JsonlStore(location.url, location.path, files=files, **options)
        else:
            store = open_store(location, **options)
        ledger = Ledger(Opening(location=location, source=None, **options), store)
        try:
            yield ledger, journal
        finally:
            journal.heal()
            ledger.close()


@pytest.fixture
def over_journal() -> Callable[..., Any]:
    """``with over_journal(path) as (ledger, journal)``."""
    return journaled


@pytest.fixture
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite brings its log over every few commits, so that crashes fall into the middle of it."""
    connect = sqlite_schema.connect

    def connect_with_small_log(path: str, *, write: bool, **options: Any) -> apsw.Connection:
        db = connect(path, write=write, **options)
        if write:
            checkpoint_as_sqlite_does(db, 24)
        return db

    monkeypatch.setattr(sqlite_schema, "connect", connect_with_small_log)


class Found(NamedTuple):
    """What is in a ledger that was opened after a crash."""

    entries: list[Any]
    problems: tuple[Any, ...]
    went_on: bool
    """A record got the next position, and the ledger verified after it."""
    bytes: bytes
    """Of all its files, after it was closed again."""


class Aftermath:
    """Opens what a crash has left, once for each distinct set of files."""

    def __init__(self, folder: Path, name: str, limits: Limits = DEFAULTS) -> None:
        self.folder = folder
        self.name = name
        self.limits = limits
        self.opened = 0
        self._known: dict[bytes, Found] = {}

    def find(self, state: CrashState) -> Found:
        """Open it with the real store: an error of any kind is a failure of the test."""
        digest = state.digest()
        found = self._known.get(digest)
        if found is None:
            self.opened += 1
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            lay_out(state, self.folder)
            try:
                found = self._look()
            except BaseException as error:
                raise AssertionError(
                    f"after a crash at step {state.step} ({state.how}): {error!r}"
                ) from error
            self._known[digest] = found
        return found

    def _look(self) -> Found:
        # Nothing here needs to survive: the weaker durability saves the syncs.
        with chatsnapshot.open(self.folder / self.name, durability="os", limits=self.limits) as ledger:
            entries = [entry._identity() for entry in ledger.read()]
            report = ledger.verify()
            entry = ledger.record("execution.message", {"text": "going on"}, correlation_id="after")
            went_on = entry.position == len(entries) + 1 and ledger.verify().ok
        data = b"".join(one.read_bytes() for one in sorted(self.folder.rglob("*")) if one.is_file())
        return Found(entries, report.problems, went_on, data)


@pytest.fixture
def aftermath(tmp_path: Path, name: str) -> Callable[..., Aftermath]:
    """``aftermath(limits=...)``: opens crash states of the ledger at ``path``."""
    return lambda limits=DEFAULTS: Aftermath(tmp_path / "crash", name, limits)


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
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``program(code, *arguments)``: a Python process; at the end of the test it is killed at the latest."""
    running: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            **options,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def _mounts(*unshare: str) -> bool:
    command = [*unshare, "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"]
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.fixture
def small_file_system(require: Callable[[object, str], None]) -> list[str]:
    """A command to begin with, that is allowed to mount a file system which nobody else sees."""
    if not sys.platform.startswith("linux"):
        pytest.skip("small file systems are mounted on Linux only")
    ways = [["unshare", "-m"], ["unshare", "-Urm"]]
    allowed = next((way for way in ways if _mounts(*way)), [])
    require(allowed, "leave to mount a small file system (unshare -m, or user namespaces for unshare -Urm)")
    return allowed
