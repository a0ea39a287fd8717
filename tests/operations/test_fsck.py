"""``chatsnapshot fsck`` says what a repair would do, does it when asked, and takes nothing acknowledged away."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from chatsnapshot.errors import LedgerError
from chatsnapshot.fsck import fsck
from chatsnapshot.limits import Limits

Fill = Callable[..., None]
Numbers = Callable[[Path], list[int]]

KILLED = """
import chatsnapshot, os, signal, sys
ledger = chatsnapshot.open(sys.argv[1])
ledger.record("a.b", {"number": int(sys.argv[2])}, correlation_id="c")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def lines(tmp_path: Path, fill: Fill) -> Path:
    path = tmp_path / "runs.jsonl"
    fill(path, 12)
    return path


def cures(path: Path, **options: bool) -> list[str]:
    return [finding.cure for finding in fsck(path, **options).findings]


def test_a_sound_ledger_has_nothing_to_repair(path: Path, fill: Fill) -> None:
    fill(path, 12)
    examined = fsck(path)
    assert examined.sound and not examined.damaged and not examined.done
    assert fsck(path, repair_tail=True).done == ()


def test_a_torn_line_is_told_then_set_aside(lines: Path, numbers: Numbers, fill: Fill) -> None:
    whole = lines.read_bytes()
    lines.write_bytes(whole + b'{"position":13,"batch":[13,1],"le')
    examined = fsck(lines)
    assert not examined.sound and not examined.damaged
    assert any("never acknowledged" in finding.what for finding in examined.findings)
    assert lines.read_bytes() == whole + b'{"position":13,"batch":[13,1],"le', "looking changes nothing"
    mended = fsck(lines, repair_tail=True)
    assert mended.sound
    assert lines.read_bytes() == whole
    (aside,) = lines.parent.glob("runs.jsonl.torn-*")
    assert aside.read_bytes() == b'{"position":13,"batch":[13,1],"le'
    assert any(str(aside) in line for line in mended.done)
    fill(lines, 1, first=12)
    assert numbers(lines) == list(range(13))


def test_a_batch_that_is_not_whole_is_set_aside_whole(lines: Path, fill: Fill, numbers: Numbers) -> None:
    before = lines.read_bytes()
    fill(lines, 4, first=12)
    after = lines.read_bytes()
    cut = after.rindex(b"\n", 0, len(after) - 1) + 1
    lines.write_bytes(after[:cut])
    assert any("is not complete" in finding.what for finding in fsck(lines).findings)
    assert fsck(lines, repair_tail=True).sound
    assert lines.read_bytes() == before
    assert numbers(lines) == list(range(12))


def test_a_run_of_nul_is_set_aside(lines: Path, numbers: Numbers) -> None:
    whole = lines.read_bytes()
    lines.write_bytes(whole + b"\0" * 4096)
    assert "repair" in cures(lines)
    assert fsck(lines, repair_tail=True).sound
    assert lines.read_bytes() == whole
    assert numbers(lines) == list(range(12))


def test_a_damaged_line_is_named_with_its_byte_and_left_alone(lines: Path) -> None:
    data = lines.read_bytes()
    broken = data.replace(b'"number":5', b'"number":6', 1)
    lines.write_bytes(broken)
    offset = data.rindex(b"\n", 0, data.index(b'"number":5')) + 1
    for options in ({}, {"repair_tail": True}):
        examined = fsck(lines, **options)
        assert examined.damaged
        assert any(f"damage at byte {offset}, position 6" in one.what for one in examined.findings)
    assert lines.read_bytes() == broken


