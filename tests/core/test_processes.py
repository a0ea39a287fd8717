"""Several processes on one ledger: dense positions and sequences, every event once, and what a pickled ledger is."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import LedgerError, NotFound

Script = Callable[..., str]

START_METHODS = [
    pytest.param(
        method,
        marks=pytest.mark.skipif(
            method not in multiprocessing.get_all_start_methods(), reason=f"no {method} here"
        ),
    )
    for method in ("spawn", "fork")
]
WRITERS, EVENTS = 4, 150

PRELUDE = """
import multiprocessing, sys
import chatsnapshot
path, method = sys.argv[1:3]
context = multiprocessing.get_context(method)

def joined(processes):
    for process in processes:
        process.join(30)
        assert process.exitcode == 0, process.exitcode
"""


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """``script(program, *arguments)``: run it from a file, so that spawned children can import it; gives its output."""

    def run(program: str, *arguments: str) -> str:
        file = tmp_path / "program.py"
        file.write_text(PRELUDE + program)
        done = subprocess.run(
            # Python 3.12 and on warns of every fork beside a thread.
            [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", str(file), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done.stdout

    return run


def whole(path: str) -> list[chatsnapshot.LedgerEntry]:
    """All entries, after a check that positions and sequences are dense, ids differ and the hashes are right."""
    with chatsnapshot.open(path, read_only=True) as ledger:
        entries = list(ledger.read())
        assert ledger.verify().ok
    assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
    sequences: dict[str, list[int]] = {}
    for entry in entries:
        sequences.setdefault(entry.correlation_id, []).append(entry.sequence)
    for found in sequences.values():
        assert found == list(range(1, len(found) + 1))
    assert len({entry.event_id for entry in entries}) == len(entries)
    assert [entry.recorded_at for entry in entries] == sorted(entry.recorded_at for entry in entries)
    return entries


@pytest.mark.parametrize("method", START_METHODS)
@pytest.mark.parametrize("how", ["waiting", "queued", "batches"])
def test_four_processes_write_densely_and_a_fifth_follows(
    script: Script, path: str, method: str, how: str
) -> None:
    program = f"""
def work(path, how, ready, who):
    with chatsnapshot.open(path) as ledger:
        ready.wait(30)
        for n in range({EVENTS}):
            correlation = "shared" if n % 2 else f"run-{{who}}"
            payload = {{"who": who, "n": n}}
            if how == "batches":
                ledger.record_many([dict(event_type="a.b", correlation_id=correlation, payload=payload)])
            else:
                ledger.record("a.b", payload, correlation_id=correlation, wait=how == "waiting")

if __name__ == "__main__":
    ready = context.Barrier({WRITERS} + 1)
    processes = [context.Process(target=work, args=(path, sys.argv[3], ready, who)) for who in range({WRITERS})]
    for process in processes:
        process.start()
    with chatsnapshot.open(path) as ledger:
        ready.wait(30)
        seen = []
        for entry in ledger.tail(after=0, timeout=20):
            seen.append(entry.position)
            if len(seen) == {WRITERS * EVENTS}:
                break
    assert seen == list(range(1, {WRITERS * EVENTS} + 1)), len(seen)
    joined(processes)
"""
    script(program, path, method, how)
    entries = whole(path)
    assert len(entries) == WRITERS * EVENTS
    for who in range(WRITERS):
        mine = [entry.payload["n"] for entry in entries if entry.payload["who"] == who]
        assert mine == list(range(EVENTS))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_four_forked_children_share_the_ledger_that_the_parent_opened(script: Script, path: str) -> None:
    program = f"""
def work(ledger, ready, who):
    ready.wait(30)
    for n in range({EVENTS}):
        ledger.record("a.b", {{"who": who, "n": n}}, correlation_id="shared", wait=n % 3 == 0)

