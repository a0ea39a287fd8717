"""Ends of a process: what was accepted is stored at every normal one, and no end hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot

Python = Callable[..., "subprocess.CompletedProcess[str]"]

PRELUDE = """
import os, signal, sys, threading
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1])
def note(n, **options):
    return ledger.record("a.b", {"n": n}, correlation_id="c", **options)
"""


def numbers(path: str) -> list[int]:
    """What is stored, after a check of the whole."""
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        return [entry.payload["n"] for entry in ledger.read(event_type="a.b")]


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(3)", 3),
        ("raise SystemExit", 0),
        ("raise RuntimeError('broken')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("ledger.close()", 0),
        ("del ledger", 0),
        ("ledger = None; import gc; gc.collect()", 0),
        ("threading.Thread(target=lambda: note(500) and None).start()", 0),
        ("import atexit; atexit.register(lambda: None)", 0),
    ],
)
def test_500_of_500_accepted_events_are_stored_at_every_normal_end(
    python: Python, path: str, ending: str, code: int
) -> None:
    started = time.monotonic()
    done = python(f"{PRELUDE}\nfor n in range(500):\n    note(n, wait=False)\n{ending}\n", path, code=code)
    assert numbers(path)[:500] == list(range(500)), done.stderr
    assert time.monotonic() - started < 20
    assert code or done.stderr == ""


def test_a_script_of_one_record_and_nothing_else_stores_it(python: Python, path: str) -> None:
    python(f"{PRELUDE}\nnote(1)\n", path)
    assert numbers(path) == [1]


def test_a_slow_store_is_waited_for_at_exit(python: Python, path: str) -> None:
    program = f"""{PRELUDE}
append = ledger._store.append
slow = threading.Event()
def slowly(groups):
    slow.wait(0.02)   # never set: every commit takes its time
    return append(groups)
ledger._store.append = slowly
ledger._recorder._limits = chatsnapshot.Limits(group_events_max=10)
for n in range(200):
    note(n, wait=False)
"""
    python(program, path)
    assert numbers(path) == list(range(200))


def test_an_idle_ledger_does_not_hold_the_interpreter(python: Python, path: str) -> None:
    program = f"""{PRELUDE}
import time
note(1, wait=False)
ledger.flush()
tail = ledger.tail(after=0)
assert next(iter(tail)).position == 1
print(time.time(), flush=True)
"""
    done = python(program, path)
    assert time.time() - float(done.stdout) < 20, "as long as it would follow the ledger: without end"


def test_os_exit_keeps_what_was_acknowledged(python: Python, path: str) -> None:
    program = f"""{PRELUDE}
for n in range(50):
    note(n)
for n in range(50, 100):
    note(n, wait=False)
ledger.flush()
note(100, wait=False)
os._exit(7)
"""
    python(program, path, code=7)
    assert numbers(path)[:100] == list(range(100))


def test_a_kill_keeps_what_was_acknowledged(path: str) -> None:
    program = f"""{PRELUDE}
n = 0
while True:
    note(n)
    print(n, flush=True)
    n += 1
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == 40:
                break
        process.kill()
        last = max([40, *(int(line) for line in process.stdout if line.endswith("\n"))])
    assert numbers(path)[: last + 1] == list(range(last + 1))


def test_threads_that_are_no_daemons_record_until_they_end(python: Python, path: str) -> None:
    """The interpreter waits for them, so they are part of a normal end."""
    program = f"""{PRELUDE}
from concurrent.futures import ThreadPoolExecutor
main = threading.main_thread()
def work(first, wait):
    main.join()
    for n in range(first, first + 50):
        note(n, wait=wait)
pool = ThreadPoolExecutor(2)
note(-1, wait=False)
threading.Thread(target=work, args=(0, True)).start()
threading.Thread(target=work, args=(50, False)).start()
threading.Thread(target=work, args=(100, True)).start()
"""
    done = python(program, path)
    assert done.stderr == ""
    assert sorted(numbers(path)) == list(range(-1, 150))


def test_a_pool_that_nobody_waits_for_records_everything(python: Python, path: str) -> None:
    program = f"""{PRELUDE}
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(4)
for n in range(200):
    pool.submit(note, n, wait=n % 2 == 0)
"""
    done = python(program, path)
    assert done.stderr == ""
    assert sorted(numbers(path)) == list(range(200))


