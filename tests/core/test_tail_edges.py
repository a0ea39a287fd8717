"""Edges of following: filters, where a tail stands, ends in the middle of something, processes that die."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chatsnapshot import Ledger, LedgerEntry
from chatsnapshot.tail import Tail

FOLLOWED_SECONDS = 20


def note(ledger: Ledger, n: int, event_type: str = "a.b", correlation_id: str = "c", **options: Any) -> Any:
    return ledger.record(event_type, {"n": n}, correlation_id=correlation_id, **options)


def numbers(entries: Iterator[LedgerEntry], count: int) -> list[int]:
    """The next numbers."""
    return [next(entries).payload["n"] for _ in range(count)]


class Follower:
    """A thread that follows a tail; ``got`` is released once an entry, ``ended`` is set when the loop is over."""

    def __init__(self, tail: Tail) -> None:
        self.seen: list[LedgerEntry] = []
        self.got = threading.Semaphore(0)
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self.tail = tail
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            for entry in self.tail:
                self.seen.append(entry)
                self.got.release()
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()

    def wait(self, count: int) -> None:
        """Wait for that many further entries."""
        for _ in range(count):
            assert self.got.acquire(timeout=FOLLOWED_SECONDS), "an entry did not arrive"

    def over(self) -> None:
        """Wait until the loop has ended by itself."""
        assert self.ended.wait(FOLLOWED_SECONDS), "the tail never ended"
        assert self.error is None


# --- what it gives ---


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"correlation_id": "x"}, [0, 2, 4]),
        ({"event_type": "a.odd"}, [1, 3, 5]),
        ({"event_type": ["a.odd", "b.*"]}, [1, 3, 5]),
        ({"event_type": "a.*"}, [0, 1, 2, 3, 4, 5]),
        ({"correlation_id": "x", "event_type": "a.odd"}, []),
        ({"name": "odd"}, [1, 3, 5]),
        ({"attributes": {"third": True}}, [0, 3]),
    ],
)
def test_filters_hold_for_the_past_and_for_what_comes(
    ledger: Ledger, filters: dict[str, Any], wanted: list[int]
) -> None:
    def some(first: int) -> None:
        for n in range(first, first + 3):
            odd = n % 2 == 1
            ledger.record(
                "a.odd" if odd else "a.even",
                {"n": n},
                correlation_id="y" if odd else "x",
                source={"origin": "agent", "name": "odd" if odd else "even"},
                attributes={"third": n % 3 == 0},
            )

    some(0)
    follower = Follower(ledger.tail(after=0, **filters))
    follower.wait(len([n for n in wanted if n < 3]))
    some(3)
    follower.wait(len([n for n in wanted if n >= 3]))
    follower.tail.close()
    follower.over()
    assert [entry.payload["n"] for entry in follower.seen] == wanted


def test_a_follower_may_record_in_its_loop(ledger: Ledger) -> None:
    note(ledger, 0)
    seen = []
    for entry in ledger.tail(after=0, timeout=FOLLOWED_SECONDS):
        seen.append(entry.payload["n"])
        if len(seen) == 5:
            break
        note(ledger, entry.payload["n"] + 1, causation_id=entry)
    assert seen == [0, 1, 2, 3, 4]


# --- where it stands ---


def test_position_is_where_a_later_tail_goes_on(ledger: Ledger) -> None:
    for n in range(1, 6):
        note(ledger, n)
    first = ledger.tail(after=0, timeout=0)
    for entry in first:
        if entry.position == 2:
            break
    assert first.position == 2
    assert [entry.position for entry in ledger.tail(after=first.position, timeout=0)] == [3, 4, 5]


def test_position_moves_over_what_does_not_match(ledger: Ledger) -> None:
    note(ledger, 1, "x.y")
    for n in range(2, 9):
        note(ledger, n)
    tail = ledger.tail(after=0, event_type="x.y", timeout=0)
    assert [entry.position for entry in tail] == [1]
    assert tail.position == 8
    empty = ledger.tail(after=0, event_type="no.such", timeout=0)
    assert list(empty) == []
    assert empty.position == 8


# --- how it ends ---


def test_the_timeout_counts_from_the_last_match_and_not_from_what_does_not_match(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(ledger, 0)
    tail = ledger.tail(after=0, timeout=0.1, event_type="a.b")
    fetch, fetched = tail._fetch, []

    def fetch_and_record() -> list[LedgerEntry]:
        fetched.append(note(ledger, len(fetched) + 1, "x.y"))  # there is always something new
        return fetch()

    monkeypatch.setattr(tail, "_fetch", fetch_and_record)
    assert [entry.payload["n"] for entry in tail] == [0]


def test_close_ends_it_in_the_middle_of_a_page(ledger: Ledger) -> None:
    for n in range(10):
        note(ledger, n)
    with ledger.tail(after=0) as tail:
        seen = []
        for entry in tail:
            seen.append(entry.payload["n"])
            if len(seen) == 3:
                tail.close()
    assert seen == [0, 1, 2]
    assert tail.position == 3


@pytest.mark.parametrize("step", ["head", "read"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_it_ends_without_an_error_when_the_ledger_is_closed_while_it_looks(
    url: str, opened: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch, step: str, mode: str
) -> None:
    ledger = opened(url)
    note(ledger, 0)
    tail = ledger.tail(after=0)
    look = getattr(ledger._store, step)

    def close_and_look(*arguments: Any, **options: Any) -> Any:
        ledger.close()
        return look(*arguments, **options)

    monkeypatch.setattr(ledger._store, step, close_and_look)

    async def main() -> list[LedgerEntry]:
        return [entry async for entry in tail]

    assert (list(tail) if mode == "sync" else asyncio.run(main())) == []


def test_an_error_of_the_store_reaches_the_follower(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = ledger.tail(after=0)

    def broken() -> Any:
        raise OSError("gone")

    monkeypatch.setattr(ledger._store, "head", broken)
    with pytest.raises(OSError, match="gone"):
        next(iter(tail))


def test_nobody_listens_any_more_when_it_has_ended(ledger: Ledger) -> None:
    note(ledger, 0)
    list(ledger.tail(after=0, timeout=0))
    for _ in ledger.tail(after=0):
        break
    entries = iter(ledger.tail(after=0))
    next(entries)
    assert len(ledger._bell._listeners) == 1
    del entries
    assert ledger._bell._listeners == ()


# --- tasks ---


def test_a_cancelled_task_leaves_nothing_behind(ledger: Ledger) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        waiting = asyncio.Event()

        async def follow() -> None:
            async with ledger.tail(after=0) as tail:
                async for _ in tail:
                    waiting.set()

        task = asyncio.create_task(follow())
        await ledger.arecord("a.b", correlation_id="c")
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(main(), FOLLOWED_SECONDS))
    assert ledger._bell._listeners == ()
    note(ledger, 1)  # rings for nobody, not for a loop that is gone


def test_a_loop_that_ends_while_it_follows_harms_nobody(ledger: Ledger) -> None:
    tail = ledger.tail(after=0)

    async def main() -> None:
        async for _ in tail:
            break  # the generator is left to the loop

    note(ledger, 0)
    asyncio.run(main())
    assert note(ledger, 1).position == 2
    assert numbers(iter(tail), 1) == [1]


# --- processes ---

WRITER = """
import sys
import chatsnapshot
with chatsnapshot.open(sys.argv[1]) as ledger:
    for line in sys.stdin:
        ledger.record("a.b", {"n": int(line)}, correlation_id="other")