if __name__ == "__main__":
    ledger = chatsnapshot.open(path)
    ledger.record("a.b", {{"who": "parent", "n": 0}}, correlation_id="shared")
    ready = context.Barrier({WRITERS} + 1)
    processes = [context.Process(target=work, args=(ledger, ready, who)) for who in range({WRITERS})]
    for process in processes:
        process.start()
    ready.wait(30)
    for n in range(1, {EVENTS}):
        ledger.record("a.b", {{"who": "parent", "n": n}}, correlation_id="shared")
    joined(processes)
    assert ledger.head == ledger.record("a.end", correlation_id="end").position - 1
"""
    script(program, path, "fork")
    entries = whole(path)[:-1]
    assert len(entries) == (WRITERS + 1) * EVENTS
    for who in ("parent", *range(WRITERS)):
        assert [entry.payload["n"] for entry in entries if entry.payload["who"] == who] == list(range(EVENTS))


@pytest.mark.parametrize("method", START_METHODS)
def test_a_pool_of_processes_takes_the_ledger_as_an_argument(script: Script, path: str, method: str) -> None:
    program = """
from concurrent.futures import ProcessPoolExecutor

def acknowledged(ledger, n):
    return ledger.record("a.b", {"n": n}, correlation_id="pool").position

def accepted(ledger, n):
    ledger.record("a.b", {"n": n}, correlation_id="pool", wait=False)   # and nobody closes or flushes

def count(ledger):
    return sum(1 for entry in ledger.read(correlation_id="pool"))

if __name__ == "__main__":
    ledger = chatsnapshot.open(path)
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        positions = list(pool.map(acknowledged, [ledger] * 40, range(40)))
        assert sorted(positions) == list(range(1, 41)), positions
        assert pool.submit(count, ledger).result(30) == 40
        list(pool.map(accepted, [ledger] * 40, range(40, 80)))
    assert ledger.head == 80
"""
    script(program, path, method)
    assert sorted(entry.payload["n"] for entry in whole(path)) == list(range(80))


@pytest.mark.parametrize("method", START_METHODS)
def test_processes_that_race_with_one_id_store_it_once(script: Script, path: str, method: str) -> None:
    program = """
def work(path, ready, answers):
    with chatsnapshot.open(path) as ledger:
        ready.wait(30)
        for n in range(40):
            entry = ledger.record("a.b", {"n": n}, correlation_id="c", idempotency_key=f"step {n}")
            answers.put((n, entry.position))

if __name__ == "__main__":
    ready = context.Barrier(3)
    answers = context.Queue()
    processes = [context.Process(target=work, args=(path, ready, answers)) for _ in range(3)]
    for process in processes:
        process.start()
    assert {answers.get(timeout=30) for _ in range(120)} == {(n, n + 1) for n in range(40)}
    joined(processes)
"""
    script(program, path, method)
    assert [entry.payload["n"] for entry in whole(path)] == list(range(40))


def test_processes_that_create_one_ledger_at_once_all_get_the_same_one(script: Script, path: str) -> None:
    program = """
def work(path, ready, answers):
    ready.wait(30)
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", correlation_id="c")
        answers.put(ledger.ledger_id)

if __name__ == "__main__":
    ready = context.Barrier(4)
    answers = context.Queue()
    processes = [context.Process(target=work, args=(path, ready, answers)) for _ in range(4)]
    for process in processes:
        process.start()
    assert len({answers.get(timeout=30) for _ in processes}) == 1
    joined(processes)
