"""asyncio: many tasks, cancellation, several loops, loops that end early; nothing is lost, half-stored or hung."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot import EventConflict, InvalidEvent, Ledger, LedgerClosed, Limits, StoreFull


def one(number: int, **other: Any) -> dict[str, Any]:
    return {"event_type": "a.b", "payload": {"n": number}, "correlation_id": "c", **other}


def numbers(ledger: Ledger) -> list[int]:
    return [entry.payload["n"] for entry in ledger.read()]


def test_200_tasks_at_once_are_stored_in_few_commits(ledger: Ledger, gate: Callable[[Ledger], Any]) -> None:
    door = gate(ledger)

    async def main() -> list[Any]:
        return await asyncio.gather(*(ledger.arecord(**one(n)) for n in range(200)))

    entries = asyncio.run(main())
    assert [entry.payload["n"] for entry in entries] == list(range(200))
    assert sorted(entry.position for entry in entries) == list(range(1, 201))
    assert sum(door.groups) == 200
    assert len(door.groups) < 100
    assert ledger.verify().ok


def test_50_of_50_are_stored_when_the_loop_ends_straight_after(
    path: str, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(path)

    async def call(number: int) -> None:
        await ledger.arecord(**one(number))

    async def main() -> None:
        await asyncio.gather(*(call(n) for n in range(50)))

    asyncio.run(main())
    assert len(numbers(ledger)) == 50


def test_the_sync_calls_work_inside_a_loop_too(ledger: Ledger) -> None:
    async def main() -> None:
        ledger.record(**one(0))
        pending = ledger.record(**one(1), wait=False)
        await ledger.arecord(**one(2))
        report = await ledger.aflush()
        assert report.stored == 1
        assert pending.done()

    asyncio.run(main())
    assert numbers(ledger) == [0, 1, 2]


def test_arecord_many_is_whole_or_not_at_all(ledger: Ledger) -> None:
    async def main() -> None:
        entries = await ledger.arecord_many([one(n) for n in range(5)])
        assert [entry.position for entry in entries] == [1, 2, 3, 4, 5]
        assert await ledger.arecord_many([]) == []
        with pytest.raises(EventConflict):
            await ledger.arecord_many([one(6), one(9, event_id=entries[0].event_id)])
        with pytest.raises(InvalidEvent):
            await ledger.arecord_many([one(6), one(7, event_type="X")])
        assert (await ledger.arecord_many([one(6)], expected_sequence=5))[0].sequence == 6

    asyncio.run(main())
    assert ledger.head == 6


def test_errors_reach_the_task_that_made_them(ledger: Ledger, gate: Callable[[Ledger], Any]) -> None:
    door = gate(ledger)

    async def main() -> list[Any]:
        door.failure = StoreFull("no space; free some")
        failed = await asyncio.gather(*(ledger.arecord(**one(n)) for n in range(5)), return_exceptions=True)
        door.failure = None
        return [*failed, await ledger.arecord(**one(5))]

    *failed, entry = asyncio.run(main())
    assert [type(error) for error in failed] == [StoreFull] * 5
    assert entry.position == 1


def test_a_slow_store_does_not_hold_the_loop(ledger: Ledger, gate: Callable[[Ledger], Any]) -> None:
    door = gate(ledger)
    door.shut()

    async def main() -> None:
        task = asyncio.create_task(ledger.arecord(**one(0)))
        await asyncio.to_thread(door.reached)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not task.done()
        door.open()
        await task

    asyncio.run(main())


def test_a_cancelled_call_that_was_accepted_is_stored_once_and_the_ledger_goes_on(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    door = gate(ledger)
    door.shut()

    async def main() -> None:
        tasks = [asyncio.create_task(ledger.arecord(**one(n))) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        door.open()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in done] == [True, False] * 5

    asyncio.run(main())
    assert ledger.flush(10).ok
    found = numbers(ledger)
    assert set(range(1, 10, 2)) <= set(found)
    assert len(found) == len(set(found))
    assert ledger.verify().ok


def test_a_call_cancelled_while_it_waits_for_room_is_not_stored(
    url: str, opened: Callable[..., Ledger], gate: Callable[[Ledger], Any]
) -> None:
    ledger = opened(url, limits=Limits(queue_events_max=2))
    door = gate(ledger)
    door.shut()

    async def main() -> None:
        first = asyncio.create_task(ledger.arecord(**one(0)))
        await asyncio.to_thread(door.reached)  # one is in the store's hands, two fill the queue
        queued = [asyncio.create_task(ledger.arecord(**one(n))) for n in (1, 2)]
        waiting = [asyncio.create_task(ledger.arecord(**one(n))) for n in (3, 4)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        door.open()
        results = await asyncio.gather(first, *queued, *waiting, return_exceptions=True)
        assert isinstance(results[3], asyncio.CancelledError)

    asyncio.run(main())
    assert sorted(numbers(ledger)) == [0, 1, 2, 4]


def test_a_timeout_around_arecord_leaves_it_stored_or_not_but_never_hung(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    door = gate(ledger)
    door.shut()

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ledger.arecord(**one(0, idempotency_key="k")), 0.01)
        door.open()
        entry = await ledger.arecord(**one(0, idempotency_key="k"))
        assert entry.position == 1

    asyncio.run(main())
    assert ledger.head == 1


def test_back_pressure_waits_without_holding_the_loop(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, limits=Limits(queue_events_max=8, group_events_max=4))

    async def main() -> None:
        await asyncio.gather(*(ledger.arecord(**one(n)) for n in range(300)))

    asyncio.run(asyncio.wait_for(main(), 30))
    assert sorted(numbers(ledger)) == list(range(300))


def test_two_loops_in_two_threads_record_side_by_side(
    ledger: Ledger, together: Callable[..., list[Any]]
) -> None:
    async def main(thread: int) -> list[int]:
        entries = await asyncio.gather(
            *(ledger.arecord("a.b", {"n": n}, correlation_id=thread) for n in range(60))
        )
        return [entry.sequence for entry in entries]

    assert together(lambda thread: asyncio.run(main(thread)), 2) == [list(range(1, 61))] * 2
    assert ledger.head == 120


def test_a_loop_that_was_closed_before_the_answer_harms_nobody(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    door = gate(ledger)
    door.shut()
    loop = asyncio.new_event_loop()
    task = loop.create_task(ledger.arecord(**one(0)))
    loop.run_until_complete(asyncio.sleep(0))
    door.reached()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    pending = ledger.record(**one(1), wait=False)
    loop.close()
    door.open()
    assert pending.result(30).position == 2
    assert numbers(ledger) == [0, 1]


def test_a_loop_dropped_with_a_call_under_way_harms_nobody(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    door = gate(ledger)
    door.shut()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    task = loop.create_task(ledger.arecord(**one(0)))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    door.open()
    assert ledger.record(**one(1)).position in (1, 2)
    assert sorted(numbers(ledger)) == [0, 1]
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # asyncio's own words about the task that was dropped
        del task
        gc.collect()


def test_no_task_is_left_behind_and_nothing_is_unawaited(path: str, opened: Callable[..., Ledger]) -> None:
    async def main() -> set[Any]:
        async with opened(path) as ledger:
            await asyncio.gather(*(ledger.arecord(**one(n)) for n in range(20)))
            async with ledger.run("r"):
                await ledger.arecord("a.b")
            async for _ in ledger.aread(limit=3):
                break
            async for _ in ledger.tail(after=0, timeout=0.01):
                break
        assert ledger.closed
        return asyncio.all_tasks() - {asyncio.current_task()}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(main(), debug=True) == set()
        gc.collect()


def test_async_reading_gives_what_reading_gives(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, limits=Limits(page_entries_max=3))
    ledger.record_many([one(n, correlation_id=n % 2) for n in range(20)])

    async def main() -> None:
        assert [entry async for entry in ledger.aread()] == list(ledger.read())
        assert [entry async for entry in ledger.read(reverse=True, limit=7)] == list(
            ledger.read(reverse=True, limit=7)
        )
        assert [entry async for entry in ledger.areplay(1)] == list(ledger.replay(1))
        first = next(ledger.read())
        assert await ledger.aget(first.event_id) == first
        assert (await ledger.averify()).ok

    asyncio.run(main())


@pytest.mark.parametrize("made", ["aread", "areplay"])
def test_async_reading_never_asks_the_store_on_the_event_loop(
    path: str, opened: Callable[..., Ledger], made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(path, limits=Limits(page_entries_max=3))
    ledger.record_many([one(n) for n in range(10)])
    threads: set[int] = set()

    def watch(name: str) -> None:
        original = getattr(ledger._store, name)

        def asked(*given: Any, **options: Any) -> Any:
            threads.add(threading.get_ident())
            return original(*given, **options)

        monkeypatch.setattr(ledger._store, name, asked)

    for name in ("head", "last_sequence", "children", "read"):
        watch(name)

    async def main() -> int:
        given: dict[str, Any] = {"correlation_id": "c", "children": True} if made == "areplay" else {}
        assert len([entry async for entry in getattr(ledger, made)(**given)]) == 10
        return threading.get_ident()

    assert asyncio.run(main()) not in threads and threads


@pytest.mark.parametrize("made", ["read", "aread", "areplay"])
def test_an_async_loop_that_breaks_off_goes_on_where_it_was(
    url: str, opened: Callable[..., Ledger], made: str
) -> None:
    ledger = opened(url, limits=Limits(page_entries_max=4))
    ledger.record_many([one(n) for n in range(10)])

    async def main() -> list[int]:
        found: list[int] = []
        entries = getattr(ledger, made)(**({"correlation_id": "c"} if "replay" in made else {}))
        for stop in (2, 5, 6, 100):
            async for entry in entries:
                found.append(entry.position)
                if len(found) >= stop:
                    break
        return found

    assert asyncio.run(main()) == list(range(1, 11))


def test_aclose_stores_what_was_accepted_and_later_calls_are_told(
    path: str, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(path)

    async def main() -> None:
        pendings = [ledger.record(**one(n), wait=False) for n in range(100)]
        await asyncio.gather(ledger.aclose(), ledger.aclose())
        assert all(pending.done() for pending in pendings)
        with pytest.raises(LedgerClosed, match="the ledger was closed; nothing was recorded"):
            await ledger.arecord(**one(0))
        await ledger.aclose()

    asyncio.run(main())
    assert len(numbers(opened(path))) == 100


def test_closing_while_tasks_record_stores_or_refuses_each(path: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(path, limits=Limits(queue_events_max=5))

    async def main() -> list[Any]:
        tasks = [asyncio.create_task(ledger.arecord(**one(n))) for n in range(50)]
        await asyncio.sleep(0)
        await ledger.aclose()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)

    results = asyncio.run(main())
    stored = {entry.payload["n"] for entry in results if not isinstance(entry, BaseException)}
    refused = [error for error in results if isinstance(error, BaseException)]
    assert all(type(error) is LedgerClosed for error in refused)
    assert {entry.payload["n"] for entry in opened(path).read()} == stored


def test_closing_while_threads_record_stores_or_refuses_each(
    path: str, opened: Callable[..., Ledger], together: Callable[..., list[Any]]
) -> None:
    ledger = opened(path)
    begun = threading.Barrier(5)

    def work(thread: int) -> list[int]:
        begun.wait(30)
        if thread == 4:
            ledger.close()
            return []
        stored = []
        for n in range(thread * 1000, thread * 1000 + 1000):
            try:
                if n % 3:
                    ledger.record(**one(n))
                    stored.append(n)
                else:
                    ledger.record(**one(n), wait=False)
                    stored.append(n)
            except LedgerClosed:
                return stored
        return stored

    stored = [n for part in together(work, 5) for n in part]
    again = opened(path)
    assert sorted(numbers(again)) == sorted(stored)
    assert again.verify().ok
