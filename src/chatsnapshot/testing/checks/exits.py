"""Promise 10, ends of a process: what was accepted is stored at every normal one and after Ctrl-C, and no end hangs."""

from __future__ import annotations

import asyncio
import atexit
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from chatsnapshot.errors import LedgerClosed
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.diary import Diary, Recording
from chatsnapshot.testing.expecting import Failed, Skipped, expect, expect_equal, expect_sound
from chatsnapshot.testing.processes import Say, Worker
from chatsnapshot.testing.samples import event

EXIT_SECONDS_MAX = 15.0
INTERRUPT_SECONDS_MAX = 2.0

COMPLAINTS = (
    "Fatal Python error",
    "Exception ignored",
    "was never awaited",
    "was destroyed but it is pending",
)


Note = Callable[..., None]
_kept: list[Ledger] = []
"""Ledgers that nobody closes, to the end of their process."""


def _in_background(note: Note, count: int = 300) -> None:
    for number in range(count):
        note("main", number, wait=False)


def the_script_ends(ledger: Ledger, note: Note) -> None:
    _in_background(note)
    _kept.append(ledger)


def the_script_ends_without_its_ledger(ledger: Ledger, note: Note) -> None:
    _in_background(note)


def sys_exit_is_called(ledger: Ledger, note: Note) -> None:
    _kept.append(ledger)
    _in_background(note)
    sys.exit(3)


def an_exception_goes_through(ledger: Ledger, note: Note) -> None:
    _kept.append(ledger)
    _in_background(note)
    raise ValueError("meant to happen: the process of a check ends by it")


def threads_record_after_the_end_of_the_script(ledger: Ledger, note: Note) -> None:
    main = threading.main_thread()

    def work(name: str, wait: bool) -> None:
        main.join()
        for number in range(30):
            note(name, number, wait=wait)

    note("main", 0, wait=False)
    for at in range(4):
        threading.Thread(target=work, args=(f"thread-{at}", at % 2 == 0)).start()


def a_pool_is_left_to_itself(ledger: Ledger, note: Note) -> None:
    pool = ThreadPoolExecutor(3)
    for number in range(100):
        pool.submit(note, f"job-{number}", 0, wait=number % 2 == 0)


def _daemons(note: Note, wait: bool) -> None:
    started = threading.Event()

    def forever() -> None:
        number = 0
        while True:
            try:
                note("daemon", number, wait=wait)
            except LedgerClosed:
                return
            number += 1
            if number == 20:
                started.set()

    threading.Thread(target=forever, daemon=True).start()
    started.wait(10)


def a_daemon_thread_goes_on_recording(ledger: Ledger, note: Note) -> None:
    _daemons(note, wait=True)


def a_daemon_thread_goes_on_recording_in_the_background(ledger: Ledger, note: Note) -> None:
    _daemons(note, wait=False)


def a_daemon_thread_follows_the_ledger(ledger: Ledger, note: Note) -> None:
    started = threading.Event()

    def follow() -> None:
        for _ in ledger.tail(after=0):
            started.set()

    note("main", 0, wait=False)
    threading.Thread(target=follow, daemon=True).start()
    started.wait(10)


def asyncio_ends_with_calls_under_way(ledger: Ledger, note: Note) -> None:
    left: list[asyncio.Future[Any]] = []

    async def main() -> None:
        for number in range(5):
            await ledger.arecord(**event(number, "awaited"))
            note("main", number, wait=False)
        left.extend(asyncio.ensure_future(ledger.arecord(**event(at, "left"))) for at in range(20))
        await asyncio.sleep(0)

    asyncio.run(main())


def an_atexit_handler_of_the_application_comes_too_late(ledger: Ledger, note: Note) -> None:
    def late(number: int, wait: bool) -> None:
        try:
            note("late", number, wait=wait)
        except LedgerClosed:
            note.__self__.diary.write(f"refused late {number}")  # type: ignore[attr-defined]

    atexit.register(ledger.close)
    atexit.register(late, 0, True)
    atexit.register(late, 1, False)
    _in_background(note, 20)


