"""examples/parquet_dataset.py: a data set that holds every event exactly once, whenever it is killed."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

parquet = pytest.importorskip("pyarrow.parquet")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "parquet_dataset.py"

# Kills the example when it has come to a place for the n-th time.
KILLED = """
import importlib.util, os, signal, sys
import chatsnapshot
from chatsnapshot.feed import FeedBatch
example, ledger, folder, place, count = sys.argv[1:]
spec = importlib.util.spec_from_file_location("example", example)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
left = int(count)
def deadly(work, after):
    def call(*given):
        global left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = work(*given)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return call
if place == "written":
    os.replace = deadly(os.replace, False)
elif place == "named":
    os.replace = deadly(os.replace, True)
else:
    FeedBatch.commit = deadly(FeedBatch.commit, place == "committed")
with chatsnapshot.open(ledger) as snapshot:
    module.update(snapshot, module.Path(folder), batch=int(4))
"""


def update(path: Path, folder: Path) -> int:
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with chatsnapshot.open(path) as ledger:
        added: int = module.update(ledger, folder)
    return added


def rows(folder: Path) -> dict[int, dict[str, Any]]:
    """All rows by position; each position once."""
    found = [row for path in sorted(folder.glob("*.parquet")) for row in parquet.read_table(path).to_pylist()]
    assert [
        position for position, count in Counter(row["position"] for row in found).items() if count > 1
    ] == []
    return {row["position"]: row for row in found}


def note(path: Path, count: int) -> None:
    with chatsnapshot.open(path) as ledger:
        ledger.record_many(
            [{"event_type": "a.b", "correlation_id": "c", "payload": {"n": n}} for n in range(count)]
        )


def test_it_adds_what_is_new_and_begins_anew_where_the_files_are_gone(tmp_path: Path) -> None:
    ledger, folder = tmp_path / "runs.db", tmp_path / "dataset"
    note(ledger, 7)
    command = [sys.executable, "-W", "error", str(EXAMPLE), str(ledger), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7 events added\n", "")
    assert update(ledger, folder) == 0
    note(ledger, 2)
    assert update(ledger, folder) == 2
    assert [path.stem for path in sorted(folder.glob("*.parquet"))] == [
        "000000000000-000000000007",
        "000000000007-000000000009",
    ]
    assert json.loads(rows(folder)[9]["payload"]) == {"n": 1}
    for path in folder.glob("*.parquet"):
        path.unlink()
    assert update(ledger, folder) == 9


def test_a_kill_anywhere_leaves_every_event_in_it_exactly_once(tmp_path: Path) -> None:
    ledger, folder = tmp_path / "runs.db", tmp_path / "dataset"
    for place, count in [("written", 2), ("named", 1), ("dealt with", 2), ("committed", 1)]:
        note(ledger, 9)
        command = [sys.executable, "-c", KILLED, EXAMPLE, ledger, folder, place, count]
        assert subprocess.run(list(map(str, command)), timeout=60).returncode == -9, place
        rows(folder)
    update(ledger, folder)
    assert sorted(rows(folder)) == list(range(1, 37))


@pytest.mark.parametrize("position", [0, 3, 5, 7])
def test_a_cursor_that_was_put_back_makes_the_files_anew_from_there(tmp_path: Path, position: int) -> None:
    path, folder = tmp_path / "runs.db", tmp_path / "dataset"
    for count in (5, 2):
        note(path, count)
        update(path, folder)
    with chatsnapshot.open(path) as ledger:
        ledger.feed("parquet").reset(position)
    note(path, 2)
    update(path, folder)
    assert sorted(rows(folder)) == list(range(1, 10))


def test_two_processes_do_not_keep_one_data_set(tmp_path: Path) -> None:
    path, folder = tmp_path / "runs.db", tmp_path / "dataset"
    note(path, 1)
    folder.mkdir()
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another process keeps"):
            update(path, folder)
    assert update(path, folder) == 1


def test_an_erasure_in_the_ledger_is_carried_out_in_the_files(tmp_path: Path) -> None:
    path, folder = tmp_path / "runs.db", tmp_path / "dataset"
    note(path, 3)
    update(path, folder)
    with chatsnapshot.open(path) as ledger:
        ledger.erase([2], reason="asked for")
    update(path, folder)
    found = rows(folder)
    assert (found[2]["erased"], found[2]["payload"]) == (True, None)
    assert [found[1]["payload"], found[3]["payload"]] == ['{"n":0}', '{"n":2}']
    assert found[4]["event_type"] == "ledger.payload_erased"
