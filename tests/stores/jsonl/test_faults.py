"""Failing writes and syncs: definite errors leave nothing, uncertain ones are settled before anything else is stored."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import CommitUncertain, StoreFull, StorePoisoned
from chatsnapshot.stores.jsonl_file import FileIO

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


class FailingIO(FileIO):
    """Fails the calls named in ``failing`` on the ledger's file; a write may take some bytes first."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = str(path)
        self.failing: dict[str, int] = {}
        self.takes: int | None = None
        self.names_of: dict[int, str] = {}
        self.synced: list[str] = []

    def _fail(self, name: str, path: str | None) -> None:
        code = self.failing.get(name)
        if code is not None and path is not None and path.startswith(self.path) and ".doubt" not in path:
            raise OSError(code, os.strerror(code))

    def _name(self, descriptor: int, path: str) -> int:
        self.names_of[descriptor] = path
        return descriptor

    def open_to_append(self, path: str) -> int:
        return self._name(super().open_to_append(path), path)

    def open_to_change(self, path: str) -> int:
        return self._name(super().open_to_change(path), path)

    def create(self, path: str) -> int:
        self._fail("create", path)
        return self._name(super().create(path), path)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if self.takes is not None:
            takes, self.takes = self.takes, None
            return super().write(descriptor, data[:takes])
        self._fail("write", self.names_of.get(descriptor))
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._fail("sync", self.names_of.get(descriptor))
        self.synced.append(self.names_of.get(descriptor, "?"))
        super().sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        self._fail("truncate", self.names_of.get(descriptor))
        super().truncate(descriptor, size)


@pytest.fixture
def files(path: Path) -> FailingIO:
    return FailingIO(path)


@pytest.fixture
def ledger(opened: Open, files: FailingIO, event: Event) -> Ledger:
    ledger = opened(files=files)
    ledger.record_many([event(1), event(2)])
    return ledger


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("takes", [None, 1, 300])
def test_no_space_is_definite_and_recording_goes_on_when_there_is_some(
    ledger: Ledger, files: FailingIO, path: Path, event: Event, code: int, takes: int | None
) -> None:
    before = path.read_bytes()
    files.failing, files.takes = {"write": code}, takes
    with pytest.raises(StoreFull):
        ledger.record_many([event(3), event(4)])
    assert path.read_bytes() == before
    assert ledger.head == 2
    with pytest.raises(StoreFull):
        ledger.record(**event(3))
    files.failing = {}
    assert ledger.record(**event(3)).position == 3
    assert ledger.verify().ok
    assert list(path.parent.glob("*.torn*")) == []


def test_a_short_write_is_completed(ledger: Ledger, files: FailingIO, event: Event) -> None:
    files.takes = 17
    assert [entry.position for entry in ledger.record_many([event(3), event(4)])] == [3, 4]
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "failing",
    [{"sync": errno.EIO}, {"write": errno.EIO}, {"write": errno.ENOSPC, "truncate": errno.EIO}],
    ids=str,
)
@pytest.mark.parametrize("takes", [None, 100])
def test_an_uncertain_commit_is_settled_by_a_new_file_and_its_retry_stores_once(
    ledger: Ledger, files: FailingIO, path: Path, event: Event, failing: dict[str, int], takes: int | None
) -> None:
    inode = path.stat().st_ino
    files.failing, files.takes = failing, takes
    with pytest.raises(CommitUncertain) as caught:
        ledger.record_many([event(3), event(4)])
    assert [one.payload["number"] for one in caught.value.events] == [3, 4]
    with pytest.raises(StorePoisoned):
        ledger.record(**event(5))
    files.failing = {}
    files.synced.clear()
    entries = ledger.record_many(caught.value.events)
    assert [entry.position for entry in entries] == [3, 4]
    assert files.synced[0] == f"{path}.new", "the doubtful bytes are written anew, not synced again"
    assert path.stat().st_ino != inode
    assert ledger.record_many(caught.value.events) == entries
    assert ledger.record(**event(5)).position == 5
    assert [entry.payload["number"] for entry in ledger.read()] == [1, 2, 3, 4, 5]
    assert ledger.verify().ok
    assert not Path(f"{path}.doubt").exists()


def test_another_process_settles_what_a_lost_one_left_in_doubt(
    ledger: Ledger, files: FailingIO, path: Path, opened: Open, event: Event
) -> None:
    files.failing = {"sync": errno.EIO}
    with pytest.raises(CommitUncertain):
        ledger.record(**event(3))
    other_files = FailingIO(path)
    other = opened(files=other_files)
    assert f"{path}.new" in other_files.synced
    assert other.record(**event(4)).position == 4
    assert other.verify().ok


def test_readers_see_nothing_of_an_uncertain_commit_before_it_is_settled(
    ledger: Ledger, files: FailingIO, event: Event, opened: Open
) -> None:
    files.failing = {"sync": errno.EIO}
    with pytest.raises(CommitUncertain):
        ledger.record(**event(3))
    assert ledger.head == 2
    assert [entry.position for entry in ledger.read()] == [1, 2]


def test_ctrl_c_between_write_and_answer_loses_nothing_and_blocks_nobody(
    ledger: Ledger, files: FailingIO, event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.record(**event(3))
    assert ledger.record(**event(4)).position == 4
    assert [entry.payload["number"] for entry in ledger.read()] == [1, 2, 3, 4]
    assert ledger.verify().ok


def test_a_ledger_that_cannot_be_made_leaves_nothing(path: Path, opened: Open) -> None:
    files = FailingIO(path)
    files.failing = {"create": errno.ENOSPC}
    with pytest.raises(StoreFull):
        opened(files=files)
    assert not path.exists()
    assert opened().head == 0


def test_a_blob_that_cannot_be_stored_stores_no_entry(ledger: Ledger, files: FailingIO, event: Event) -> None:
    files.failing = {"create": errno.ENOSPC}
    with pytest.raises(StoreFull):
        ledger.record("execution.output", {"data": b"x" * 100_000}, correlation_id="run-1")
    files.failing = {}
    assert ledger.head == 2
    ledger.record("execution.output", {"data": b"x" * 100_000}, correlation_id="run-1")
    assert ledger.verify().ok


def test_an_index_that_cannot_be_committed_costs_nothing_but_its_making(
    ledger: Ledger, event: Event, path: Path
) -> None:
    index = ledger._store._writer.index.db  # type: ignore[attr-defined]
    index.set_commit_hook(lambda: True)  # turns the commit into a rollback
    assert ledger.record(**event(3)).position == 3
    assert ledger.head == 3
    assert ledger.record(**event(4)).position == 4
    assert ledger.verify().ok


LIMITED = """
import resource, sys
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
stored = 0
try:
    for number in range(10_000):
        ledger.record("execution.message", {"text": "x" * 3_000}, correlation_id="run-1")
        stored += 1
except chatsnapshot.StoreFull:
    print(stored)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.record("execution.message", {"text": "there is room"}, correlation_id="run-1")
report = ledger.verify()
print(report.ok, report.head)
"""


def test_a_limit_on_the_size_of_files_is_a_full_store(path: Path) -> None:
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    stored, sound, head = done.stdout.split()
    assert int(stored) > 40
    assert (sound, int(head)) == ("True", int(stored) + 1)


def test_a_folder_without_permission_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(chatsnapshot.LedgerError, match="does not exist"):
        chatsnapshot.open(tmp_path / "nowhere" / "runs.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(chatsnapshot.LedgerError, match="is a folder"):
        chatsnapshot.open(tmp_path / "folder.jsonl")
