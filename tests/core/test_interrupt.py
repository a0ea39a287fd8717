"""Ctrl-C and signal handlers at any moment: the ledger stays sound, goes on, and nothing hangs."""

from __future__ import annotations

import inspect
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.stores.filelock import FileLock
from chatsnapshot.stores.jsonl import JsonlStore
from chatsnapshot.stores.sqlite import SqliteStore

Python = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")

STORM = """
import faulthandler, random, signal, sys, threading
import chatsnapshot
faulthandler.dump_traceback_later(45, exit=True)
ledger = chatsnapshot.open(sys.argv[1], durability="os")
chance = random.Random(int(sys.argv[2]))
interrupts = 0
def interrupt(*_):
    global interrupts
    interrupts += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
def note(who, n, **options):
    return ledger.record("a.b", {"n": n}, correlation_id=who, **options)
"""


def sound(path: str) -> dict[str, list[int]]:
    """What each producer stored, after a check of the whole."""
    found: dict[str, list[int]] = {}
    with chatsnapshot.open(path, read_only=True) as ledger:
        report = ledger.verify()
        assert report.ok, report.problems
        for entry in ledger.read(event_type="a.b"):
            found.setdefault(entry.correlation_id, []).append(entry.payload["n"])
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_storm_of_interrupts_loses_nothing_that_was_acknowledged(
    python: Python, path: str, seed: int
) -> None:
    program = f"""{STORM}
acknowledged = []
n = 0
while interrupts < 1500:
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.0012))
        while True:
            note("main", n)
            acknowledged.append(n)
            n += 1
    except KeyboardInterrupt:
        n += 1
        note("main", n)       # an except block goes on recording at once
        acknowledged.append(n)
        n += 1
signal.setitimer(signal.ITIMER_REAL, 0)
stored = [entry.payload["n"] for entry in ledger.read()]
missing = set(acknowledged) - set(stored)
assert not missing, missing
assert stored == sorted(stored) and len(set(stored)) == len(stored)
ledger.close()
"""
    python(program, path, seed)
    assert len(sound(path)["main"]) >= 1500


def test_a_storm_of_interrupts_does_not_hold_up_other_threads_or_processes(python: Python, path: str) -> None:
    program = f"""{STORM}
import subprocess
stop = threading.Event()
errors = []
def steady(who, wait):
    try:
        n = 0
        while not stop.is_set():
            note(who, n, wait=wait)
            n += 1
            if n % 20 == 0:
                stop.wait(0.001)
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=steady, args=("t1", True)), threading.Thread(target=steady, args=("t2", False))]
for thread in threads:
    thread.daemon = True
    thread.start()
other = subprocess.Popen([sys.executable, "-c", '''
import sys, chatsnapshot
ledger = chatsnapshot.open(sys.argv[1], durability="os")
for n in range(300):
    ledger.record("a.b", {{"n": n}}, correlation_id="other")
''', sys.argv[1]])
n = 0
while interrupts < 700 or other.poll() is None:
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.002))
        while True:
            note("main", n, wait=n % 3 > 0)
            n += 1
    except KeyboardInterrupt:
        n += 1
signal.setitimer(signal.ITIMER_REAL, 0)
stop.set()
for thread in threads:
    thread.join(20)
    assert not thread.is_alive()
assert not errors, errors
assert other.returncode == 0
ledger.flush(20)
ledger.close()
"""
    python(program, path, 7)
    found = sound(path)
    assert found["other"] == list(range(300))
    for name in ("t1", "t2"):
        assert found[name] == list(range(len(found[name])))
    assert found["main"] == sorted(set(found["main"]))


def test_interrupts_while_reading_leave_the_ledger_readable(python: Python, path: str) -> None:
    program = f"""{STORM}
for n in range(300):
    note("main", n, wait=False)
ledger.flush()
while interrupts < 600:
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00002, 0.001))
        while True:
            ledger.head
            list(ledger.read(after=290))
            ledger.get(next(ledger.read()).event_id)
    except KeyboardInterrupt:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(list(ledger.read())) == 300
ledger.close()
"""
    python(program, path, 8)


HANDLER = """
import signal, sys
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1])
append = ledger._store.append
def interrupted(groups):
    ledger._store.append = append
    signal.raise_signal(signal.SIGUSR1)   # runs the handler here, in the middle of record()
    return append(groups)
ledger._store.append = interrupted
def note(n, **options):
    return ledger.record("a.b", {"n": n}, correlation_id="c", **options)
"""


