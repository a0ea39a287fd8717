"""Following a ledger: from the past into the present, across threads, loops and processes, missing nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot import InvalidEvent, Ledger, LedgerClosed, Limits


def note(ledger: Ledger, number: int, **options: Any) -> Any:
    return ledger.record("a.b", {"n": number}, **{"correlation_id": "c", **options})


class Follower:
    """A thread that follows, so that a test can wait for what it has seen."""

    def __init__(self, tail: Any) -> None:
        self.seen: list[int] = []
        self.error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(tail,), daemon=True)
        self._thread.start()

    def _run(self, tail: Any) -> None:
        try:
            for entry in tail:
                with self._changed:
                    self.seen.append(entry.position)
                    self._changed.notify_all()
        except BaseException as error:
            self.error = error

    def sees(self, count: int) -> list[int]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, 30), self.seen
        return self.seen

    def ends(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        assert self.error is None


def test_a_tail_starts_in_the_past_and_goes_on_live(ledger: Ledger) -> None:
    for number in range(5):
        note(ledger, number)
    with ledger.tail(after=2) as tail:
        follower = Follower(tail)
        assert follower.sees(3) == [3, 4, 5]
        note(ledger, 5)
        assert follower.sees(4) == [3, 4, 5, 6]
        note(ledger, 6, wait=False)
        assert follower.sees(5) == [3, 4, 5, 6, 7]
    follower.ends()


def test_without_a_start_only_what_comes_later_is_seen(ledger: Ledger) -> None:
    note(ledger, 0)
    tail = ledger.tail()
    note(ledger, 1)
    follower = Follower(tail)
    assert follower.sees(1) == [2]
    note(ledger, 2)
    assert follower.sees(2) == [2, 3]
    tail.close()
    follower.ends()


@pytest.mark.parametrize("after", [-5, 0])
def test_a_start_before_the_first_entry_is_the_beginning(ledger: Ledger, after: int) -> None:
    note(ledger, 0)
    assert [entry.position for entry in ledger.tail(after=after, timeout=0)] == [1]


def test_a_start_beyond_the_head_waits_for_what_comes_after_it(ledger: Ledger) -> None:
    note(ledger, 0)
    with ledger.tail(after=3) as tail:
        follower = Follower(tail)
        for number in range(1, 6):
            note(ledger, number)
        assert follower.sees(3) == [4, 5, 6]
    follower.ends()


def test_a_tail_can_be_filtered_and_tells_how_far_it_has_looked(ledger: Ledger) -> None:
    tail = ledger.tail(after=0, event_type="execution.*", correlation_id="x")
    follower = Follower(tail)
    ledger.record("execution.message", correlation_id="x")
    ledger.record("execution.message", correlation_id="y")
    ledger.record("system.error", correlation_id="x")
    ledger.record("execution.output", correlation_id="x")
    assert follower.sees(2) == [1, 4]
    tail.close()
    follower.ends()
    quiet = ledger.tail(after=0, event_type="no.such", timeout=0)
    assert list(quiet) == []
    assert quiet.position == 4


def test_a_filter_that_makes_no_sense_is_refused_at_once(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent):
        ledger.tail(event_type="nonsense")
    with pytest.raises(InvalidEvent):
        ledger.tail(after="1")  # type: ignore[arg-type]


def test_a_tail_pages_through_a_long_past(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, limits=Limits(page_entries_max=3, scan_entries_max=5))
    ledger.record_many(
        [{"event_type": "a.b" if n % 10 else "x.y", "correlation_id": "c"} for n in range(1, 101)]
    )
    assert [entry.position for entry in ledger.tail(after=0, timeout=0)] == list(range(1, 101))
    rare = ledger.tail(after=0, event_type="x.y", timeout=0)
    assert [entry.position for entry in rare] == list(range(10, 101, 10))


def test_a_second_loop_goes_on_where_the_first_one_left_off(ledger: Ledger) -> None:
    for number in range(6):
        note(ledger, number)
    tail = ledger.tail(after=0, timeout=0)
    first = []
    for entry in tail:
        first.append(entry.position)
        if len(first) == 2:
            break
    assert [*first, *(entry.position for entry in tail)] == [1, 2, 3, 4, 5, 6]
    assert [entry.position for entry in ledger.tail(after=tail.position - 1, timeout=0)] == [6]


def test_a_timeout_ends_a_quiet_tail(ledger: Ledger) -> None:
    note(ledger, 0)
    started = time.monotonic()
    assert [entry.position for entry in ledger.tail(after=0, timeout=0.05)] == [1]
    assert 0.05 <= time.monotonic() - started < 5


def test_time_that_the_consumer_takes_is_not_quiet_time(ledger: Ledger) -> None:
    for number in range(3):
        note(ledger, number)
    seen = []
    for entry in ledger.tail(after=0, timeout=0.02):
        seen.append(entry.position)
        threading.Event().wait(0.03)
    assert seen == [1, 2, 3]


def test_closing_from_another_thread_ends_a_tail_that_waits(ledger: Ledger) -> None:
    tail = ledger.tail(after=0)
    follower = Follower(tail)
    note(ledger, 0)
    follower.sees(1)
    tail.close()
    follower.ends()
    tail.close()
    assert list(tail) == []


def test_closing_the_ledger_ends_its_tails(url: str, opened: Callable[..., Ledger]) -> None:
    for _ in range(10):
        ledger = opened(url)
        followers = [Follower(ledger.tail(after=0)) for _ in range(3)]
        note(ledger, 0)
        for follower in followers:
            follower.sees(1)
        ledger.close()
        for follower in followers:
            follower.ends()
        with pytest.raises(LedgerClosed):
            ledger.tail(after=0)


def test_no_tail_misses_or_repeats_while_many_threads_record(
    ledger: Ledger, together: Callable[..., list[Any]]
) -> None:
    tail = ledger.tail(after=0)
    followers = [Follower(tail), Follower(ledger.tail()), Follower(ledger.tail(after=0, correlation_id=1))]

    def work(thread: int) -> None:
        for number in range(50):
            note(ledger, number, correlation_id=thread, wait=number % 5 == 0)

    together(work, 4)
    ledger.flush()
    assert followers[0].sees(200) == list(range(1, 201))
    assert followers[1].sees(200) == list(range(1, 201))
    mine = [entry.position for entry in ledger.read(correlation_id=1)]
    assert followers[2].sees(50) == mine


def test_a_tail_follows_other_processes(path: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(path)
    follower = Follower(ledger.tail(after=0))
    reader = Follower(opened(path, read_only=True).tail(after=0))
    program = """
