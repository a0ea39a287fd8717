"""Ctrl-C under load: out within two seconds, a whole prefix is stored, nothing acknowledged is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import chatsnapshot

pytestmark = [pytest.mark.timeout(120)]

LOADED = """
import asyncio, faulthandler, signal, sys, threading
import chatsnapshot
faulthandler.register(signal.SIGUSR1)
ledger = chatsnapshot.open(sys.argv[1])
told = threading.Lock()
def tell(event_id):
    with told:
        print(event_id, flush=True)
def event(name, number):
    return {"event_type": "execution.message", "correlation_id": name, "payload": {"number": number, "text": "x" * 500}}
over = threading.Event()
def thread(name):
    number = 0
    try:
        while not over.is_set():
            number += 1
            tell(ledger.record(**event(name, number)).event_id)
            ledger.record(**event(name, number), wait=False)
    except chatsnapshot.LedgerClosed:
        pass
async def task(name):
    number = 0
    while True:
        number += 1
        tell((await ledger.arecord(**event(name, number))).event_id)
async def main():
    await asyncio.gather(*[task(f"task-{number}") for number in range(20)])
threads = [threading.Thread(target=thread, args=(f"thread-{number}",)) for number in range(4)]
try:
    for one in threads:
        one.start()
    if sys.argv[2] == "asyncio":
        asyncio.run(main())
    else:
        thread("main")
except KeyboardInterrupt:
    over.set()
    ledger.close()
    sys.exit(130)
"""


@pytest.mark.parametrize("main", ["asyncio", "threads"])
def test_ctrl_c_under_load_ends_within_two_seconds_and_loses_nothing(
    path: Path, program: Callable[..., subprocess.Popen[str]], seeded: random.Random, main: str
) -> None:
    known: list[str] = []
    for number in range(4):
        process = program(LOADED, path, main)
        assert process.stdout is not None
        for _ in range(seeded.randint(5, 120)):
            known.append(process.stdout.readline().strip())
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)  # where does each thread stand?
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
            pytest.fail(f"round {number}: it hangs\n{process.communicate()[1][-6_000:]}")
        took = time.monotonic() - begun
        assert (process.returncode, err) == (130, ""), (number, process.returncode, err[-3_000:])
        assert took < 2, f"round {number}: out after {took:.1f} s"
        known += [line for line in out.splitlines(keepends=False) if len(line) == 36]
        with chatsnapshot.open(path) as ledger:
            stored = {entry.event_id for entry in ledger.read()}
            assert set(known) <= stored
            assert ledger.verify().ok
            for correlation in ["main", *[f"thread-{one}" for one in range(4)]]:
                sequences = [entry.sequence for entry in ledger.read(correlation_id=correlation)]
                assert sequences == list(range(1, len(sequences) + 1))