def test_a_signal_handler_may_record_without_waiting(python: Python, path: str) -> None:
    program = f"""{HANDLER}
signal.signal(signal.SIGUSR1, lambda *_: note(1, wait=False))
note(0)
assert ledger.flush(10).ok
ledger.close()
"""
    python(program, path)
    assert sound(path)["c"] == [0, 1]


@pytest.mark.parametrize(
    "call", ["note(1)", "ledger.record_many([])", "ledger.flush()", "ledger.run('r').__enter__()"]
)
def test_a_signal_handler_that_cannot_wait_is_told_instead_of_hanging(
    python: Python, path: str, call: str
) -> None:
    program = f"""{HANDLER}
said = []
def handler(*_):
    try:
        {call}
    except chatsnapshot.LedgerError as error:
        said.append(str(error))
signal.signal(signal.SIGUSR1, handler)
note(0)
print(said)
ledger.close()
"""
    done = python(program, path, timeout=20)
    if "record_many" in call or "flush" in call:
        assert done.stdout == "[]\n"
    else:
        assert "inside record() of the same thread" in done.stdout
        assert "use record(wait=False) there" in done.stdout
    assert sound(path)["c"] == [0]


def test_a_signal_handler_that_flushes_what_it_cannot_wait_for_is_told(python: Python, path: str) -> None:
    program = f"""{HANDLER}
said = []
def handler(*_):
    note(1, wait=False)
    try:
        ledger.flush()
    except chatsnapshot.LedgerError as error:
        said.append(str(error))
signal.signal(signal.SIGUSR1, handler)
note(0)
print(said)
"""
    assert "inside record()" in python(program, path, timeout=20).stdout
    assert sound(path)["c"] == [0, 1]


def test_a_signal_handler_may_close_in_the_middle_of_a_record(python: Python, path: str) -> None:
    program = f"""{HANDLER}
signal.signal(signal.SIGUSR1, lambda *_: (note(1, wait=False), ledger.close()))
assert note(0).position == 1
assert ledger.closed
try:
    note(2)
except chatsnapshot.LedgerClosed:
    print("closed")
"""
    assert python(program, path, timeout=20).stdout == "closed\n"
    assert sound(path)["c"] == [0, 1]


def test_a_signal_handler_may_read(python: Python, path: str) -> None:
    program = f"""{HANDLER}
signal.signal(signal.SIGUSR1, lambda *_: print(ledger.head, list(ledger.read())))
note(0)
"""
    assert python(program, path, timeout=20).stdout == "0 []\n"


def test_a_finaliser_that_records_in_the_middle_of_a_record_does_not_hang(python: Python, path: str) -> None:
    program = f"""{HANDLER}
class Late:
    def __del__(self):
        note(1, wait=False)
def handler(*_):
    global late
    del late
late = Late()
signal.signal(signal.SIGUSR1, handler)
note(0)
"""
    python(program, path, timeout=20)
    assert sound(path)["c"] == [0, 1]


@pytest.mark.parametrize("store", [SqliteStore, JsonlStore])
def test_whatever_takes_the_lock_gives_it_back_when_it_is_interrupted(store: type) -> None:
    found = {
        name: hasattr(method, "__wrapped__")
        for name, method in inspect.getmembers(store, inspect.isfunction)
        if "self._writing(" in inspect.getsource(method)
    }
    assert {"append", "erase", "import_rows", "save_states", "drop_states"} <= found.keys()
    assert [name for name, interruptible in found.items() if not interruptible] == []


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", ["runs.db", "runs.jsonl"])
def test_ctrl_c_right_after_the_lock_was_taken_holds_up_no_other_thread(
    name: str, whole: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = FileLock.take

    def interrupted(self: FileLock, holder: Any, within: float | None) -> None:
        if whole:
            take(self, holder, within)
        else:
            self._thread.acquire()
        raise KeyboardInterrupt

    def note(n: int) -> None:
        ledger.record("a.b", {"n": n}, correlation_id="run-1")

    with chatsnapshot.open(tmp_path / name) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(FileLock, "take", interrupted)
            with pytest.raises(KeyboardInterrupt):
                note(1)
        other = threading.Thread(target=note, args=(2,), daemon=True)
        other.start()
        other.join(20)
        if other.is_alive():
            ledger._store._lock.recover(lambda: None)  # type: ignore[attr-defined]  # or closing waits for it too
            pytest.fail("the lock stayed taken")
        assert [entry.payload["n"] for entry in ledger.read()] == [2]
