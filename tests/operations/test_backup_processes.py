"""Backups beside writing processes, killed in the middle, and onto a disk that is full."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.backup import backup

Fill = Callable[..., None]
Numbers = Callable[[Path], list[int]]

WRITER = """
import chatsnapshot, sys
ledger = chatsnapshot.open(sys.argv[1], durability="os")
for number in range(1_000_000):
    entry = ledger.record("a.b", {"number": number, "fill": "x" * 500}, correlation_id=sys.argv[2])
    print(entry.position, entry.event_id, flush=True)
"""

HELD_BACKUP = """
import sys, threading
from chatsnapshot.backup import backup

def hold(stage, done, whole):
    if stage == sys.argv[3]:
        print("held", flush=True)
        threading.Event().wait()

backup(sys.argv[1], sys.argv[2], progress=hold, force=len(sys.argv) > 4)
"""


def test_a_backup_beside_writers_is_a_sound_prefix_with_all_that_was_acknowledged_before(
    path: Path, copy: Path, fill: Fill, program: Any
) -> None:
    fill(path, 200)
    writers = [program(WRITER, path, f"writer-{number}") for number in range(3)]
    acknowledged: list[tuple[int, str]] = []
    for round_ in range(3):
        for writer in writers:
            position, event_id = writer.stdout.readline().split()
            acknowledged.append((int(position), event_id))
        target = copy.with_name(f"copy-{round_}{copy.suffix}")
        made = backup(path, target)
        with chatsnapshot.open(target, read_only=True) as ledger:
            assert ledger.verify().ok
            assert ledger.head == made.ledgers[0].head
            for position, event_id in acknowledged:
                assert ledger.get(event_id).position == position
    assert all(writer.poll() is None for writer in writers), "no writer was hindered"
    for writer in writers:
        writer.kill()
        writer.wait(60)
    with chatsnapshot.open(path) as whole, chatsnapshot.open(target, read_only=True) as part:
        assert part.head <= whole.head
        first = [(entry.event_id, entry.leaf) for entry in whole.read(until=part.head)]
        assert first == [(entry.event_id, entry.leaf) for entry in part.read()]
        assert whole.verify().ok


def test_writers_go_on_while_pages_are_being_copied(
    tmp_path: Path, fill: Fill, program: Any, numbers: Numbers
) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy.db"
    fill(path, 1_500)  # blobs of 6 MB: more than one step
    recorded: list[int] = []

    def record(stage: str, done: int, whole: int) -> None:
        if stage == "copying":
            with chatsnapshot.open(path) as ledger:
                recorded.append(ledger.record("a.b", {"number": -1}, correlation_id="c").position)

    made = backup(path, copy, progress=record)
    assert len(recorded) > 1 and recorded[0] == 1_501
    assert made.ledgers[0].head == 1_500, "the copy is of the moment at which it began"
    assert numbers(copy) == list(range(1_500))


@pytest.mark.parametrize("stage", ["copying", "verifying"])
def test_a_backup_killed_in_the_middle_leaves_nothing_under_the_name(
    path: Path, copy: Path, fill: Fill, program: Any, numbers: Numbers, stage: str
) -> None:
    fill(path, 50)
    killed = program(HELD_BACKUP, path, copy, stage)
    assert killed.stdout.readline() == "held\n"
    killed.kill()
    killed.wait(60)
    assert [file.name for file in copy.parent.iterdir()] == [f"{copy.name}.part"]
    backup(path, copy)
    assert numbers(copy) == list(range(50))
    assert not Path(f"{copy}.part").exists()


@pytest.mark.parametrize("stage", ["copying", "verifying"])
def test_a_backup_killed_in_the_middle_leaves_the_older_one_as_it_was(
    path: Path, copy: Path, fill: Fill, program: Any, numbers: Numbers, stage: str
) -> None:
    fill(path, 20)
    backup(path, copy)
    fill(path, 20, first=20)
    killed = program(HELD_BACKUP, path, copy, stage, "force")
    assert killed.stdout.readline() == "held\n"
    killed.kill()
    killed.wait(60)
    assert numbers(copy) == list(range(20))
    backup(path, copy, force=True)
    assert numbers(copy) == list(range(40))


def test_a_full_target_disk_is_said_and_leaves_nothing(
    path: Path, fill: Fill, mounted: Any, tmp_path: Path
) -> None:
    fill(path, 600)
    small = tmp_path / "small"
    small.mkdir()
    done = mounted(
        f"mount -t tmpfs -o size=1m none {small}",
        "import os, sys\n"
        "from chatsnapshot import StoreFull\n"
        "from chatsnapshot.backup import backup\n"
        "try:\n"
        "    backup(sys.argv[1], sys.argv[2])\n"
        "except StoreFull as error:\n"
        "    assert 'no space left to copy to' in str(error), error\n"
        "    print(os.listdir(os.path.dirname(sys.argv[2])))\n",
        path,
        small / f"copy{path.suffix}",
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
    with chatsnapshot.open(path) as ledger:
        assert ledger.record("a.b", correlation_id="c").position == 601
        assert ledger.verify().ok