"""

READER = """
import sys
import chatsnapshot
with chatsnapshot.open(sys.argv[1], read_only=True) as ledger:
    print("ready", flush=True)
    for entry in ledger.tail(after=0):
        print(entry.payload["n"], flush=True)
"""


@contextmanager
def process(program: str, path: str) -> Iterator[subprocess.Popen[str]]:
    """A program beside this one, with pipes to it; ended at the latest when the block is left."""
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def tell(running: subprocess.Popen[str], n: int) -> None:
    assert running.stdin is not None
    running.stdin.write(f"{n}\n")
    running.stdin.flush()


def test_another_process_follows_what_this_one_records(file_ledger: Ledger, path: str) -> None:
    note(file_ledger, 0)
    with process(READER, path) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        assert reader.stdout.readline() == "0\n"
        for n in range(1, 20):
            note(file_ledger, n, wait=n % 2 == 0)
            assert reader.stdout.readline() == f"{n}\n"


def test_tasks_follow_what_another_process_records(file_ledger: Ledger, path: str) -> None:
    async def main() -> None:
        n = 0
        with process(WRITER, path) as writer:
            tell(writer, n)
            async for entry in file_ledger.tail(after=0, timeout=FOLLOWED_SECONDS):
                assert entry.payload["n"] == n
                if n == 20:
                    return
                n += 1
                tell(writer, n)
        raise AssertionError("an entry did not arrive")

    asyncio.run(asyncio.wait_for(main(), FOLLOWED_SECONDS))


def test_it_goes_on_when_the_process_that_writes_is_killed(file_ledger: Ledger, path: str) -> None:
    entries = iter(file_ledger.tail(after=0, timeout=FOLLOWED_SECONDS))
    for n in range(3):
        with process(WRITER, path) as writer:
            tell(writer, n)
            assert numbers(entries, 1) == [n]
    note(file_ledger, 3)
    assert numbers(entries, 1) == [3]
