"""Several processes on one file: nothing is lost, torn or seen in part, and a killed writer blocks nobody."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chatsnapshot import Ledger

Open = Callable[..., Ledger]
Start = Callable[..., "subprocess.Popen[str]"]

WRITER = """
import sys
import chatsnapshot
path, name, count, size, batch = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
with chatsnapshot.open(path) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(0, count, batch):
        entries = ledger.record_many([
            {"event_type": "execution.message", "correlation_id": name,
             "payload": {"number": number + part, "text": name * size}}
            for part in range(batch)
        ])
        print(entries[-1].position, flush=True)
"""


def go(writers: list[subprocess.Popen[str]]) -> None:
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()


def test_two_writers_of_64_kb_records_never_splice_them(path: Path, opened: Open, program: Start) -> None:
    writers = [program(WRITER, path, name, 40, 65_536, 1) for name in ("a", "b")]
    go(writers)
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    ledger = opened()
    assert ledger.head == 80
    for name in ("a", "b"):
        found = [entry.payload for entry in ledger.read(correlation_id=name)]
        assert [payload["number"] for payload in found] == list(range(40))
        assert all(payload["text"] == name * 65_536 for payload in found)
    assert ledger.verify().ok


def test_a_reader_and_a_tail_miss_nothing_while_three_processes_write(
    path: Path, opened: Open, program: Start
) -> None:
    reader = opened()
    writers = [program(WRITER, path, name, 90, 10, 3) for name in ("a", "b", "c")]
    go(writers)
    seen = []
    with reader.tail(after=0, timeout=30) as tail:
        for entry in tail:
            seen.append(entry.position)
            assert reader.head >= entry.position
            if len(seen) == 270:
                break
    assert seen == list(range(1, 271))
    batches: dict[str, list[int]] = {}
    for entry in reader.read():
        batches.setdefault(entry.correlation_id, []).append(entry.payload["number"])
    assert all(numbers == list(range(90)) for numbers in batches.values())
    assert reader.verify().ok


@pytest.mark.parametrize("batch", [1, 7])
def test_kill_9_in_the_middle_of_writing_loses_nothing_acknowledged(
    path: Path, opened: Open, program: Start, seeded: random.Random, batch: int
) -> None:
    acknowledged = 0
    for _ in range(6):
        (writer,) = writers = [program(WRITER, path, "a", 1_000_000, 200, batch)]
        go(writers)
        assert writer.stdout is not None
        for _ in range(seeded.randint(1, 60)):
            acknowledged = max(acknowledged, int(writer.stdout.readline()))
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate(timeout=30)
        acknowledged = max(
            [acknowledged, *(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))]
        )
        ledger = opened()
        assert ledger.head >= acknowledged
        assert ledger.head % batch == 0
        assert [entry.position for entry in ledger.read()] == list(range(1, ledger.head + 1))
        assert ledger.verify().ok
        ledger.close()


def test_a_writer_goes_on_when_another_was_killed_holding_the_lock(
    path: Path, opened: Open, program: Start
) -> None:
    ledger = opened()
    other = program(
        """
import sys, time
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1])
ledger._store._writer._files.sync = lambda descriptor: (print("in the lock", flush=True), time.sleep(600))
ledger.record("execution.message", {"number": 1}, correlation_id="run-1")
""",
        path,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "in the lock\n"
    assert ledger.head == 0, "what is not synced is not seen"
    other.kill()
    other.wait(timeout=30)
    entry = ledger.record("execution.message", {"number": 2}, correlation_id="run-1")
    assert entry.position == 2, "the killed writer's whole line was made durable and kept"
    assert ledger.verify().ok


def test_first_opening_by_several_processes_makes_one_ledger(
    path: Path, program: Start, tmp_path: Path
) -> None:
    code = """
import sys
import chatsnapshot
print("ready", flush=True)
sys.stdin.readline()
for number in range(5):
    with chatsnapshot.open(f"{sys.argv[1]}{number}.jsonl") as ledger:
        ledger.record("execution.message", {}, correlation_id=sys.argv[2])
        print(ledger.ledger_id, flush=True)
"""
    crew = [program(code, tmp_path / "new", name) for name in "abcdef"]
    go(crew)
    ids = [tuple(worker.communicate(timeout=60)[0].split()) for worker in crew]
    assert len(set(ids)) == 1
    assert len(ids[0]) == 5
    import chatsnapshot

    for number in range(5):
        with chatsnapshot.open(tmp_path / f"new{number}.jsonl") as ledger:
            assert ledger.head == 6
            assert ledger.verify().ok


FORKER = """
import os, sys, threading
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1], durability="os")
done = threading.Event()

def write():
    while not done.is_set():
        ledger.record("execution.message", {}, correlation_id="parent")
        list(ledger.read(limit=5, reverse=True))

threads = [threading.Thread(target=write) for _ in range(3)]
for thread in threads:
    thread.start()
failed = 0
for number in range(20):
    child = os.fork()
    if child == 0:
        try:
            ledger.record("execution.message", {}, correlation_id="child")
            ledger.get(next(ledger.read(reverse=True)).event_id)
            os._exit(0)
        finally:
            os._exit(1)
    failed += os.waitpid(child, 0)[1] != 0
done.set()
for thread in threads:
    thread.join()
print(failed, len(list(ledger.read(correlation_id="child"))), ledger.verify().ok)
"""


def test_twenty_forks_while_threads_read_and_write_hang_nobody(path: Path, program: Start) -> None:
    found, _ = program(FORKER, path).communicate(timeout=60)
    assert found.split() == ["0", "20", "True"]
