"""A restore puts a verified backup in the place of a ledger and throws nothing away."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import Limits
from chatsnapshot.backup import backup, restore
from chatsnapshot.errors import Corrupt, LedgerError, NotFound, StoreUnavailable
from chatsnapshot.stores import jsonl_copy

Fill = Callable[..., None]
Numbers = Callable[[Path], list[int]]


@pytest.fixture
def backed_up(path: Path, copy: Path, fill: Fill) -> Path:
    """A backup of ten entries; the ledger has gone on to fifteen."""
    fill(path, 10)
    backup(path, copy)
    fill(path, 5, first=10)
    return copy


def remove(path: Path) -> None:
    for file in sorted(path.parent.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()


def test_a_lost_ledger_is_there_again_and_goes_on(
    path: Path, backed_up: Path, fill: Fill, numbers: Numbers
) -> None:
    remove(path)
    made = restore(backed_up, path)
    assert (made.ledgers[0].head, made.kept) == (10, None)
    fill(path, 1, first=10)
    assert numbers(path) == list(range(11))
    with (
        chatsnapshot.open(path, read_only=True) as ledger,
        chatsnapshot.open(backed_up, read_only=True) as old,
    ):
        assert ledger.ledger_id == old.ledger_id
        assert ledger.verify().ok


def test_an_existing_ledger_is_refused(path: Path, backed_up: Path, numbers: Numbers) -> None:
    with pytest.raises(LedgerError, match=r"is there already.*--force"):
        restore(backed_up, path)
    assert numbers(path) == list(range(15))


def test_with_force_the_ledger_that_was_there_is_kept_beside(
    path: Path, backed_up: Path, numbers: Numbers
) -> None:
    made = restore(backed_up, path, force=True)
    assert numbers(path) == list(range(10))
    assert made.kept is not None and ".replaced-" in made.kept
    kept = Path(made.kept)
    if kept.is_dir():
        kept = kept / path.name
    url = kept if path.suffix == ".jsonl" else Path(f"sqlite://{kept}")
    assert numbers(url) == list(range(15))


def test_what_was_only_in_the_log_of_the_ledger_that_was_there_is_kept_too(
    tmp_path: Path, fill: Fill, program: Callable, numbers: Numbers
) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    fill(path, 2)
    backup(path, copy)
    killed = program(
        "import chatsnapshot, sys, os, signal\n"
        "ledger = chatsnapshot.open(sys.argv[1])\n"
        "ledger.record('a.b', {'number': 2}, correlation_id='c')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        path,
    )
    killed.wait(60)
    assert Path(f"{path}-wal").stat().st_size > 0
    made = restore(copy, path, force=True)
    assert numbers(path) == [0, 1]
    assert numbers(Path(str(made.kept))) == [0, 1, 2]


def test_a_ledger_that_is_damaged_beyond_reading_is_replaced_and_kept(
    tmp_path: Path, fill: Fill, numbers: Numbers
) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    fill(path, 5)
    backup(path, copy)
    path.write_bytes(b"\0" * 4096)
    Path(f"{path}-wal").write_bytes(b"what is left of a log")
    made = restore(copy, path, force=True)
    assert numbers(path) == list(range(5))
    assert Path(str(made.kept)).read_bytes() == b"\0" * 4096
    assert Path(f"{made.kept}-wal").read_bytes() == b"what is left of a log"


@pytest.mark.parametrize("read_only", [False, True], ids=["written", "read"])
def test_a_ledger_in_use_is_not_replaced(
    path: Path, tmp_path: Path, fill: Fill, numbers: Numbers, read_only: bool
) -> None:
    copy = tmp_path / f"copy{path.suffix}"
    fill(path, 5)
    backup(path, copy)
    with chatsnapshot.open(path, read_only=read_only) as ledger:
        assert len(list(ledger.read())) == 5
        if not read_only:
            ledger.record("a.b", {"number": 5}, correlation_id="c")
        with pytest.raises(StoreUnavailable, match="in use"):
            restore(copy, path, force=True)
        if not read_only:
            ledger.record("a.b", {"number": 6}, correlation_id="c")
    assert numbers(path) == list(range(5 if read_only else 7))


def test_a_jsonl_ledger_of_one_segment_is_never_away_while_it_is_replaced(
    tmp_path: Path, fill: Fill, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "runs.jsonl", tmp_path / "copy.jsonl"
    fill(path, 15)
    backup(path, copy)
    fill(path, 15, first=15)
    seen: list[bool] = []
    for name in ("rename", "replace", "link", "unlink", "mkdir"):
        original = getattr(os, name)

        def watched(*given: object, original: Callable[..., None] = original, **options: object) -> None:
            original(*given, **options)
            seen.append(path.exists())

        monkeypatch.setattr(os, name, watched)
    made = restore(copy, path, force=True)
    monkeypatch.undo()
    assert seen and all(seen)
    assert numbers(path) == list(range(15))
    assert numbers(Path(str(made.kept)) / path.name) == list(range(30))
    for one in (path, Path(str(made.kept)) / path.name):
        with chatsnapshot.open(one) as ledger:
            assert ledger.verify().ok


@pytest.mark.parametrize("segments", [1, 3])
def test_what_cannot_be_put_in_place_is_taken_back(
    tmp_path: Path, fill: Fill, numbers: Numbers, monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    path, copy = tmp_path / "runs.jsonl", tmp_path / "copy.jsonl"
    limits = Limits(segment_bytes_max=4_096) if segments > 1 else Limits()
    fill(path, 15, limits=limits)
    backup(path, copy)
    fill(path, 15, first=15, limits=limits)

    def there() -> set[str]:
        """All but the log of the index, which SQLite makes and removes."""
        return {name for name in os.listdir(tmp_path) if not name.endswith(("-wal", "-shm"))}

    before = there()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(jsonl_copy, "place_new", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(LedgerError):
        restore(copy, path, force=True)
    monkeypatch.undo()
    assert there() == before
    assert numbers(path) == list(range(30))
    with chatsnapshot.open(path) as ledger:
        assert ledger.verify().ok


def test_a_damaged_backup_is_found_before_anything_is_touched(
    path: Path, backed_up: Path, numbers: Numbers
) -> None:
    data = bytearray(backed_up.read_bytes())
    where = bytes(data).find(b'{"number":5}')
    data[where + 10 : where + 11] = b"7"
    backed_up.write_bytes(data)
    before = sorted(os.listdir(path.parent))
    with pytest.raises(Corrupt, match="the backup does not verify"):
        restore(backed_up, path, force=True)
    assert numbers(path) == list(range(15))
    assert sorted(set(os.listdir(path.parent)) - {f"{path.name}-wal", f"{path.name}-shm"}) == sorted(
        set(before) - {f"{path.name}-wal", f"{path.name}-shm"}
    )


def test_a_restored_ledger_has_the_rights_of_the_one_that_was_there(path: Path, backed_up: Path) -> None:
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12_345, 23_456)
    restore(backed_up, path, force=True)
    there = path.stat()
    assert stat.S_IMODE(there.st_mode) == 0o640
    if os.geteuid() == 0:
        assert (there.st_uid, there.st_gid) == (12_345, 23_456)


def test_a_missing_backup_is_not_found(path: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        restore(tmp_path / f"none{path.suffix}", path)
    assert not path.exists()


def test_the_index_of_the_ledger_that_was_there_says_nothing_of_the_restored_one(
    tmp_path: Path, fill: Fill, numbers: Numbers
) -> None:
    path, copy = tmp_path / "runs.jsonl", tmp_path / "copy.jsonl"
    fill(path, 3)
    backup(path, copy)
    fill(path, 3, first=3)
    restore(copy, path, force=True)
    fill(path, 1, first=77)
    assert numbers(path) == [0, 1, 2, 77]
    with chatsnapshot.open(path) as ledger:
        assert ledger.verify().ok
