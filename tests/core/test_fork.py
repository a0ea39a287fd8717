"""fork: both sides go on, nothing accepted is lost or stored twice, nothing hangs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

PRELUDE = """
import os, signal, sys, threading
import chatsnapshot

def child(work):
    '''Run work in a forked child that may take 30 s; gives its pid.'''
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(30)
        work()
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)

def joined(*pids):
    for pid in pids:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def note(ledger, who, n, **options):
    return ledger.record("a.b", {"n": n}, correlation_id=who, **options)
"""


def numbers(path: str) -> dict[str, list[int]]:
    """What each side recorded, after a check of the whole."""
    found: dict[str, list[int]] = {}
    with chatsnapshot.open(path, read_only=True) as ledger:
        entries = list(ledger.read())
        assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
        assert ledger.verify().ok
        for entry in entries:
            found.setdefault(entry.correlation_id, []).append(entry.payload["n"])
    return found


@pytest.mark.parametrize("wait", [True, False])
def test_parent_and_child_both_go_on_with_an_open_ledger(
    python: Callable[..., Any], path: str, wait: bool
) -> None:
    program = f"""{PRELUDE}
ledger = chatsnapshot.open(sys.argv[1])
note(ledger, "parent", 0)
def work():
    for n in range(100):
        note(ledger, "child", n, wait={wait})
    assert ledger.flush(20).ok
    ledger.close()
pid = child(work)
for n in range(1, 100):
    note(ledger, "parent", n, wait={wait})
assert ledger.flush(20).ok
joined(pid)
ledger.close()
"""
    python(program, path)
    assert numbers(path) == {"parent": list(range(100)), "child": list(range(100))}


def test_what_the_parent_had_queued_is_stored_once_and_the_child_is_told(
    python: Callable[..., Any], path: str
) -> None:
    program = f"""{PRELUDE}
ledger = chatsnapshot.open(sys.argv[1])
append, free, reached = ledger._store.append, threading.Event(), threading.Event()
def held(groups):
    if os.getpid() == parent:
        reached.set()
        free.wait(30)
    return append(groups)
parent = os.getpid()
ledger._store.append = held
pendings = [note(ledger, "parent", 0, wait=False)]
assert reached.wait(30)   # one is in flight, the others are queued
pendings += [note(ledger, "parent", n, wait=False) for n in range(1, 20)]
def work():
    for pending in pendings:
        try:
            pending.result(10)
        except chatsnapshot.LedgerClosed as error:
            assert "accepted before the fork" in str(error), error
        else:
            raise AssertionError("the child has an answer that it cannot have")
    assert ledger.flush(10).stored == 0
    note(ledger, "child", 0)
    note(ledger, "child", 1, wait=False)
    assert ledger.flush(10).stored == 1
    ledger.close()
pid = child(work)
joined(pid)
free.set()
assert [one.result(30).payload["n"] for one in pendings] == list(range(20))
ledger.close()
"""
    python(program, path)
    assert numbers(path) == {"child": [0, 1], "parent": list(range(20))}


def test_a_fork_in_the_middle_of_other_threads_writes_and_reads_never_hangs_the_child(
    python: Callable[..., Any], path: str
) -> None:
    program = f"""{PRELUDE}
ledger = chatsnapshot.open(sys.argv[1])
note(ledger, "child", -1)
stop = threading.Event()
errors = []
def busy(step):
    try:
        n = 0
        while not stop.is_set():
            step(n)
            n += 1
    except BaseException as error:
        errors.append(error)
threads = [
    threading.Thread(target=busy, args=(lambda n: note(ledger, "writer", n),)),
    threading.Thread(target=busy, args=(lambda n: note(ledger, "queue", n, wait=False),)),
    threading.Thread(target=busy, args=(lambda n: list(ledger.read(limit=20)),)),
]
for thread in threads:
    thread.daemon = True
    thread.start()
for round in range(15):
    def work():
        list(ledger.read(limit=5))
        note(ledger, "child", round)
        ledger.close()
    joined(child(work))
stop.set()
for thread in threads:
    thread.join()
assert not errors, errors
ledger.close()
"""
    python(program, path)
    found = numbers(path)
    assert found["child"] == list(range(-1, 15))
    for name in ("writer", "queue"):
        assert found[name] == list(range(len(found[name])))


def test_a_child_of_a_child_goes_on_too(python: Callable[..., Any], path: str) -> None:
    program = f"""{PRELUDE}