ENDINGS: dict[str, Callable[[Ledger, Note], None]] = {
    ending.__name__: ending
    for ending in (
        the_script_ends,
        the_script_ends_without_its_ledger,
        sys_exit_is_called,
        an_exception_goes_through,
        threads_record_after_the_end_of_the_script,
        a_pool_is_left_to_itself,
        a_daemon_thread_goes_on_recording,
        a_daemon_thread_goes_on_recording_in_the_background,
        a_daemon_thread_follows_the_ledger,
        asyncio_ends_with_calls_under_way,
        an_atexit_handler_of_the_application_comes_too_late,
    )
}
CODES = {"sys_exit_is_called": 3, "an_exception_goes_through": 1}


def end(say: Say, bench: Bench, place: str, path: str, ending: str) -> None:
    """Record and end the process in the way named, while a slow store leaves events in the queue."""
    recording = Recording(bench, place, path, slow=True)
    ENDINGS[ending](recording.ledger, recording.note)


@contextmanager
def _diaries() -> Iterator[Callable[[str], str]]:
    """``path("name")``: where a diary goes."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        yield lambda name: os.path.join(folder, name)


def _stored(bench: Bench, place: str, path: str) -> list[tuple[str, int]]:
    """What a process that has ended has stored: out of the ledger, or out of the diary where none is left."""
    if not bench.traits.processes:
        return Diary.read(path, "stored")
    with bench.open(place) as ledger:
        expect_sound(ledger)
        return [(entry.correlation_id, entry.payload["number"]) for entry in ledger.read()]


def _expect_all_stored(bench: Bench, place: str, path: str, what: str) -> list[tuple[str, int]]:
    """Fail unless everything accepted is stored, once, and each producer's numbers begin at 0 and have no hole."""
    stored = _stored(bench, place, path)
    accepted = Diary.read(path, "accepted")
    missing = sorted(set(accepted) - set(stored))
    expect(
        not missing, f"{what}: {len(missing)} of {len(accepted)} accepted events are lost, as {missing[:3]}"
    )
    expect_equal(len(stored), len(set(stored)), f"{what}: entries, and different events")
    for name in {name for name, _ in stored}:
        numbers = [number for one, number in stored if one == name]
        expect_equal(numbers, list(range(len(numbers))), f"{what}: numbers of {name}")
    return stored


def _expect_endings(bench: Bench, *endings: Callable[[Ledger, Note], None]) -> dict[str, str]:
    """End a process in each way, at the same time; gives the diaries' texts."""
    texts: dict[str, str] = {}
    with _diaries() as path, bench.workers(len(endings)) as crew:
        started: list[tuple[Worker, str, str]] = []
        for worker, ending in zip(crew, endings, strict=True):
            name, place = ending.__name__, bench.place()
            worker.start(end, bench, place, path(name), name, last=True)
            started.append((worker, name, place))
        for worker, name, place in started:
            what = name.replace("_", " ")
            try:
                code = worker.ended(EXIT_SECONDS_MAX)
            except Failed as error:
                raise Failed(f"{what}: {error}") from None
            printed = worker.printed()
            expect_equal(code, CODES.get(name, 0), f"{what}: exit code, having printed {printed[-1500:]!r}")
            expect(not any(words in printed for words in COMPLAINTS), f"{what}: {printed[-1500:]}")
            stored = _expect_all_stored(bench, place, path(name), what)
            expect(stored, f"{what}: something is stored")
            with open(path(name), encoding="utf-8") as file:
                texts[name] = file.read()
    return texts


@check(10)
def a_script_that_ends_in_whatever_way_has_stored_everything_accepted(bench: Bench) -> None:
    _expect_endings(
        bench,
        the_script_ends,
        the_script_ends_without_its_ledger,
        sys_exit_is_called,
        an_exception_goes_through,
    )


@check(10)
def threads_that_outlive_the_script_record_to_their_end_and_daemons_do_not_hold_the_exit(
    bench: Bench,
) -> None:
    _expect_endings(
        bench,
        threads_record_after_the_end_of_the_script,
        a_pool_is_left_to_itself,
        a_daemon_thread_goes_on_recording,
        a_daemon_thread_goes_on_recording_in_the_background,
    )


@check(10)
def an_exit_refuses_what_comes_later_and_waits_for_nobody_who_only_follows(bench: Bench) -> None:
    late = an_atexit_handler_of_the_application_comes_too_late
    texts = _expect_endings(
        bench, late, a_daemon_thread_follows_the_ledger, asyncio_ends_with_calls_under_way
    )
    refused = [line for line in texts[late.__name__].splitlines() if line.startswith("refused")]
    expect_equal(sorted(refused), ["refused late 0", "refused late 1"], "records after the exit began")


