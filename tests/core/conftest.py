"""What the tests of the core share: ledgers on both stores, a clock to set, a gate on the store, child processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.stores.base import Group, Outcome


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger goes, once for each store."""
    return "memory:" if request.param == "memory" else str(tmp_path / "runs.db")


@pytest.fixture
def opened() -> Iterator[Callable[..., Ledger]]:
    """``opened(url, **options)``: a ledger that is closed when the test ends."""
    ledgers: list[Ledger] = []

    def open_one(url: object, **options: Any) -> Ledger:
        ledgers.append(chatsnapshot.open(url, **options))  # type: ignore[arg-type]
        return ledgers[-1]

    yield open_one
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def ledger(url: str, opened: Callable[..., Ledger]) -> Ledger:
    """An empty ledger, once for each store."""
    return opened(url)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where an SQLite ledger goes."""
    return str(tmp_path / "runs.db")


@pytest.fixture
def file_ledger(path: str, opened: Callable[..., Ledger]) -> Ledger:
    """An empty SQLite ledger."""
    return opened(path)


class Hands:
    """A clock that shows what it is set to, and a salt source that gives the same bytes every time."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000_000
        self._count = 0

    def clock(self) -> int:
        """Nanoseconds since 1970."""
        return self.now

    def move(self, seconds: float) -> None:
        """Set the clock forward (or back)."""
        self.now += round(seconds * 1e9)

    def entropy(self, size: int) -> bytes:
        """The next bytes of a fixed series."""
        made = bytearray()
        while len(made) < size:
            self._count += 1
            made += self._count.to_bytes(16, "big")
        return bytes(made[:size])


@pytest.fixture
def hands() -> Hands:
    """A clock and a salt source in the test's hands."""
    return Hands()


@pytest.fixture
def new_hands() -> Callable[[], Hands]:
    """As many as a test needs."""
    return Hands


class Gate:
    """Stands before a store's append: counts commits, holds them back while shut, fails them on request."""

    def __init__(self, ledger: Ledger) -> None:
        self._append = ledger._store.append
        self._free = threading.Event()
        self._free.set()
        self.arrived = threading.Semaphore(0)
        self.groups: list[int] = []
        self.failure: BaseException | None = None
        self.refuse: Callable[[Sequence[Group]], BaseException | None] | None = None
        ledger._store.append = self.append  # type: ignore[method-assign]

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """What the recorder calls."""
        self.arrived.release()
        if not self._free.wait(30):
            raise TimeoutError("the test never opened the gate")
        error = self.failure if self.refuse is None else self.refuse(groups)
        if error is not None:
            raise error
        outcomes = self._append(groups)
        self.groups.append(sum(len(group.drafts) for group in groups))
        return outcomes

    def shut(self) -> None:
        """Hold commits back from now on."""
        self._free.clear()

    def open(self) -> None:
        """Let commits through."""
        self._free.set()

    def reached(self) -> None:
        """Wait until a commit stands at the gate."""
        assert self.arrived.acquire(timeout=30)


@pytest.fixture
def gate() -> Iterator[Callable[[Ledger], Gate]]:
    """``gate(ledger)``: a gate before its store, opened at the end of the test at the latest."""
    gates: list[Gate] = []

    def make(ledger: Ledger) -> Gate:
        gates.append(Gate(ledger))
        return gates[-1]

    yield make
    for one in gates:
        one.open()


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python(code, *arguments)``: run a program of its own; ``code=0`` is checked unless told otherwise."""

    def run(
        program: str, *arguments: object, code: int | None = 0, timeout: float = 60, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            **options,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def together() -> Callable[..., list[Any]]:
    """``together(function, count)``: call it in that many threads at once; the results, or the first error raised."""

    def run(function: Callable[[int], Any], count: int) -> list[Any]:
        barrier = threading.Barrier(count)
        results: list[Any] = [None] * count
        errors: list[BaseException] = []

        def one(number: int) -> None:
            try:
                barrier.wait(30)
                results[number] = function(number)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        if errors:
            raise errors[0]
        return results

    return run
