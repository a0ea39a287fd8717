"""kill -9 at any moment: what was acknowledged through a pipe is there, the ledger verifies, and opens at once."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

pytestmark = [pytest.mark.timeout(300)]

Start = Callable[..., "subprocess.Popen[str]"]
ROUNDS = 25

WRITER = """
import sys, threading
import chatsnapshot
from chatsnapshot.stores import jsonl, sqlite
path, how, name = sys.argv[1:]
print("begun", flush=True)
ledger = chatsnapshot.open(path)
told = threading.Lock()
def tell(*ids):
    with told:
        print(*ids, flush=True)
def event(number, **more):
    payload = {"number": number, "text": "x" * (number * 37 % 3000)}
    if number % 20 == 7:
        payload["data"] = bytes(40_000)
    return {"event_type": "execution.message", "correlation_id": name, "payload": payload, **more}
def single(number, step):
    while True:
        tell(ledger.record(**event(number)).event_id)
        number += step
if how == "single":
    single(0, 1)
if how == "batch":
    number = 0
    while True:
        tell(*[entry.event_id for entry in ledger.record_many([event(number + one) for one in range(7)])])
        number += 7
if how == "queued":
    number = 0
    while True:
        accepted = [ledger.record(**event(number + one), wait=False) for one in range(40)]
        report = ledger.flush()
        assert report.ok, report
        tell(*[one.event_id for one in accepted])
        number += 40
if how == "threads":
    for number in range(6):
        threading.Thread(target=single, args=(number, 6)).start()
if how == "erase":
    position = 1
    while True:
        if ledger.get(next(ledger.read(after=position - 1)).event_id).event_type.startswith("ledger."):
            position += 1
            continue
        ledger.erase(position, reason="asked")
        tell(position)
        position += 1
if how == "import":
    with chatsnapshot.open(name, read_only=True) as source:
        rows = [tuple(entry._identity()) for entry in source.read()]
    while True:
        head = ledger.head
        ledger._store.import_rows(rows[head : head + 5], {})
        tell(ledger.head)
if how == "states":
    from chatsnapshot.stores.base import Checkpoint
    store, number = ledger._store, 0
    before = store.checkpoint("test", 1)
    leaf = next(ledger.read()).leaf
    while True:
        number += 1
        after = Checkpoint(number, leaf, b"%032d" % number)
        assert store.save_states("test", 1, before, after, {key: b"%d" % number * 500 for key in "abcdef"})
        before = after
        tell(number)
