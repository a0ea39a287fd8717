"""Promise 10, fork: both sides go on, nothing hangs, nothing accepted is lost or stored twice."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from chatsnapshot.errors import LedgerError
from chatsnapshot.ledger import Ledger
from chatsnapshot.stores.base import Group, Outcome, Store
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Failed, Skipped, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events
from chatsnapshot.testing.wrappers import PassingStore

CHILD_SECONDS_MAX = 10.0


class Child:
    """A forked child of a worker that does one thing; what it raises, or where it hangs, reaches :meth:`joined`.

    ``leaving`` says how it ends: ``"at once"`` by ``os._exit``, ``"normally"`` as a script does, or ``"killed"``.
    """

    def __init__(self, work: Callable[[], object], leaving: str = "at once") -> None:
        self.leaving = leaving
        self._reading, writing = os.pipe()
        faulthandler.cancel_dump_traceback_later()  # its thread, if there is one, does not follow the fork
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            self._run(work, writing)
        os.close(writing)

    def _run(self, work: Callable[[], object], writing: int) -> NoReturn:
        faulthandler.dump_traceback_later(CHILD_SECONDS_MAX, exit=True, file=writing)
        try:
            work()
        except BaseException:
            os.write(writing, traceback.format_exc()[-4000:].encode())
            os._exit(1)
        if self.leaving == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.leaving == "normally":
            raise SystemExit(0)  # goes through the worker: the interpreter ends as it does for any script
        os._exit(0)

    def joined(self) -> None:
        """Wait for its end; raises :class:`Failed` with what went wrong in it."""
        text = b""
        deadline = time.monotonic() + CHILD_SECONDS_MAX + 3
        while select.select([self._reading], [], [], max(deadline - time.monotonic(), 0))[0]:
            data = os.read(self._reading, 65536)
            if not data:
                break
            text += data
        else:
            os.kill(self.pid, signal.SIGKILL)
            text += b"it hangs"
        os.close(self._reading)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        wanted = -signal.SIGKILL if self.leaving == "killed" else 0
        if text or code != wanted:
            raise Failed(f"a forked child went wrong (exit code {code}): {text.decode(errors='replace')}")


def can_fork() -> None:
    """Skip where there is no fork."""
    if not hasattr(os, "fork"):
        raise Skipped("this system has no fork")


class Announcing(PassingStore):
    """Sets ``inside`` whenever an append begins."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.inside = threading.Event()
        self.parent = os.getpid()

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        if os.getpid() == self.parent:  # the event may be locked for ever in a child
            self.inside.set()
        return self.inner.append(groups)


