"""A backup is the ledger at one moment: verified, whole, under its own name or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import chatsnapshot
from chatsnapshot.backup import backup, restore
from chatsnapshot.errors import Corrupt, LedgerError, NotFound, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores.placing import place_new

Fill = Callable[..., None]
Numbers = Callable[[Path], list[int]]


def facts(path: Path, ledger: str = "main") -> tuple[str, int, str]:
    url = path if ledger == "main" else f"{path}?ledger={ledger}"
    with chatsnapshot.open(url, create=False, read_only=True) as opened:
        report = opened.verify()
        assert report.ok, report.problems
        return opened.ledger_id, report.head, report.root


def rename_ledgers_out(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(("-wal", "-shm", ".lock")))


def test_a_backup_is_the_same_history(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 30)
    made = backup(path, copy)
    assert [(one.name, one.ledger_id, one.head, one.root) for one in made.ledgers] == [("main", *facts(path))]
    assert facts(copy) == facts(path)
    assert made.path == str(copy) and made.bytes > 0 and made.kept is None


def test_a_backup_has_the_blobs_and_reads_back_the_values(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 11)
    backup(path, copy)
    with chatsnapshot.open(copy, read_only=True) as ledger:
        assert [len(entry.value()["data"]) for entry in ledger.read() if "data" in entry.payload] == [
            40_000
        ] * 2


def test_a_backup_can_be_recorded_to_like_any_ledger(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 7)
    backup(path, copy)
    fill(copy, 3, first=7)
    assert facts(copy)[1] == 10
    assert facts(path)[1] == 7


def test_only_its_owner_can_read_a_backup(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 11)
    backup(path, copy)
    for file in copy.parent.rglob("*"):
        if not file.name.endswith((".lock", "-wal", "-shm")):
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


def test_nothing_else_is_left_beside_a_backup(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 11)
    backup(path, copy)
    wanted = [copy.name] if copy.suffix == ".db" else [copy.name, f"{copy.name}.blobs"]
    assert sorted(os.listdir(copy.parent)) == wanted


def test_all_ledgers_of_a_file_are_in_its_backup(tmp_path: Path, fill: Fill) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    fill(path, 3)
    fill(Path(f"{path}?ledger=tenant-a"), 5)
    made = backup(f"{path}?ledger=tenant-a", copy)
    assert {one.name: one.head for one in made.ledgers} == {"main": 3, "tenant-a": 5}
    assert facts(copy, "tenant-a") == facts(path, "tenant-a")


def test_segments_are_copied_each(tmp_path: Path, fill: Fill) -> None:
    path, copy = tmp_path / "runs.jsonl", tmp_path / "copy.jsonl"
    for first in range(0, 60, 20):
        fill(path, 20, first=first, limits=Limits(segment_bytes_max=4_000))
    backup(path, copy)
    assert (tmp_path / "copy.jsonl.000003").exists()
    assert facts(copy) == facts(path)


def test_an_open_ledger_is_backed_up_with_what_it_has_acknowledged(
    path: Path, copy: Path, numbers: Numbers
) -> None:
    with chatsnapshot.open(path) as ledger:
        for number in range(5):
            ledger.record("a.b", {"number": number}, correlation_id="c")
        backup(ledger.url, copy)
        ledger.record("a.b", {"number": 5}, correlation_id="c")
        assert numbers(copy) == [0, 1, 2, 3, 4]
        assert ledger.verify().ok


def test_the_locks_of_an_open_ledger_hold_after_a_backup_in_the_same_process(
    path: Path, copy: Path, fill: Fill, program: Any
) -> None:
    """Closing any descriptor of a locked file would let go of the lock."""
    fill(path, 3)
    with chatsnapshot.open(path) as ledger:
        store: Any = ledger._store
        with store._lock.held():
            try_to_record = program(
                "import chatsnapshot, sys\n"
                "with chatsnapshot.open(sys.argv[1]) as ledger:\n"
                "    print('open', flush=True)\n"
                "    ledger.record('a.b', {'number': 99}, correlation_id='c')\n"
                "    print('recorded', flush=True)\n",
                path,
            )
            if path.suffix == ".db":  # a JSONL copy takes the lock itself
                backup(path, copy)
            with pytest.raises(Exception, match="timed out"):
                try_to_record.communicate(timeout=1.5)
        assert "recorded" in try_to_record.communicate(timeout=60)[0]


def test_erased_payloads_are_not_in_a_backup(path: Path, copy: Path) -> None:
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"text": "the secret word is xylophone"}, correlation_id="c")
        ledger.record("a.b", {"text": "harmless"}, correlation_id="c")
        ledger.erase(1, reason="asked for")
        backup(path, copy)
    assert all(b"xylophone" not in file.read_bytes() for file in copy.parent.rglob("*") if file.is_file())
    assert facts(copy)[1] == 3


def test_progress_is_told_in_bytes_and_entries(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 30)
    told: list[tuple[str, int, int]] = []
    backup(path, copy, progress=lambda *step: told.append(step))
    assert [stage for stage, _, _ in told] == sorted(stage for stage, _, _ in told)
    assert {stage for stage, _, _ in told} == {"copying", "verifying"}
    assert all(0 <= done <= whole for _, done, whole in told)
    assert told[-1] == ("verifying", 30, 30)


# --- refusals ---


def test_an_existing_target_is_refused_and_left_as_it_is(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 3)
    copy.write_bytes(b"something")
    with pytest.raises(LedgerError, match=r"is there already.*--force"):
        backup(path, copy)
    assert copy.read_bytes() == b"something"
    assert os.listdir(copy.parent) == [copy.name]


def test_a_file_that_appears_meanwhile_is_not_written_over(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 3)
    with pytest.raises(LedgerError, match="is there already"):
        backup(path, copy, progress=lambda *_: copy.write_bytes(b"somebody was faster") and None)
    assert copy.read_bytes() == b"somebody was faster"


def test_a_finished_file_never_takes_the_name_of_another(tmp_path: Path) -> None:
    made, taken = tmp_path / "made", tmp_path / "taken"
    made.write_bytes(b"new")
    taken.write_bytes(b"old")
    with pytest.raises(LedgerError, match="is there already"):
        place_new(str(made), str(taken))
    assert (made.read_bytes(), taken.read_bytes()) == (b"new", b"old")


def test_with_force_an_older_backup_is_replaced(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 11)
    backup(path, copy)
    fill(path, 4, first=11)
    assert backup(path, copy, force=True).kept is None
    assert facts(copy) == facts(path)
    assert not [file for file in copy.parent.iterdir() if "replaced" in file.name or "part" in file.name]


def test_with_force_anything_else_of_that_name_is_replaced_too(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 3)
    copy.write_bytes(b"no ledger at all" * 100)
    backup(path, copy, force=True)
    assert facts(copy) == facts(path)


def test_a_target_in_use_is_not_replaced(tmp_path: Path, fill: Fill) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    fill(path, 3)
    backup(path, copy)
    with chatsnapshot.open(copy) as used:
        used.record("a.b", {"number": 3}, correlation_id="c")
        with pytest.raises(StoreUnavailable, match="in use"):
            backup(path, copy, force=True)
        used.record("a.b", {"number": 4}, correlation_id="c")
        assert used.verify().ok
    assert facts(copy)[1] == 5


@pytest.mark.parametrize("side", ["-wal", "-journal"])
def test_a_stray_log_at_the_target_is_never_applied_to_the_copy(
    tmp_path: Path, fill: Fill, side: str
) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    fill(path, 3)
    stray = Path(str(copy) + side)
    stray.write_bytes(b"frames of another file")
    with pytest.raises(LedgerError, match="log of another file"):
        backup(path, copy)
    assert not copy.exists()
    made = backup(path, copy, force=True)
    assert made.kept is not None and made.kept.endswith(side)
    assert Path(made.kept).read_bytes() == b"frames of another file"
    assert facts(copy) == facts(path)


def test_stray_segments_at_the_target_are_never_taken_into_the_copy(tmp_path: Path, fill: Fill) -> None:
    path, copy = tmp_path / "runs.jsonl", tmp_path / "copy.jsonl"
    fill(path, 3)
    stray = tmp_path / "copy.jsonl.000002"
    stray.write_bytes(b"lines of another ledger")
    with pytest.raises(LedgerError, match="belongs to another ledger"):
        backup(path, copy)
    made = backup(path, copy, force=True)
    assert facts(copy) == facts(path)
    assert made.kept is None and not stray.exists()


def test_the_ledger_itself_is_no_target(path: Path, fill: Fill, tmp_path: Path) -> None:
    fill(path, 3)
    link = tmp_path / f"link{path.suffix}"
    link.symlink_to(path)
    for target in (path, link):
        with pytest.raises(LedgerError, match="is the ledger itself"):
            backup(path, target, force=True)
    assert facts(path)[1] == 3


def test_what_is_no_place_for_a_copy_is_refused(path: Path, tmp_path: Path, fill: Fill) -> None:
    fill(path, 3)
    with pytest.raises(LedgerError, match="does not exist; create it first"):
        backup(path, tmp_path / "nowhere" / f"copy{path.suffix}")
    with pytest.raises(LedgerError, match="is a folder"):
        (tmp_path / f"folder{path.suffix}").mkdir()
        backup(path, tmp_path / f"folder{path.suffix}", force=True)
    other = ".jsonl" if path.suffix == ".db" else ".db"
    with pytest.raises(LedgerError, match="a copy keeps the kind"):
        backup(path, tmp_path / f"copy{other}")


def test_a_missing_ledger_and_a_memory_ledger_cannot_be_backed_up(path: Path, copy: Path) -> None:
    with pytest.raises(NotFound):
        backup(path, copy)
    with pytest.raises(LedgerError, match="memory: ledger has no files"):
        backup("memory:", copy)
    assert not copy.exists() and not path.exists()


def test_a_damaged_ledger_never_replaces_a_good_backup(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 5)
    backup(path, copy)
    before = facts(copy)
    if path.suffix == ".db":
        db = apsw.Connection(str(path))
        db.execute("DROP TRIGGER entry_fixed; UPDATE entry SET event_type = 'x.y' WHERE position = 2")
        db.close()
    else:
        path.write_bytes(path.read_bytes().replace(b'"execution.message"', b'"execution.massage"', 2))
    with pytest.raises(Corrupt, match="does not verify"):
        backup(path, copy, force=True)
    assert facts(copy) == before
    assert not [file for file in copy.parent.iterdir() if "part" in file.name]


def test_two_copies_to_one_name_at_once_are_refused(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 5)
    refused: list[Exception] = []

    def once_more(*_: object) -> None:
        if not refused:
            with pytest.raises(StoreUnavailable, match="another process is making a copy") as caught:
                backup(path, copy)
            refused.append(caught.value)

    backup(path, copy, progress=once_more)
    assert refused and facts(copy) == facts(path)


def test_a_ledger_that_cannot_be_written_is_backed_up(path: Path, copy: Path, fill: Fill) -> None:
    fill(path, 5)
    wanted = facts(path)
    for file in path.parent.iterdir():
        file.chmod(0o500 if file.is_dir() else 0o400)
    path.parent.chmod(0o500)
    try:
        backup(path, copy)
    finally:
        path.parent.chmod(0o700)
    assert facts(copy) == wanted


def test_blobs_that_come_and_go_while_segments_are_copied_are_as_the_copy_needs_them(
    tmp_path: Path, fill: Fill
) -> None:
    path, copy = tmp_path / "runs.jsonl", tmp_path / "copy.jsonl"
    fill(path, 21)
    changed: list[int] = []

    def change(*_: object) -> None:
        if not changed:
            with chatsnapshot.open(path) as ledger:
                ledger.erase(11, reason="asked for")
                changed.append(ledger.record("a.b", {"data": b"new" * 20_000}, correlation_id="c").position)

    backup(path, copy, progress=change)
    assert changed == [23]
    assert facts(copy) == facts(path)
    assert sorted(os.listdir(f"{copy}.blobs")) == sorted(os.listdir(f"{path}.blobs"))


def test_a_torn_tail_is_left_out_of_a_backup(tmp_path: Path, fill: Fill) -> None:
    path, copy = tmp_path / "runs.jsonl", tmp_path / "copy.jsonl"
    fill(path, 5)
    wanted = facts(path)
    with path.open("ab") as file:
        file.write(b'{"position":6,"batch":[6,2],"leaf":"')
    backup(path, copy)
    assert facts(copy) == wanted
    assert restore(copy, tmp_path / "again.jsonl").ledgers[0].head == 5
