"""Reading by way of a spool: what was recorded is sent first, or it is said that it was not; nobody is held up."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
import warnings
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import StoreFull, StoreUnavailable
from chatsnapshot.stores.http.store import HttpStore
from chatsnapshot.stores.spool.forwarder import _SEND_SECONDS
from chatsnapshot.stores.spool.store import SpoolBehind
from chatsnapshot.testing.checks.running import lag_while
from chatsnapshot.testing.faults.proxy import Proxy
from chatsnapshot.testing.servers.http import HttpServer


def test_a_read_sees_what_was_recorded_before_it(place: str, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        for number in range(30):
            entry = ledger.record(**kit.message(number))
            if number % 10 == 0:
                assert ledger.get(entry.event_id).sequence == number + 1
        assert ledger.head == 30
        assert not ledger._store.behind  # type: ignore[attr-defined]


def test_a_read_that_cannot_wait_for_it_says_so(
    place: str, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chatsnapshot.open(place) as ledger:
        ledger.record(**kit.message(1))
        ledger.flush(30)
        real = HttpStore.append_raw

        def full(store: HttpStore, groups: Any, seconds: float) -> list[Any]:
            raise StoreFull("no space left")

        monkeypatch.setattr(HttpStore, "append_raw", full)
        ledger.record(**kit.message(2))
        with pytest.warns(SpoolBehind, match="1 events wait"):
            assert kit.numbers(ledger) == [1]
        assert ledger._store.behind  # type: ignore[attr-defined]
        monkeypatch.setattr(HttpStore, "append_raw", real)
        ledger.flush(30)
        assert kit.numbers(ledger) == [1, 2]
        assert not ledger._store.behind  # type: ignore[attr-defined]


def test_a_flush_that_takes_too_long_says_how_many_wait_and_why(
    place: str, server: HttpServer, kit: Any
) -> None:
    with chatsnapshot.open(place) as ledger:
        server.stop()
        ledger.record_many([kit.message(1), kit.message(2)])
        with pytest.raises(TimeoutError, match=r"2 events wait .* cannot be reached"):
            ledger.flush(0.5)
        server.start()
        assert ledger.flush(30).ok


def test_erasing_waits_for_what_is_recorded_or_refuses(place: str, server: HttpServer, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        entry = ledger.record(**kit.message(1))
        ledger.erase(1, reason="asked to")
        assert ledger.get(entry.event_id).erased
        server.stop()
        ledger.record(**kit.message(2))
        with pytest.raises(StoreUnavailable):
            ledger.erase(1, reason="asked to")
        server.start()
        ledger.flush(30)


def test_a_tail_gives_what_comes_by_way_of_the_spool_and_from_elsewhere(place: str, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger, kit.direct(place) as other:
        seen: list[int] = []
        tail = ledger.tail(after=0, timeout=30)

        def follow() -> None:
            for entry in tail:
                seen.append(entry.position)
                if len(seen) == 20:
                    return

        thread = threading.Thread(target=follow)
        thread.start()
        for number in range(10):
            ledger.record(**kit.message(number))
            other.record(**kit.message(number, "other"))
        thread.join(30)
        assert seen == list(range(1, 21))


def test_recording_and_the_event_loop_are_not_held_up_by_a_service_that_stalls(
    proxied: tuple[Proxy, str], kit: Any
) -> None:
    proxy, place = proxied
    with chatsnapshot.open(place) as ledger:
        for number in range(20):
            ledger.record(**kit.message(number))
        ledger.flush(30)
        free = [_seconds(lambda one=one: ledger.record(**kit.message(20 + one))) for one in range(40)]
        ledger.flush(30)
        proxy.stall()
        ledger.record(**kit.message(60))
        held = [_seconds(lambda one=one: ledger.record(**kit.message(61 + one))) for one in range(40)]

        async def tasks() -> None:
            for number in range(101, 131):
                await ledger.arecord(**kit.message(number))

        async def measured() -> float:
            return await lag_while(tasks())

        lag = asyncio.run(measured())
        proxy.heal()
        # What waits for the network waits for all of an attempt; a disk and a busy machine hold up single ones.
        assert statistics.median(held) < 10 * statistics.median(free) + 0.1
        assert max(held) < _SEND_SECONDS - 1, "no record() waits for the network"
        assert lag < _SEND_SECONDS - 1
        assert ledger.flush(60).ok
        assert kit.numbers(ledger) == list(range(131))


def _seconds(call: Any) -> float:
    begun = time.monotonic()
    call()
    return time.monotonic() - begun


def test_no_warning_is_given_where_everything_was_sent(place: str, kit: Any) -> None:
    with warnings.catch_warnings(), chatsnapshot.open(place) as ledger:
        warnings.simplefilter("error")
        ledger.record(**kit.message(1))
        assert kit.numbers(ledger) == [1]
