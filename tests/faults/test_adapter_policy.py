"""The adapter policy over real ledgers: a store that is full, hangs, loses answers, or was closed never harms the run."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.adapters.policy import SafeRecorder, new_event
from chatsnapshot.errors import StoreFull
from chatsnapshot.testing.faults import Fault
from chatsnapshot.testing.wrappers import FaultyStore, HangingStore

pytestmark = [pytest.mark.timeout(120)]


def event(number: int) -> dict[str, Any]:
    return new_event("execution.message", {"number": number}, correlation_id="run-1")


def numbers(ledger: Ledger) -> list[int]:
    return [entry.payload["number"] for entry in ledger.read(correlation_id="run-1")]


def safe(ledger: Ledger, **options: Any) -> SafeRecorder:
    return SafeRecorder(ledger, adapter="test", retry_seconds_min=0.001, **options)


@pytest.fixture
def around(path: Path) -> Callable[[Any], tuple[Ledger, Any]]:
    """``around(FaultyStore)``: a ledger over the real store inside of a wrapper, and the wrapper."""

    def make(wrapper: Any) -> tuple[Ledger, Any]:
        plain = chatsnapshot.open(path)
        store = wrapper(plain._store)
        return Ledger(plain._opening, store), store

    return make


def test_a_full_store_stops_nobody_and_gets_everything_in_order_when_there_is_room(
    path: Path, over_journal: Any
) -> None:
    with over_journal(path) as (ledger, journal):
        recorder = safe(ledger)
        recorder.record(event(1))
        journal.fail(Fault("write", times=None, code=errno.ENOSPC))
        for number in range(2, 30):
            recorder.record(event(number))
        asyncio.run(recorder.arecord(event(30)))
        assert numbers(ledger) == [1]
        assert recorder.kept == 29
        journal.heal()
        assert recorder.flush(timeout=30)
        assert numbers(ledger) == list(range(1, 31))
        assert (recorder.dropped, recorder.kept) == (0, 0)
        assert ledger.verify().ok


def test_a_store_whose_syncs_fail_gets_each_event_once(path: Path, over_journal: Any) -> None:
    with over_journal(path) as (ledger, journal):
        recorder = safe(ledger)
        for number in range(1, 40):
            if number % 9 == 5:
                journal.fail(Fault("sync", times=2))
            recorder.record(event(number))
            assert recorder.flush(timeout=30)
        journal.heal()
        assert numbers(ledger) == list(range(1, 40))
        assert ledger.verify().ok


def test_lost_answers_store_nothing_twice(around: Any) -> None:
    ledger, store = around(FaultyStore)
    recorder = safe(ledger)
    for number in range(1, 30):
        if number % 3 == 0:
            store.lose_answer()
        if number % 5 == 0:
            store.lose_commit(times=2)
        recorder.record(event(number))
    assert recorder.flush(timeout=30)
    assert sorted(numbers(ledger)) == list(range(1, 30))
    assert ledger.verify().ok
    ledger.close()


def test_what_does_not_fit_becomes_one_gap_in_the_real_ledger(around: Any) -> None:
    ledger, store = around(FaultyStore)
    recorder = safe(ledger, kept_events_max=10)
    store.fail(StoreFull("no space left"), times=None)
    for number in range(1, 31):
        recorder.record(event(number))
    assert (recorder.kept, recorder.dropped) == (10, 20)
    store.heal()
    assert recorder.flush(timeout=30)
    assert numbers(ledger) == list(range(1, 11))
    gaps = list(ledger.read(event_type="ledger.gap"))
    assert [gap.payload["events"] for gap in gaps] == [20]
    assert ledger.verify().ok
    ledger.close()


def test_a_hanging_store_holds_the_run_up_once_and_for_the_given_time(around: Any) -> None:
    ledger, store = around(HangingStore)
    recorder = safe(ledger, wait_seconds_max=0.2)

    async def run() -> float:
        store.hold()
        begun = time.monotonic()
        for number in range(1, 21):
            await recorder.arecord(event(number))
        took = time.monotonic() - begun
        store.release()
        return took

    assert asyncio.run(run()) < 3, "waited for more than one recording"
    assert recorder.flush(timeout=30)
    assert sorted(numbers(ledger)) == list(range(1, 21)), "each once, also the one that was under way"
    assert ledger.verify().ok
    ledger.close()


def test_a_closed_ledger_ends_recording_quietly_and_what_was_stored_stays(path: Path) -> None:
    ledger = chatsnapshot.open(path)
    recorder = safe(ledger)
    recorder.record(event(1))
    ledger.close()
    recorder.record(event(2))
    asyncio.run(recorder.arecord(event(3)))
    assert recorder.flush(timeout=10)
    assert (recorder.kept, recorder.dropped) == (0, 2)
    with chatsnapshot.open(path) as again:
        assert numbers(again) == [1]
        assert again.verify().ok