def test_a_missing_segment_is_damage(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "runs.jsonl"
    for first in range(0, 60, 20):
        fill(path, 20, first=first, limits=Limits(segment_bytes_max=4_000))
    (tmp_path / "runs.jsonl.000002").unlink()
    assert any("segments that follow it are there" in one.what for one in fsck(path).findings)
    assert fsck(path).damaged


def test_a_missing_index_is_made_again(lines: Path) -> None:
    for file in lines.parent.glob("runs.jsonl.index.db*"):
        file.unlink()
    assert cures(lines) == ["repair"]
    assert fsck(lines, repair_tail=True).sound
    assert Path(f"{lines}.index.db").exists()


def test_a_segment_in_doubt_is_written_anew(lines: Path, numbers: Numbers) -> None:
    Path(f"{lines}.doubt").write_bytes(b"")
    before = lines.stat().st_ino
    assert "repair" in cures(lines)
    assert fsck(lines, repair_tail=True).sound
    assert lines.stat().st_ino != before
    assert numbers(lines) == list(range(12))


def test_a_torn_header_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'{"chatsnapshot":"led')
    assert cures(path) == ["repair"]
    fsck(path, repair_tail=True)
    assert [file.read_bytes() for file in tmp_path.glob("runs.jsonl.torn-*")] == [b'{"chatsnapshot":"led']


def test_blobs_that_nobody_names_are_swept_only_when_asked(lines: Path) -> None:
    stray = lines.parent / "runs.jsonl.blobs" / ("0" * 64)
    stray.write_bytes(b"stray")
    assert cures(lines, repair_tail=True) == ["harmless"]
    assert stray.exists()
    assert fsck(lines, sweep_blobs=True).findings == ()
    assert not stray.exists()
    assert len(list(stray.parent.iterdir())) == 2


def test_no_blob_is_swept_while_a_line_that_may_name_it_is_damaged(lines: Path) -> None:
    lines.write_bytes(lines.read_bytes().replace(b'"number":0', b'"number":9', 1))
    kept = sorted(os.listdir(lines.parent / "runs.jsonl.blobs"))
    with pytest.raises(LedgerError, match="damaged line may name a blob"):
        fsck(lines, sweep_blobs=True)
    assert sorted(os.listdir(lines.parent / "runs.jsonl.blobs")) == kept


def test_a_missing_blob_is_damage(lines: Path) -> None:
    next((lines.parent / "runs.jsonl.blobs").iterdir()).unlink()
    assert any("is missing" in one.what and one.cure == "restore" for one in fsck(lines).findings)


def test_a_log_that_a_killed_writer_has_left_is_harmless_and_can_be_brought_over(
    tmp_path: Path, fill: Fill, program: Any, numbers: Numbers
) -> None:
    path = tmp_path / "runs.db"
    fill(path, 2)
    program(KILLED, path, 2).wait(60)
    log = Path(f"{path}-wal")
    assert log.stat().st_size > 0
    assert cures(path) == ["harmless"] and log.stat().st_size > 0
    mended = fsck(path, repair_tail=True)
    assert mended.done == ("the log is in the database, synced",)
    assert mended.sound and log.stat().st_size == 0
    assert numbers(path) == [0, 1, 2]


def test_damage_of_a_database_is_told(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "runs.db"
    fill(path, 12)
    db = apsw.Connection(str(path))
    db.execute("INSERT INTO blob_part VALUES (randomblob(32), 0, x'00')")
    db.close()
    assert fsck(path).damaged
    path.write_bytes(b"\0" * 8192)
    assert fsck(path).damaged


def test_the_command_ends_with_0_1_2_or_3(lines: Path, run: Any, tmp_path: Path) -> None:
    assert run("fsck", "--ledger", tmp_path / "none.jsonl").exit_code == 2
    assert run("fsck", "--ledger", lines).exit_code == 0
    whole = lines.read_bytes()
    lines.write_bytes(whole + b'{"torn')
    waiting = run("fsck", "--ledger", lines)
    assert waiting.exit_code == 1 and "fsck --repair-tail" in waiting.output
    done = run("fsck", "--repair-tail", "--json", "--ledger", lines)
    assert done.exit_code == 0
    assert json.loads(done.output)["done"]
    lines.write_bytes(whole.replace(b'"number":5', b'"number":6', 1))
    damaged = run("fsck", "--ledger", lines)
    assert damaged.exit_code == 3 and "chatsnapshot restore" in damaged.output