import sys
import chatsnapshot
with chatsnapshot.open(sys.argv[1]) as ledger:
    for line in sys.stdin:
        ledger.record("a.b", {"n": int(line)}, correlation_id=sys.argv[2])
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", program, path, str(n)], stdin=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    for round in range(1, 6):
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(f"{round}\n")
            writer.stdin.flush()
        assert follower.sees(2 * round) == list(range(1, 2 * round + 1))
        assert reader.sees(2 * round) == list(range(1, 2 * round + 1))
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
        assert writer.wait(30) == 0


def test_an_erased_payload_is_followed_as_erased(ledger: Ledger) -> None:
    note(ledger, 0)
    ledger.erase(1, reason="asked")
    entries = list(ledger.tail(after=0, timeout=0))
    assert [entry.erased for entry in entries] == [True, False]
    assert entries[1].event_type == "ledger.payload_erased"


def test_an_erasure_wakes_a_tail(ledger: Ledger) -> None:
    note(ledger, 0)
    with ledger.tail() as tail:
        follower = Follower(tail)
        ledger.erase(1, reason="asked")
        assert follower.sees(1) == [2]
    follower.ends()


# --- asyncio ---


def test_an_async_tail_starts_in_the_past_and_goes_on_live(ledger: Ledger) -> None:
    for number in range(3):
        note(ledger, number)

    async def main() -> list[int]:
        seen: list[int] = []
        async with ledger.tail(after=1) as tail:
            async for entry in tail:
                seen.append(entry.position)
                if entry.position < 8:
                    await ledger.arecord("a.b", correlation_id="c")
                if entry.position == 8:
                    break
        return seen

    assert asyncio.run(asyncio.wait_for(main(), 30)) == [2, 3, 4, 5, 6, 7, 8]


def test_an_async_tail_is_woken_by_threads_and_closed_from_one(ledger: Ledger) -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        tail = ledger.tail(after=0)

        def work() -> None:
            for number in range(20):
                note(ledger, number)

        task = asyncio.create_task(asyncio.to_thread(work))
        async for entry in tail:
            seen.append(entry.position)
            if len(seen) == 20:
                threading.Thread(target=tail.close).start()
        await task
        return seen

    assert asyncio.run(asyncio.wait_for(main(), 30)) == list(range(1, 21))


def test_an_async_tail_times_out_ends_with_the_ledger_and_can_be_cancelled(
    url: str, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(url)

    async def follow(tail: Any) -> list[int]:
        return [entry.position async for entry in tail]

    async def main() -> None:
        note(ledger, 0)
        assert await follow(ledger.tail(after=0, timeout=0.02)) == [1]
        cancelled = asyncio.create_task(follow(ledger.tail(after=0)))
        ended = asyncio.create_task(follow(ledger.tail(after=0)))
        for _ in range(5):
            await ledger.arecord("a.b", correlation_id="c")
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await ledger.aclose()
        found = await ended
        assert found == list(range(1, len(found) + 1))

    asyncio.run(asyncio.wait_for(main(), 30), debug=True)


def test_many_async_tails_in_one_loop_see_everything(ledger: Ledger) -> None:
    async def follow(count: int) -> list[int]:
        seen = []
        async for entry in ledger.tail(after=0):
            seen.append(entry.position)
            if len(seen) == count:
                break
        return seen

    async def main() -> list[list[int]]:
        tails = [asyncio.create_task(follow(40)) for _ in range(8)]
        await asyncio.gather(*(ledger.arecord("a.b", correlation_id="c") for _ in range(40)))
        return await asyncio.gather(*tails)

    assert asyncio.run(asyncio.wait_for(main(), 30)) == [list(range(1, 41))] * 8