ledger = chatsnapshot.open(sys.argv[1])
note(ledger, "a", 0)
def inner():
    note(ledger, "c", 0, wait=False)
    ledger.close()
def outer():
    note(ledger, "b", 0)
    joined(child(inner))
    note(ledger, "b", 1)
joined(child(outer))
note(ledger, "a", 1)
ledger.close()
"""
    python(program, path)
    assert numbers(path) == {"a": [0, 1], "b": [0, 1], "c": [0]}


def test_a_child_that_closes_or_dies_does_not_harm_the_parent(python: Callable[..., Any], path: str) -> None:
    program = f"""{PRELUDE}
ledger = chatsnapshot.open(sys.argv[1])
for n in range(10):
    note(ledger, "parent", n)
    joined(child(ledger.close))
    pid = os.fork()
    if not pid:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    list(ledger.read())
ledger.close()
"""
    python(program, path)
    assert numbers(path) == {"parent": list(range(10))}


def test_a_reader_opened_before_the_fork_reads_on_both_sides(python: Callable[..., Any], path: str) -> None:
    program = f"""{PRELUDE}
writer = chatsnapshot.open(sys.argv[1])
reader = chatsnapshot.open(sys.argv[1], read_only=True)
reading = reader.read()
note(writer, "a", 0)
assert reader.head == 1
def work():
    assert [entry.position for entry in reader.read()] == [1]
    note(writer, "b", 0)
    assert reader.head == 2
joined(child(work))
assert [entry.correlation_id for entry in reader.read()] == ["a", "b"]
"""
    python(program, path)
    assert numbers(path) == {"a": [0], "b": [0]}


def test_a_child_of_multiprocessing_stores_what_it_accepted(python: Callable[..., Any], path: str) -> None:
    program = """
import multiprocessing, sys
import chatsnapshot
def work(ledger):
    for n in range(200):
        ledger.record("a.b", {"n": n}, correlation_id="child", wait=False)
if __name__ == "__main__":
    ledger = chatsnapshot.open(sys.argv[1])
    process = multiprocessing.get_context("fork").Process(target=work, args=(ledger,))
    process.start()
    process.join(30)
    assert process.exitcode == 0, process.exitcode
"""
    python(program, path)
    assert numbers(path) == {"child": list(range(200))}


def test_a_memory_ledger_says_that_it_does_not_follow_into_a_child(python: Callable[..., Any]) -> None:
    program = f"""{PRELUDE}
ledger = chatsnapshot.open("memory:")
note(ledger, "parent", 0)
def work():
    for attempt in (lambda: note(ledger, "c", 0), lambda: list(ledger.read()), lambda: ledger.head, ledger.verify):
        try:
            attempt()
        except chatsnapshot.LedgerClosed as error:
            assert "memory: ledger" in str(error) and "fork" in str(error), error
        else:
            raise AssertionError("a memory ledger was used in a child")
joined(child(work))
assert note(ledger, "parent", 1).position == 2
"""
    python(program)


def test_a_tail_that_waits_in_the_parent_goes_on(python: Callable[..., Any], path: str) -> None:
    program = f"""{PRELUDE}
ledger = chatsnapshot.open(sys.argv[1])
seen = []
def follow():
    for entry in ledger.tail(after=0):
        seen.append(entry.correlation_id)
        if len(seen) == 3:
            return
thread = threading.Thread(target=follow)
thread.start()
note(ledger, "parent", 0)
joined(child(lambda: note(ledger, "child", 0)))
note(ledger, "parent", 1)
thread.join(30)
assert seen == ["parent", "child", "parent"], seen
"""
    python(program, path)


def test_positions_are_never_given_twice(file_ledger: Ledger, path: str, python: Any) -> None:
    """Both sides hold the tree of before the fork: neither may trust it."""
    for n in range(300):
        file_ledger.record("a.b", {"n": n}, correlation_id="before", wait=False)
    file_ledger.flush()
    program = f"""{PRELUDE}
ledger = chatsnapshot.open(sys.argv[1])
note(ledger, "parent", 0)
def work():
    for n in range(300):
        note(ledger, "child", n, wait=False)
    ledger.close()
pid = child(work)
for n in range(1, 300):
    note(ledger, "parent", n, wait=False)
ledger.flush()
joined(pid)
for n in range(300, 310):
    note(ledger, "parent", n)
"""
    python(program, path)
    found = numbers(path)
    assert found["parent"] == list(range(310))
    assert found["child"] == list(range(300))