"""


def acknowledged(process: subprocess.Popen[str], lines: int) -> list[str]:
    """Wait for so many acknowledgements, kill, and give every one that was ever written."""
    assert process.stdout is not None
    found = []
    for _ in range(lines):
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        found.append(line)
    process.kill()
    found += process.stdout.read().splitlines(keepends=True)
    process.wait()
    # A last line without its end was cut by the kill, together with the acknowledgement.
    return [word for line in found if line.endswith("\n") for word in line.split()]


def test_acknowledged_events_survive_25_kills_of_every_kind_of_writer(
    path: Path, program: Start, seeded: random.Random
) -> None:
    known: list[str] = []
    for number in range(ROUNDS):
        kinds = ["single", "batch", "queued", "threads"]
        kinds = [kinds[number % 4]] if number % 3 else seeded.sample(kinds, 3)
        writers = [program(WRITER, path, how, f"run-{one}-{number}") for one, how in enumerate(kinds)]
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == "begun\n"
        for writer in writers:
            known += acknowledged(writer, seeded.randint(1, 25))
        opened = time.monotonic()
        with chatsnapshot.open(path) as ledger:
            entries = list(ledger.read())
            assert time.monotonic() - opened < 10, "opening waits for a lost writer"
            stored = {entry.event_id for entry in entries}
            assert len(stored) == len(entries) == ledger.head
            lost = set(known) - stored
            assert not lost, f"round {number}: {len(lost)} of {len(known)} acknowledged events are lost"
            report = ledger.verify()
            assert report.ok, (number, report.problems)
            known.append(
                ledger.record("execution.message", {"round": number}, correlation_id="rounds").event_id
            )
            for batch in {
                entry.correlation_id for entry in entries if entry.correlation_id.endswith(f"-{number}")
            }:
                members = list(ledger.read(correlation_id=batch))
                assert [one.sequence for one in members] == list(range(1, len(members) + 1))
                if kinds[int(batch.split("-")[1])] == "batch":
                    assert len(members) % 7 == 0, "a batch is there in part"
    assert len(known) > 8 * ROUNDS


def test_a_ledger_whose_making_was_killed_opens_and_records(
    tmp_path: Path, name: str, program: Start, seeded: random.Random
) -> None:
    made = 0
    for number in range(15):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / name
        writers = [program(WRITER, path, "single", f"run-{one}") for one in range(2)]
        known: list[str] = []
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == "begun\n"
        until = time.monotonic() + seeded.uniform(0, 0.3)
        while time.monotonic() < until:
            pass  # any moment will do: what counts is where the writers happen to be
        for writer in writers:
            known += acknowledged(writer, 0)
        made += path.exists()
        with chatsnapshot.open(path) as ledger:
            assert set(known) <= {entry.event_id for entry in ledger.read()}
            ledger.record("execution.message", {}, correlation_id="after")
            assert ledger.verify().ok
    assert made, "no ledger was ever begun"


def _fill(path: Path, count: int) -> None:
    with chatsnapshot.open(path, durability="os") as ledger:
        ledger.record_many(
            [
                {"event_type": "execution.message", "correlation_id": f"run-{number % 3}",
                 "payload": {"number": number, "text": "the secret " * 100,
                              "data": bytes(40_000 if number % 9 == 0 else 9)}}
                for number in range(1, count + 1)
            ]
        )  # fmt: skip


def test_an_erasure_that_was_killed_is_whole_or_made_good(
    path: Path, program: Start, seeded: random.Random
) -> None:
    _fill(path, 400)
    erased = 0
    for _ in range(8):
        eraser = program(WRITER, path, "erase", "x")
        assert eraser.stdout is not None and eraser.stdout.readline() == "begun\n"
        told = acknowledged(eraser, seeded.randint(1, 15))
        erased = max(erased, *map(int, told))
        with chatsnapshot.open(path) as ledger:
            report = ledger.verify()
            assert report.ok, report.problems
            gone = [entry.position for entry in ledger.read(until=400) if entry.erased]
            assert set(range(1, erased + 1)) <= set(gone)
            assert set(gone) <= set(range(1, erased + 2)), "at most the one that was under way"


def test_an_import_that_was_killed_ends_between_two_steps_and_goes_on(
    path: Path, program: Start, seeded: random.Random, tmp_path: Path
) -> None:
    source = tmp_path / "source.db"
    with chatsnapshot.open(source, durability="os") as ledger:
        ledger.record_many(
            [
                {
                    "event_type": "execution.message",
                    "correlation_id": f"run-{number % 3}",
                    "payload": {"n": number},
                }
                for number in range(3_000)
            ]
        )
        truth = [entry._identity() for entry in ledger.read()]
    reached = 0
    for _ in range(8):
        importer = program(WRITER, path, "import", source)
        assert importer.stdout is not None and importer.stdout.readline() == "begun\n"
        reached = max(reached, *map(int, acknowledged(importer, seeded.randint(1, 12))))
        with chatsnapshot.open(path) as ledger:
            assert ledger.head >= reached
            assert ledger.head % 5 == 0 and ledger.head < 3_000
            assert [entry._identity() for entry in ledger.read()] == truth[: ledger.head]
            assert ledger.verify().ok


def test_states_of_a_projection_and_their_checkpoint_are_killed_together(
    path: Path, program: Start, seeded: random.Random
) -> None:
    _fill(path, 3)
    told = 0
    for _ in range(8):
        writer = program(WRITER, path, "states", "x")
        assert writer.stdout is not None and writer.stdout.readline() == "begun\n"
        words: list[Any] = acknowledged(writer, seeded.randint(1, 20))
        told = int(words[-1])
        with chatsnapshot.open(path) as ledger:
            checkpoint = ledger._store.checkpoint("test", 1)
            assert checkpoint is not None and checkpoint.position in (told, told + 1)
            for key in "abcdef":
                assert ledger._store.load_state("test", 1, key) == b"%d" % checkpoint.position * 500
            assert ledger.verify().ok