class HeldInParent(PassingStore):
    """Holds the appends of the process that made it until ``gate`` is set; a forked child's go through."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.gate = threading.Event()
        self.reached = threading.Event()
        self.parent = os.getpid()

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        if os.getpid() == self.parent:
            self.reached.set()
            self.gate.wait(40)
        return self.inner.append(groups)


def _record_as_child(ledger: Ledger, name: str) -> None:
    """What a child does with an open ledger: every way of recording, reading, and closing."""
    ledger.record(**event(0, name))
    ledger.record(**event(1, name), wait=False)
    expect(ledger.flush(CHILD_SECONDS_MAX).ok, "flush in a forked child")
    ledger.record_many(events(2, name, first=2))
    expect_numbers(ledger, name, 4)
    ledger.close()


def expect_numbers(ledger: Ledger, correlation_id: str, count: int) -> None:
    """Fail unless the numbers 0, 1, 2 … are stored once each and in order."""
    found = [entry.payload["number"] for entry in ledger.read(correlation_id=correlation_id)]
    expect_equal(found, list(range(count)), f"numbers stored for {correlation_id!r}")


def fork_beside_writers(say: Say, bench: Bench, place: str, rounds: int, lock: bool) -> list[int]:
    """Fork again and again while three threads record; how many each of them recorded."""
    chance = bench.chance("moment of the fork")
    ledger, announcing = bench.open_with(Announcing, place)
    over = threading.Event()
    counts = [0, 0, 0]
    errors: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            while not over.is_set():
                number = counts[writer]
                if writer == 2 and number % 20:
                    ledger.record(**event(number, f"writer-{writer}"), wait=False)
                else:
                    ledger.record(**event(number, f"writer-{writer}"))
                counts[writer] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,), daemon=True) for writer in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(rounds):
            announcing.inside.clear()
            expect(announcing.inside.wait(20), "the threads of the parent go on recording")
            for _ in range(chance.randrange(20_000) if number % 3 else 0):
                pass  # any moment inside of the append
            if lock:
                _fork_while_locked(ledger, number)
            else:
                child = Child(lambda number=number: _record_as_child(ledger, f"child-{number}"))  # type: ignore[misc]
                ledger.record(**event(number, "parent"))
                child.joined()
    finally:
        over.set()
        for thread in threads:
            thread.join(20)
    if errors:
        raise errors[0]
    expect(not any(thread.is_alive() for thread in threads), "a thread of the parent hangs")
    ledger.close()
    return counts


def _fork_while_locked(ledger: Ledger, number: int) -> None:
    """Fork while another thread is known to hold the lock that keeps writers apart."""
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with store_of(ledger)._lock.held():  # type: ignore[attr-defined]
            held.set()
            go_on.wait(20)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    expect(held.wait(20), "a thread gets the lock")
    child = Child(lambda: _record_as_child(ledger, f"child-{number}"))
    go_on.set()
    holder.join(20)
    ledger.record(**event(number, "parent"))
    child.joined()


def _forks(bench: Bench, rounds: int, lock: bool) -> None:
    can_fork()
    place = bench.place()
    with bench.open(place) as ledger:
        if lock and not hasattr(getattr(store_of(ledger), "_lock", None), "held"):
            raise Skipped("no lock of this store is known that a thread could hold")
    with bench.workers(1) as (worker,):
        counts = worker.run(fork_beside_writers, bench, place, rounds, lock)
    with bench.open(place) as ledger:
        for number in range(rounds):
            expect_numbers(ledger, f"child-{number}", 4)
        for writer, count in enumerate(counts):
            expect_numbers(ledger, f"writer-{writer}", count)
        expect_numbers(ledger, "parent", rounds)
        expect_sound(ledger, 5 * rounds + sum(counts))


@check(10, "processes")
def a_fork_in_the_middle_of_an_append_of_another_thread_hangs_nobody_and_loses_nothing(bench: Bench) -> None:
    _forks(bench, bench.rounds(12), lock=False)


@check(10, "processes")
def a_fork_while_another_thread_holds_the_lock_hangs_nobody_and_loses_nothing(bench: Bench) -> None:
    _forks(bench, bench.rounds(4), lock=True)


def fork_beside_a_queue(say: Say, bench: Bench, place: str, rounds: int) -> None:
    """Fork while events wait in the queue: the parent stores them, the child has no part in them."""
    ledger, held = bench.open_with(HeldInParent, place)
    for number in range(rounds):
        held.gate.clear()
        held.reached.clear()
        first = 20 * number
        pendings = [ledger.record(**event(first, "parent"), wait=False)]
        expect(held.reached.wait(20), "the writer has begun")
        pendings += [ledger.record(**event(first + at, "parent"), wait=False) for at in range(1, 20)]

        def work(number: int = number, pendings: list[Any] = pendings) -> None:
            for pending in pendings:
                with expecting(LedgerError, "the result of an event that its parent stores"):
                    pending.result(5)
            expect_equal(ledger.flush(5).stored, 0, "events of the parent that a child stored")
            _record_as_child(ledger, f"child-{number}")

        Child(work).joined()
        held.gate.set()
        for pending in pendings:
            pending.result(20)
    ledger.close()


@check(10, "processes")
def what_the_parent_had_queued_at_a_fork_is_stored_once_and_by_the_parent(bench: Bench) -> None:
    can_fork()
    place, rounds = bench.place(), bench.rounds(3)
    with bench.workers(1) as (worker,):
        worker.run(fork_beside_a_queue, bench, place, rounds)
    with bench.open(place) as ledger:
        expect_numbers(ledger, "parent", 20 * rounds)
        for number in range(rounds):
            expect_numbers(ledger, f"child-{number}", 4)
        expect_sound(ledger, 24 * rounds)


def fork_under_load(say: Say, bench: Bench, place: str, children: int, each: int) -> None:
    """Parent and children record in the background side by side."""
    ledger = bench.open(place)
    started: list[Child] = []

    def work(name: str) -> None:
        for number in range(each):
            ledger.record(**event(number, name), wait=False)
        expect(ledger.flush(CHILD_SECONDS_MAX).ok, "flush in a child")

    for number in range(children * each):
        ledger.record(**event(number, "parent"), wait=False)
        if number % each == each // 2:
            name = f"child-{len(started)}"
            started.append(Child(lambda name=name: work(name)))  # type: ignore[misc]
    for child in started:
        child.joined()
    expect(ledger.flush(30).ok, "flush in the parent")
    ledger.close()


@check(10, "processes")
def forks_in_the_middle_of_a_load_in_the_background_lose_nothing(bench: Bench) -> None:
    can_fork()
    place, children, each = bench.place(), bench.rounds(4), 50
    with bench.workers(1) as (worker,):
        worker.run(fork_under_load, bench, place, children, each)
    with bench.open(place) as ledger:
        expect_numbers(ledger, "parent", children * each)
        for number in range(children):
            expect_numbers(ledger, f"child-{number}", each)
        expect_sound(ledger, 2 * children * each)


def fork_and_leave(say: Say, bench: Bench, place: str) -> int:
    """Children that end in every way, and one that forks a child of its own; how many rounds there were."""
    ledger = bench.open(place)
    tail = iter(ledger.tail(after=0, timeout=20))

    def record(name: str, **options: Any) -> None:
        ledger.record(**event(0, name), **options)

    def fork_again() -> None:
        record("outer")
        Child(lambda: record("inner")).joined()

    works: list[tuple[Callable[[], object], str]] = [
        (lambda: None, "normally"),
        (lambda: record("normally", wait=False), "normally"),
        (lambda: record("at once"), "at once"),
        (lambda: record("killed"), "killed"),
        (ledger.close, "at once"),
        (ledger.close, "normally"),
        (fork_again, "normally"),
    ]
    for number, (work, leaving) in enumerate(works):
        waits: dict[str, Any] = {"wait": bool(number % 2)}
        ledger.record(**event(2 * number, "parent"), **waits)
        child = Child(work, leaving)
        ledger.record(**event(2 * number + 1, "parent"), **waits)
        child.joined()
        expect_equal(next(tail).position, number + 1, "a tail of the parent goes on")
    expect(ledger.flush(20).ok, "flush in the parent")
    list(ledger.read())
    ledger.close()
    return len(works)


@check(10, "processes")
def a_child_that_ends_in_whatever_way_does_not_harm_its_parent(bench: Bench) -> None:
    can_fork()
    place = bench.place()
    with bench.workers(1) as (worker,):
        rounds = worker.run(fork_and_leave, bench, place)
    with bench.open(place) as ledger:
        expect_numbers(ledger, "parent", 2 * rounds)
        for name in ("normally", "at once", "killed", "outer", "inner"):
            expect_numbers(ledger, name, 1)
        expect_sound(ledger, 2 * rounds + 5)


def fork_and_ask(say: Say, bench: Bench, place: str) -> None:
    """A child either uses the ledger or is told that it cannot; the parent goes on."""
    ledger = bench.open(place)
    ledger.record(**event(0))
    processes = store_of(ledger).traits.processes
    attempts: dict[str, Callable[[], object]] = {
        "record": lambda: ledger.record(**event(1)),
        "read": lambda: list(ledger.read()),
        "head": lambda: ledger.head,
    }

    def work() -> None:
        if processes:
            for attempt in attempts.values():
                attempt()
            return
        for name, attempt in attempts.items():
            with expecting(
                LedgerError, f"{name} in a forked child, where processes are not claimed"
            ) as caught:
                attempt()
            expect("fork" in str(caught.error), f"the error of {name} tells of the fork: {caught.error}")

    Child(work).joined()
    ledger.record(**event(2))
    expect_sound(ledger, 3 if processes else 2)
    ledger.close()


@check(10)
def a_forked_child_can_use_an_open_ledger_or_is_told_that_it_cannot(bench: Bench) -> None:
    can_fork()
    with bench.workers(1) as (worker,):
        worker.run(fork_and_ask, bench, bench.place())
