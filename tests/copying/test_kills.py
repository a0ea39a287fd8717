"""kill -9 of copies and followers, and restarts of servers under them: the target opens, is a beginning, and goes on."""

from __future__ import annotations

import contextlib
import importlib
import json
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.copying import copy, follow, promote
from chatsnapshot.copying.places import Place
from chatsnapshot.testing.samples import event, events

NewPlace = Callable[[str], Place]

COPIER = """
import sys
from chatsnapshot import copying
from chatsnapshot.copying import transfer
transfer._EVENTS_MAX = 20
how, source, target = sys.argv[1:]
print("begun", flush=True)
if how == "copy":
    copying.copy(source, target, progress=lambda *step: print(*step, flush=True))
else:
    copying.follow(source, target, on_state=lambda state: print(state.position, flush=True))
"""


@contextlib.contextmanager
def copier(how: str, source: Place, target: Place) -> Iterator[subprocess.Popen[str]]:
    """A process that copies in small batches and prints a line after each."""
    process = subprocess.Popen(
        [sys.executable, "-c", COPIER, how, str(source), str(target)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def kill_after(process: subprocess.Popen[str], lines: int) -> None:
    """SIGKILL once it has printed so many lines, or has ended."""
    assert process.stdout is not None
    for _ in range(lines):
        if not process.stdout.readline():
            break
    process.kill()
    process.wait()


def is_a_beginning(source: Place, target: Place, kit: Any) -> int:
    """The target opens, holds the first entries of the source, and is sound but for erasures under way."""
    with kit.opened(source) as one, kit.opened(target) as other:
        rows = kit.rows(other)
        whole = kit.rows(one)[: len(rows)]
        assert [row[12] for row in rows] == [row[12] for row in whole]
        problems = other.verify().problems
        assert all(problem.code == 7 for problem in problems), problems
        return len(rows)


FAULTS = pytest.mark.faults
"""Files are killed over in make test; what needs a server, or is the same the other way round, is with the faults."""
KINDS = [
    "sqlite",
    "jsonl",
    *(pytest.param(one, marks=FAULTS) for one in ("postgresql", "nats", "mongodb")),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_is_killed_goes_on_where_it_was(
    kind: str, new_place: NewPlace, tmp_path: Path, kit: Any
) -> None:
    source, target = tmp_path / "runs.db", new_place(kind)
    with chatsnapshot.open(source) as ledger:
        kit.fill(ledger, count=600)
        kit.fill(ledger, seed=8, count=600)
    begun = []
    for lines in (2, 5, 9, 14):
        with copier("copy", source, target) as process:
            kill_after(process, lines)
        begun.append(is_a_beginning(source, target, kit))
    assert begun == sorted(begun) and begun[-1] > 200
    made = copy(source, target)
    assert made.entries == made.head - begun[-1]
    kit.same(source, target)


def test_a_target_whose_end_was_torn_by_a_crash_is_mended_and_goes_on(tmp_path: Path, kit: Any) -> None:
    source, target = tmp_path / "runs.db", tmp_path / "copy.jsonl"
    with chatsnapshot.open(source) as ledger:
        kit.fill(ledger)
    with copier("copy", source, target) as process:
        kill_after(process, 4)
    size = is_a_beginning(source, target, kit)
    lines = target.read_bytes()
    target.write_bytes(lines + lines.splitlines(keepends=True)[-1][:100])
    assert copy(source, target).entries > 0
    kit.same(source, target)
    assert size > 0


@pytest.mark.parametrize(
    ("of", "to"),
    [
        ("sqlite", "jsonl"),
        pytest.param("jsonl", "sqlite", marks=FAULTS),
        pytest.param("sqlite", "postgresql", marks=FAULTS),
    ],
)
def test_a_follower_that_is_killed_again_and_again_misses_nothing(
    of: str, to: str, new_place: NewPlace, kit: Any
) -> None:
    source, target = new_place(of), new_place(to)
    with chatsnapshot.open(str(source)) as ledger:
        ledger.record(**event(0))
        over = threading.Event()

        def write(number: int) -> None:
            one = 0
            while (
                not over.wait(0.01) and one < 2_000
            ):  # else each round compares much more than the one before
                entry = ledger.record(
                    **event(one, f"run-{number}", payload={"data": bytes([number]) * 40_000, "one": one})
                )
                if one % 20 == 19:
                    ledger.erase(entry.position, reason="asked to")
                one += 1

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            begun = []
            for lines in (2, 3, 6, 12):
                with copier("follow", source, target) as process:
                    kill_after(process, lines)
                begun.append(is_a_beginning(source, target, kit))
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert begun == sorted(begun)
    copy(source, target)
    kit.same(source, target)
    assert promote(target).position > begun[-1]


def test_an_interrupted_follower_ends_with_130_and_says_where_it_is(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        ledger.record_many(events(40))
        process = subprocess.Popen(
            [
                *[sys.executable, "-m", "chatsnapshot", "copy", str(tmp_path / "runs.db")],
                *[str(tmp_path / "copy.jsonl"), "--follow", "--json"],
            ],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        state = json.loads(process.stdout.readline())
        assert (state["position"], state["lag"], state["problem"]) == (40, 0, None)
        ledger.record(**event(41))
        assert json.loads(process.stdout.readline())["position"] == 41
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
        assert (process.returncode, rest, errors.strip()) == (130, "", "")


# --- servers that restart ---


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize(
    "kind", ["postgresql", pytest.param("nats", marks=[pytest.mark.faults, pytest.mark.timeout(300)])]
)
def test_a_server_that_is_killed_and_started_again_is_waited_for(
    kind: str, end: str, tmp_path: Path, kit: Any, require: Callable[[object, str], None]
) -> None:
    try:
        module = importlib.import_module(f"chatsnapshot.testing.servers.{kind}")
        server = {"postgresql": "PostgresqlServer", "nats": "NatsServer"}[kind]
        running = getattr(module, server)()
        running.start()
    except (ImportError, chatsnapshot.LedgerError) as error:
        require(False, f"a {kind} server ({error})")
    stop = threading.Event()
    states: list[Any] = []
    news = threading.Condition()

    def tell(state: Any) -> None:
        with news:
            states.append(state)
            news.notify_all()

    def until(wanted: Callable[[Any], bool]) -> None:
        with news:
            assert news.wait_for(lambda: states and wanted(states[-1]), 60), states[-1:]

    try:
        file = str(tmp_path / "runs.db")
        url = f"{running.url}{'&' if '?' in running.url else '?'}ledger=main"
        source, target = (url, file) if end == "source" else (file, url)
        with chatsnapshot.open(source) as ledger:
            ledger.record_many(events(30))
        follower = threading.Thread(
            target=lambda: follow(source, target, stop=stop, on_state=tell), daemon=True
        )
        follower.start()
        until(lambda state: state.position == 30)
        running.kill()
        if end == "target":
            with chatsnapshot.open(source) as ledger:
                ledger.record_many(events(30, first=30))
        until(lambda state: state.problem is not None)
        running.start()
        if end == "source":
            with chatsnapshot.open(source) as ledger:
                ledger.record_many(events(30, first=30))
        until(lambda state: state.position == 60 and state.problem is None)
        stop.set()
        follower.join(60)
        assert not follower.is_alive()
        kit.same(source, target)
    finally:
        stop.set()
        running.stop()


# --- memory ---


@pytest.mark.parametrize(
    "count", [20_000, pytest.param(100_000, marks=[pytest.mark.faults, pytest.mark.timeout(400)])]
)
def test_a_long_ledger_is_copied_in_bounded_memory(count: int, tmp_path: Path) -> None:
    """Payloads of 2,400 bytes; a batch of the largest size is 4 MiB, and there are a few at a time."""
    with chatsnapshot.open(tmp_path / "runs.db", durability="os") as ledger:
        for first in range(0, count, 5_000):
            numbers = range(first, first + 5_000)
            ledger.record_many(
                [event(one, f"run-{one % 500}", payload={"text": "x" * 2_400}) for one in numbers]
            )
    tracemalloc.start()
    try:
        made = copy(tmp_path / "runs.db", tmp_path / "copy.db", verify=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made.entries == count
    assert made.bytes > 50_000_000
    assert peak < 32 * 1024 * 1024