@pytest.mark.parametrize("wait", [True, False])
def test_a_daemon_thread_that_goes_on_recording_is_told_and_nothing_hangs(
    python: Python, path: str, wait: bool
) -> None:
    program = f"""{PRELUDE}
import time
started = threading.Event()
said = []
def forever():
    n = 0
    try:
        while True:
            note(n, wait={wait})
            n += 1
            if n == 20:
                started.set()
    except chatsnapshot.LedgerClosed as error:
        os.write(1, (str(error) + "\\n").encode())
    except BaseException as error:
        os.write(2, repr(error).encode())
threading.Thread(target=forever, daemon=True).start()
assert started.wait(30)
os.write(1, (str(time.time()) + "\\n").encode())
"""
    done = python(program, path)
    first, _, rest = done.stdout.partition("\n")
    assert time.time() - float(first) < 20
    assert rest in (
        "",
        "the interpreter is shutting down; nothing was recorded, open a ledger again to go on\n",
    )
    assert done.stderr == ""
    found = numbers(path)
    assert found == list(range(len(found)))
    assert len(found) >= 20


def test_a_ledger_that_is_used_by_an_atexit_handler_says_that_it_is_closed(python: Python, path: str) -> None:
    program = f"""{PRELUDE}
import atexit
def late():
    try:
        note(1)
    except chatsnapshot.LedgerClosed:
        print("closed")
    ledger.close()
atexit.register(late)
note(0, wait=False)
"""
    assert python(program, path).stdout == "closed\n"
    assert numbers(path) == [0]


def test_no_signal_handler_and_no_atexit_handler_is_ours(python: Python, path: str) -> None:
    program = """
import atexit, signal, sys, threading
taken = []
for name in ("register", "unregister"):
    setattr(atexit, name, lambda *a, name=name, **k: taken.append((name, a)))
register = threading._register_atexit
threading._register_atexit = lambda *a, **k: taken.append(("threading", a))
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1])
for wait in (True, False):
    ledger.record("a.b", {"n": 1}, correlation_id="c", wait=wait)
ledger.flush()
list(ledger.read()); ledger.verify(); ledger.replay("c")
with ledger.run("r"):
    pass
ours = [one for one in taken if "chatsnapshot" in repr(one)]
assert not ours, ours
assert handlers == {number: signal.getsignal(number) for number in signal.valid_signals()}
"""
    python(program, path)


def test_a_handler_for_sigterm_that_the_application_sets_later_works(path: str) -> None:
    program = f"""{PRELUDE}
def stop(*_):
    note(2, wait=False)
    ledger.close()
    sys.exit(5)
signal.signal(signal.SIGTERM, stop)
note(0, wait=False)
note(1)
print("ready", flush=True)
while True:
    signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(20) == 5
    assert numbers(path) == [0, 1, 2]


def test_a_run_that_sigterm_ends_says_so(path: str) -> None:
    program = f"""{PRELUDE}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with ledger.run("r"):
    print("ready", flush=True)
    while True:
        signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(20) == 143
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert [entry.event_type for entry in ledger.read()] == [
            "execution.run_started",
            "execution.run_failed",
        ]


def test_a_run_cut_off_by_os_exit_is_there_without_an_end(python: Python, path: str) -> None:
    python(f"{PRELUDE}\nwith ledger.run('r'):\n    os._exit(0)\n", path)
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert [entry.event_type for entry in ledger.read()] == ["execution.run_started"]


def test_a_process_whose_working_folder_moved_still_finds_its_ledger(python: Python, tmp_path: Any) -> None:
    program = """
import os, sys
import chatsnapshot
ledger = chatsnapshot.open("runs.db")
os.mkdir("elsewhere"); os.chdir("elsewhere")
ledger.record("a.b", {"n": 1}, correlation_id="c", wait=False)
"""
    python(program, cwd=tmp_path)
    assert numbers(str(tmp_path / "runs.db")) == [1]
    assert not os.path.exists(tmp_path / "elsewhere" / "runs.db")
