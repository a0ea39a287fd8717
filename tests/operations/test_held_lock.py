"""A lock that another process does not give up: looking, copying and restoring end with a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chatsnapshot import StoreUnavailable
from chatsnapshot.backup import backup, restore
from chatsnapshot.fsck import fsck
from chatsnapshot.stores import filelock

Fill = Callable[..., None]

HOLDS = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def jsonl(tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A JSONL ledger whose lock a process holds that does nothing else; patience is short."""
    pytest.importorskip("fcntl")
    path = tmp_path / "runs.jsonl"
    fill(path, 12)
    backup(path, tmp_path / "before.jsonl")
    monkeypatch.setattr(filelock, "PATIENCE_SECONDS", 0.05)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, f"{path}.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    yield path
    holder.communicate("")


def test_fsck_does_not_wait_for_ever(jsonl: Path) -> None:
    with pytest.raises(
        StoreUnavailable, match=r"runs\.jsonl\.lock stayed locked by another writer for 0\.05 s"
    ):
        fsck(jsonl)


def test_a_repair_does_not_wait_for_ever(jsonl: Path) -> None:
    with pytest.raises(StoreUnavailable, match="stayed locked"):
        fsck(jsonl, repair_tail=True)


def test_a_backup_does_not_wait_for_ever(jsonl: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(StoreUnavailable, match="stayed locked"):
        backup(jsonl, tmp_path / "copy.jsonl")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_restore_does_not_wait_for_ever(jsonl: Path, tmp_path: Path) -> None:
    before = jsonl.read_bytes()
    with pytest.raises(StoreUnavailable, match="stayed locked"):
        restore(tmp_path / "before.jsonl", jsonl, force=True)
    assert jsonl.read_bytes() == before


def test_the_lock_can_be_taken_after_the_wait_was_given_up(tmp_path: Path, jsonl: Path) -> None:
    lock = filelock.file_lock(f"{jsonl}.lock")
    other = filelock.file_lock(str(tmp_path / "free.lock"))
    try:
        with pytest.raises(StoreUnavailable), lock.held(0.02):
            pass
        with other.held(0.02):
            pass
        with other.held():
            pass
    finally:
        lock.close()
        other.close()
