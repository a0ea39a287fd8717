"""Group commit: what waits together is committed together, in order, bounded, and each failure reaches its caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot import InvalidEvent, Ledger, LedgerClosed, LedgerError, Limits, StoreFull
from chatsnapshot.stores.base import Group


def note(ledger: Ledger, number: int, **options: Any) -> Any:
    return ledger.record("a.b", {"n": number}, correlation_id="c", **options)


def numbers(ledger: Ledger) -> list[int]:
    return [entry.payload["n"] for entry in ledger.read()]


def test_what_is_accepted_while_a_commit_runs_is_committed_together(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    before = gate(ledger)
    before.shut()
    pending = [note(ledger, 0, wait=False)]
    before.reached()
    pending += [note(ledger, number, wait=False) for number in range(1, 51)]
    before.open()
    assert [one.result(30).payload["n"] for one in pending] == list(range(51))
    assert before.groups == [1, 50]


def test_one_producer_keeps_its_order_when_it_mixes_waiting_and_not_waiting(ledger: Ledger) -> None:
    for number in range(60):
        note(ledger, number, wait=number % 3 == 0)
    ledger.flush()
    assert numbers(ledger) == list(range(60))


def test_callers_that_wait_are_committed_in_groups(
    ledger: Ledger, gate: Callable[[Ledger], Any], together: Callable[..., list[Any]]
) -> None:
    before = gate(ledger)
    before.shut()
    inline = threading.Thread(target=note, args=(ledger, -1))
    inline.start()
    before.reached()
    threads = [threading.Thread(target=note, args=(ledger, number)) for number in range(20)]
    for thread in threads:
        thread.start()
    while ledger._recorder.queued < 20:
        threading.Event().wait(0.001)
    before.open()
    for thread in [inline, *threads]:
        thread.join(30)
    assert before.groups == [1, 20]
    assert sorted(numbers(ledger)) == list(range(-1, 20))


def test_a_full_queue_makes_callers_wait_and_never_holds_more(
    opened: Callable[..., Ledger], url: str, gate: Callable[[Ledger], Any]
) -> None:
    ledger = opened(url, limits=Limits(queue_events_max=8))
    before = gate(ledger)
    before.shut()
    most = 0
    finished = threading.Event()

    def produce() -> None:
        for number in range(100):
            note(ledger, number, wait=False)
        finished.set()

    thread = threading.Thread(target=produce)
    thread.start()
    before.reached()
    while ledger._recorder.queued < 8:
        threading.Event().wait(0.001)
    most = max(most, ledger._recorder.queued)
    assert not finished.is_set()
    before.open()
    assert finished.wait(30)
    thread.join()
    assert most == 8
    assert ledger.flush().stored == 100
    assert numbers(ledger) == list(range(100))


def test_an_event_that_the_store_refuses_does_not_take_its_group_along(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    before = gate(ledger)

    def refuse(groups: Any) -> Exception | None:
        payloads = [draft.columns[6] for group in groups for draft in group.drafts]
        return InvalidEvent("the store does not like 13") if b'{"n":13}' in payloads else None

    before.refuse = refuse
    before.shut()
    pending = {number: note(ledger, number, wait=False) for number in range(20)}
    before.open()
    report = ledger.flush(30)
    assert (report.stored, report.ok) == (19, False)
    (failure,) = report.failures
    assert (failure.event.payload, str(failure.error)) == ({"n": 13}, "the store does not like 13")
    with pytest.raises(InvalidEvent):
        pending[13].result(30)
    assert numbers(ledger) == [number for number in range(20) if number != 13]
    assert ledger.flush() == type(report)(0)


def test_a_failure_is_never_a_silent_success(ledger: Ledger, gate: Callable[[Ledger], Any]) -> None:
    before = gate(ledger)
    before.failure = StoreFull("no space; free some")
    pending = note(ledger, 1, wait=False)
    report = ledger.flush(30)
    assert [type(failure.error) for failure in report.failures] == [StoreFull]
    with pytest.raises(StoreFull):
        pending.result(30)
    with pytest.raises(StoreFull):
        note(ledger, 2)
    before.failure = None
    assert note(ledger, 3).position == 1
    assert ledger.record_many([failure.event for failure in report.failures])[0].payload == {"n": 1}


def test_an_unforeseen_error_of_the_store_reaches_the_caller_as_one_of_ours(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    before = gate(ledger)
    before.failure = RuntimeError("a bug")
    with pytest.raises(LedgerError, match="RuntimeError: a bug"):
        note(ledger, 1)
    before.failure = None
    assert note(ledger, 2).position == 1


def test_control_c_during_a_commit_leaves_a_sound_ledger(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    before = gate(ledger)
    before.failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        note(ledger, 1)
    before.failure = None
    assert note(ledger, 2).position == 1
    assert ledger.verify().ok


def test_result_times_out_and_the_event_stays_accepted(ledger: Ledger, gate: Callable[[Ledger], Any]) -> None:
    before = gate(ledger)
    before.shut()
    pending = note(ledger, 1, wait=False)
    assert not pending.done()
    with pytest.raises(TimeoutError, match="still accepted"):
        pending.result(0.01)
    with pytest.raises(TimeoutError):
        ledger.flush(0.01)
    before.open()
    assert pending.result(30).event_id == pending.event_id
    assert pending.done()
    assert pending.result(0) == ledger.get(pending)


def test_close_stores_what_was_accepted(
    url: str, opened: Callable[..., Ledger], gate: Callable[[Ledger], Any]
) -> None:
    ledger = opened(url)
    pending = [note(ledger, number, wait=False) for number in range(500)]
    ledger.close()
    assert [one.result(0).position for one in pending] == list(range(1, 501))
    for call in (lambda: note(ledger, 1), lambda: note(ledger, 1, wait=False), lambda: ledger.head):
        with pytest.raises(LedgerClosed):
            call()
    ledger.close()


def test_no_thread_is_left_after_close(path: str, opened: Callable[..., Ledger]) -> None:
    note(opened(path), 0, wait=False)  # the one exit watch of the process is there from here on
    before = threading.active_count()
    for number in range(20):
        ledger = opened(path)
        note(ledger, number, wait=False)
        ledger.close()
    assert threading.active_count() == before


def test_a_group_larger_than_the_queue_is_taken_when_the_queue_is_empty(
    opened: Callable[..., Ledger], url: str
) -> None:
    ledger = opened(url, limits=Limits(queue_events_max=2))
    events = [{"event_type": "a.b", "payload": {"n": n}, "correlation_id": "c"} for n in range(10)]
    assert [entry.position for entry in ledger.record_many(events)] == list(range(1, 11))


def test_threads_record_densely(ledger: Ledger, together: Callable[..., list[Any]]) -> None:
    def work(thread: int) -> list[int]:
        return [ledger.record("a.b", {"n": n}, correlation_id=f"t{thread}").sequence for n in range(25)]

    assert together(work, 8) == [list(range(1, 26))] * 8
    assert [entry.position for entry in ledger.read()] == list(range(1, 201))
    assert ledger.verify().ok


def test_an_empty_group_asks_nothing_of_the_store(ledger: Ledger) -> None:
    assert ledger.record_many([]) == []
    assert ledger._store.append([Group([])]) == [[]]
    assert ledger.head == 0


def test_where_no_thread_can_be_started_the_callers_do_the_writing(
    url: str,
    opened: Callable[..., Ledger],
    together: Callable[..., list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.12 starts no thread once the interpreter begins to end; a limit of the system may say no as well."""
    ledger = opened(url, limits=Limits(queue_events_max=10))
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "chatsnapshot-writer":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pending = [note(ledger, number, wait=False) for number in range(30)]
    assert ledger.flush(10).stored == 30
    assert [one.result(0).position for one in pending] == list(range(1, 31))
    together(lambda thread: [note(ledger, n, wait=n % 2 == 0) for n in range(20)], 6)
    assert ledger.flush(10).stored == 60

    async def gathered() -> None:
        await asyncio.gather(*(ledger.arecord("a.b", {"n": n}, correlation_id="a") for n in range(50)))

    asyncio.run(gathered())
    assert ledger.head == 200
    note(ledger, 0, wait=False)
    ledger.close()