"""
    script(program, path, "spawn")
    assert len(whole(path)) == 4


def test_two_ledgers_of_one_file_in_one_process_write_as_two_processes_do(
    path: str, opened: Callable[..., Ledger], together: Callable[..., list[Any]]
) -> None:
    ledgers = [opened(path), opened(path)]

    def work(who: int) -> None:
        for n in range(60):
            ledgers[who % 2].record("a.b", {"who": who, "n": n}, correlation_id="shared", wait=n % 2 == 0)

    together(work, 4)
    for ledger in ledgers:
        assert ledger.flush(20).ok
    entries = whole(path)
    for who in range(4):
        assert [entry.payload["n"] for entry in entries if entry.payload["who"] == who] == list(range(60))


def test_a_ledger_dropped_or_closed_leaves_the_other_one_of_its_file_alone(
    path: str, opened: Callable[..., Ledger]
) -> None:
    first = opened(path)
    with opened(path) as second:
        second.record("a.b", {"n": 0}, correlation_id="c")
    del second
    assert first.record("a.b", {"n": 1}, correlation_id="c").position == 2
    assert [entry.payload["n"] for entry in whole(path)] == [0, 1]


# --- pickling ---


def test_a_pickled_ledger_whose_file_is_gone_says_so_and_makes_no_other(
    tmp_path: Path, opened: Callable[..., Ledger]
) -> None:
    data = pickle.dumps(opened(tmp_path / "runs.db"))
    (tmp_path / "runs.db").rename(tmp_path / "moved.db")
    with pytest.raises(NotFound, match="no ledger at"):
        pickle.loads(data)
    assert not (tmp_path / "runs.db").exists()


def test_a_pickled_ledger_keeps_how_it_was_opened(path: str, opened: Callable[..., Ledger]) -> None:
    named = {"origin": "system", "runtime": "none", "name": "worker"}
    limits = chatsnapshot.Limits(payload_bytes_max=1000)
    ledger = opened(f"{path}?ledger=tenant-a", durability="os", source=named, limits=limits)
    with pickle.loads(pickle.dumps(ledger)) as twin:
        assert (twin.url, twin.ledger_id, twin.limits) == (ledger.url, ledger.ledger_id, limits)
        assert not twin._store.traits.durable
        assert twin.record("a.b", correlation_id="c").event.source.name == "worker"
    reader = opened(f"{path}?ledger=tenant-a", read_only=True)
    with pickle.loads(pickle.dumps(reader)) as twin:
        assert twin.read_only
        assert twin.head == 1


def test_a_memory_ledger_refuses_to_go_to_another_process(script: Script) -> None:
    program = """
from concurrent.futures import ProcessPoolExecutor

def work(ledger):
    raise AssertionError("a memory ledger arrived")

if __name__ == "__main__":
    ledger = chatsnapshot.open("memory:")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        error = pool.submit(work, ledger).exception(30)
    assert isinstance(error, chatsnapshot.LedgerError), error
    print(error)
"""
    assert "cannot be pickled; use a path such as runs.db" in script(program, "memory:", "spawn")


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_memory_ledger_refuses_to_work_in_a_forked_child(script: Script) -> None:
    program = """
import asyncio

def work(ledger):
    event = dict(event_type="a.b", correlation_id="c")
    for attempt in (
        lambda: ledger.record(**event),
        lambda: ledger.record(**event, wait=False).result(10),
        lambda: ledger.record_many([event]),
        lambda: asyncio.run(ledger.arecord(**event)),
        lambda: list(ledger.read()),
        lambda: next(iter(ledger.tail(after=0, timeout=5))),
        lambda: ledger.get("00000000-0000-7000-8000-000000000000"),
        ledger.verify,
    ):
        try:
            attempt()
        except chatsnapshot.LedgerClosed as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("a memory ledger was used in a forked child")

if __name__ == "__main__":
    import logging
    logging.disable()
    ledger = chatsnapshot.open("memory:")
    ledger.record("a.b", correlation_id="c")
    process = context.Process(target=work, args=(ledger,))
    process.start()
    joined([process])
    assert ledger.record("a.b", correlation_id="c").position == 2
"""
    script(program, "memory:", "fork")


def test_a_memory_ledger_does_not_pickle_also_inside_something_else(opened: Callable[..., Ledger]) -> None:
    with pytest.raises(LedgerError, match="cannot be pickled"):
        pickle.dumps({"ledger": opened("memory:")})
