"""Fork in the middle of writing, 50 times: no hang, and both sides record."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import chatsnapshot

pytestmark = [pytest.mark.timeout(200)]

FORKS = """
import os, signal, sys, threading, warnings
import chatsnapshot
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what this is about
path = sys.argv[1]
ledger = chatsnapshot.open(path)
over = threading.Event()
counts = [0, 0, 0]
def event(name, number):
    return {"event_type": "execution.message", "correlation_id": name, "payload": {"number": number}}
def write(number):
    while not over.is_set():
        ledger.record(**event(f"thread-{number}", counts[number]))
        counts[number] += 1
threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
stopped = []
for number in range(50):
    held, go_on = threading.Event(), threading.Event()
    if number % 2:
        # Every second time another thread is known to hold the lock while the fork happens.
        def hold():
            with ledger._store._lock.held():
                held.set()
                go_on.wait(20)
        holder = threading.Thread(target=hold)
        holder.start()
        assert held.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        ledger.record(**event(f"child-{number}", 0))
        ledger.record(**event(f"child-{number}", 1), wait=False)
        os._exit(0 if ledger.flush(timeout=15).ok else 1)
    go_on.set()
    if number % 2:
        holder.join()
    ledger.record(**event("parent", number))
    stopped.append(os.waitpid(child, 0)[1])
over.set()
for thread in threads:
    thread.join()
ledger.close()
assert not any(stopped), stopped
print(*counts)
"""


def test_50_forks_beside_writing_threads_hang_nobody_and_lose_nothing(
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    process = program(FORKS, path)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err[-3_000:]
    with chatsnapshot.open(path) as ledger:
        for number in range(50):
            assert [entry.sequence for entry in ledger.read(correlation_id=f"child-{number}")] == [1, 2]
        for number, count in enumerate(map(int, out.split())):
            assert count > 0
            assert ledger._store.last_sequence(f"thread-{number}") == count
        assert ledger._store.last_sequence("parent") == 50
        assert ledger.verify().ok