def record_until_interrupted(say: Say, bench: Bench, place: str, path: str, asynchronous: bool) -> None:
    """Three threads and the main thread record until Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    recording = Recording(bench, place, path)
    over = threading.Event()

    def work(name: str, background: int) -> None:
        number = 0
        while not over.is_set():
            recording.note(name, number, wait=number % background == 0)
            number += 1

    async def task(name: str) -> None:
        number = 0
        while True:
            await recording.ledger.arecord(**event(number, name))
            recording.diary.write(f"accepted {name} {number}")
            number += 1

    async def main() -> None:
        await asyncio.gather(*[task(f"task-{at}") for at in range(10)])

    threads = [threading.Thread(target=work, args=(f"thread-{at}", at + 1)) for at in range(3)]
    try:
        for thread in threads:
            thread.start()
        say("ready")
        if asynchronous:
            asyncio.run(main())
        else:
            work("main", 1)
    finally:
        over.set()


@check(10)
def ctrl_c_under_load_ends_within_two_seconds_and_loses_nothing_accepted(bench: Bench) -> None:
    if not hasattr(signal, "SIGINT") or os.name != "posix":
        raise Skipped("processes cannot be interrupted here")
    chance = bench.chance("ctrl-c")
    for _ in range(bench.rounds(1)):
        with _diaries() as path, bench.workers(2) as crew:
            places = [bench.place() for _ in crew]
            for at, worker in enumerate(crew):
                worker.start(record_until_interrupted, bench, places[at], path(str(at)), at == 1, last=True)
            for at, worker in enumerate(crew):
                _interrupt(worker, path(str(at)), chance.randrange(20, 200))
                stored = _expect_all_stored(bench, places[at], path(str(at)), "Ctrl-C")
                expect(len(stored) >= 20, f"a load: {len(stored)} events were stored before Ctrl-C")


def _interrupt(worker: Worker, diary: str, after: int) -> None:
    """Ctrl-C once so many events were accepted; fails when the process is not out in time."""
    worker.said()
    deadline = time.monotonic() + 10
    while len(Diary.read(diary, "accepted")) < after and time.monotonic() < deadline:
        time.sleep(0.005)
    begun = time.monotonic()
    worker.signal(signal.SIGINT)
    worker.ended(EXIT_SECONDS_MAX)
    took = time.monotonic() - begun
    expect("KeyboardInterrupt" in worker.printed(), f"an end by Ctrl-C: {worker.printed()}")
    expect(took < INTERRUPT_SECONDS_MAX, f"out {took:.1f} s after Ctrl-C")


WATCH = """
import atexit, pickle, signal, sys, threading
taken = []
def watch(module, name):
    original = getattr(module, name, None)
    def register(function, *arguments, **options):
        taken.append(f"{name} of {getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}")
        return original(function, *arguments, **options)
    if original is not None:
        setattr(module, name, register)
watch(atexit, "register")
watch(threading, "_register_atexit")
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
bench, use, place = pickle.loads(bytes.fromhex(sys.argv[1]))
use(bench, place)
for number, handler in handlers.items():
    if signal.getsignal(number) != handler:
        taken.append(f"handler of signal {number}")
print("\\n".join(taken))
"""


def use_everything(bench: Bench, place: str) -> None:
    """Record in every way, read, and close."""
    ledger = bench.open(place)
    ledger.record(**event(1))
    ledger.record(**event(2), wait=False)
    asyncio.run(ledger.arecord(**event(3)))
    with ledger.run("run-2"):
        ledger.record("execution.output", {"value": 1})
    list(ledger.read())
    ledger.verify()
    ledger.close()


@check(10)
def no_signal_handler_and_no_atexit_handler_is_taken(bench: Bench) -> None:
    data = pickle.dumps((bench, use_everything, bench.place())).hex()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", WATCH, data],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        env=environment,
        check=False,
    )
    expect_equal(done.returncode, 0, f"exit code, having printed {done.stderr[-1500:]!r}")
    modules = [
        "chatsnapshot",
        *[getattr(made, "__module__", "") for made in (bench.opener, bench.wrap) if made],
    ]
    own = ["handler of signal", *[f"of {module}." for module in modules]]
    taken = [line for line in done.stdout.splitlines() if any(text in line for text in own)]
    expect(not taken, f"handlers that were taken: {taken}")
