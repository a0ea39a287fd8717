"""What waits in a spool gets to the service: in order, nothing lost, nothing doubled, whatever fails in between."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import EventConflict, StoreFull
from chatsnapshot.stores.spool.forwarder import Backoff, Forwarder
from chatsnapshot.testing.faults.proxy import Proxy
from chatsnapshot.testing.servers.http import HttpServer

Start = Callable[[str, str], Any]


def test_pauses_double_up_to_a_bound_and_are_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "SECONDS_MAX", 30.0)
    backoff = Backoff()
    pauses = [backoff.next() for _ in range(40)]
    wholes = [min(0.25 * 2**number, 30.0) for number in range(40)]
    assert all(whole / 2 <= pause <= whole for pause, whole in zip(pauses, wholes, strict=True))
    assert len(set(pauses)) == 40
    backoff.reset()
    assert backoff.next() <= 0.25


def test_a_service_that_is_away_for_an_hour_is_asked_now_and_then_and_gets_everything(
    place: str, server: HttpServer, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    hour_over = threading.Event()

    def pause(forwarder: Forwarder, seconds: float) -> None:
        slept.append(seconds)
        if sum(slept) > 3600 and not hour_over.is_set():
            server.start()
            hour_over.set()

    monkeypatch.setattr(Backoff, "SECONDS_MAX", 30.0)
    monkeypatch.setattr(Forwarder, "_pause", pause)
    with chatsnapshot.open(place) as ledger:
        server.stop()
        for number in range(50):
            ledger.record(**kit.message(number))
        assert hour_over.wait(60)
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == list(range(50))
    assert 3600 / 30 <= len(slept) < 3600 / 15 + 20, "attempts in an hour"


def test_a_killed_service_gets_everything_once_when_it_is_back(
    place: str, server: HttpServer, kit: Any
) -> None:
    with chatsnapshot.open(place) as ledger:
        for number in range(120):
            ledger.record(**kit.message(number))
            if number % 40 == 20:
                server.kill()
            if number % 40 == 39:
                server.start()
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == list(range(120))
        assert ledger.verify().ok


def test_connections_cut_at_random_points_lose_and_double_nothing(
    proxied: tuple[Proxy, str], seeded: random.Random, kit: Any
) -> None:
    proxy, place = proxied
    with chatsnapshot.open(place) as ledger:
        for number in range(200):
            ledger.record(**kit.message(number, f"run-{number % 3}"))
            chance = seeded.random()
            if chance < 0.10:
                proxy.cut()
            elif chance < 0.20:
                proxy.lose_answer(seeded.randrange(4))
            elif chance < 0.30:
                proxy.lose_request(seeded.randrange(4))
            elif chance < 0.40:
                proxy.heal()
        proxy.heal()
        assert ledger.flush(30).ok
        for run in range(3):
            assert kit.numbers(ledger, f"run-{run}") == list(range(run, 200, 3))
        assert ledger.head == 200


def test_an_answer_lost_after_the_commit_doubles_nothing(proxied: tuple[Proxy, str], kit: Any) -> None:
    proxy, place = proxied
    with chatsnapshot.open(place) as ledger:
        ledger.record(**kit.message(0))
        ledger.flush(30)
        lost = proxy.counts.lost
        proxy.lose_answer(0)
        ledger.record(**kit.message(1))
        deadline = time.monotonic() + 20
        while proxy.counts.lost == lost and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        proxy.heal()
        assert proxy.counts.lost > lost
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == [0, 1]


def test_a_refused_event_is_set_aside_told_and_recorded_and_holds_up_nobody(
    place: str, server: HttpServer, kit: Any
) -> None:
    with chatsnapshot.open(place) as ledger, kit.direct(place) as other:
        kept = other.record(**kit.message(7), idempotency_key="a")
        server.stop()
        ledger.record(**kit.message(1))
        refused = ledger.record(**kit.message(8), idempotency_key="a")
        ledger.record_many([kit.message(2), kit.message(3)])
        server.start()
        report = ledger.flush(30)
        assert [failure.event.event_id for failure in report.failures] == [refused.event_id]
        error = report.failures[0].error
        assert isinstance(error, EventConflict)
        assert (error.position, error.fields) == (kept.position, ("payload",))
        assert kit.numbers(ledger) == [7, 1, 2, 3]
        ledger.flush(30)
        (note,) = ledger.read(event_type="ledger.rejected")
        assert note.correlation_id == "ledger"
        assert note.payload["event_id"] == refused.event_id
        assert note.payload["error"] == "EventConflict"
        assert ledger.flush(30).ok, "it is told once"
        assert ledger._store._file.counted().refused == 1  # type: ignore[attr-defined]


def test_a_batch_of_which_one_is_refused_is_set_aside_whole(place: str, server: HttpServer, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger, kit.direct(place) as other:
        other.record(**kit.message(7), idempotency_key="a")
        server.stop()
        ledger.record_many([kit.message(1), {**kit.message(8), "idempotency_key": "a"}])
        ledger.record(**kit.message(2))
        server.start()
        assert len(ledger.flush(30).failures) == 2
        assert kit.numbers(ledger) == [7, 2]
        ledger.flush(30)
        assert len(list(ledger.read(event_type="ledger.rejected"))) == 2


def test_what_is_too_large_for_the_service_is_set_aside(
    place: str, server: HttpServer, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chatsnapshot.open(place) as ledger:
        ledger.record(**kit.message(0))
        ledger.flush(30)
        remote = ledger._store._remote()  # type: ignore[attr-defined]
        monkeypatch.setattr(remote._opened, "store_bytes_max", 2_000)
        server.stop()
        ledger.record(**kit.message(1))
        ledger.record("execution.message", {"role": "user", "content": "x" * 5_000}, correlation_id="big")
        ledger.record(**kit.message(2))
        server.start()
        (failure,) = ledger.flush(30).failures
        assert failure.error.limit == "store_bytes_max"  # type: ignore[attr-defined]
        assert kit.numbers(ledger) == [0, 1, 2]


def test_two_processes_share_a_spool_and_the_other_goes_on_when_one_dies(
    place: str, server: HttpServer, kit: Any, program: Start
) -> None:
    text = """
print("open", flush=True)
sys.stdin.readline()
record(0, 40, sys.argv[2] if len(sys.argv) > 2 else str(os.getpid()))
print(os.getpid(), flush=True)
sys.stdin.readline()
snapshot.close()
"""
    one, other = program(place, text), program(place, text)
    assert (one.line(), other.line()) == ("open", "open")
    one.go()
    other.go()
    names = [one.line(), other.line()]
    server.stop()
    with chatsnapshot.open(place) as ledger:
        ledger.record(**kit.message(99))
        one.kill()
        server.start()
        other.go()
        assert other.end() == 0
        assert ledger.flush(30).ok
        for name in names:
            assert kit.numbers(ledger, name) == list(range(40))
        assert kit.numbers(ledger) == [99]
        assert ledger.head == 81


def test_killed_clients_lose_and_double_nothing(
    place: str, server: HttpServer, kit: Any, program: Start
) -> None:
    text = """
for number in range(100000):
    record(number, 1, sys.argv[0] + str(os.getpid()))
    print(number, flush=True)
"""
    told: dict[int, int] = {}
    for turn in range(4):
        one = program(place, text)
        last = -1
        while last < 15 + 10 * turn:
            last = int(one.line())
        one.process.kill()
        told[one.process.pid] = int(([str(last), *one.process.stdout.read().split()])[-1])
        one.end()
    with chatsnapshot.open(place) as ledger:
        assert ledger.flush(30).ok
        total = 0
        for pid, last in told.items():
            found = kit.numbers(ledger, f"-c{pid}")
            assert found == list(range(len(found))), "in order, none twice"
            assert len(found) in (last + 1, last + 2), "what was told, and perhaps one more"
            total += len(found)
        assert ledger.head == total
        assert ledger.verify().ok


def test_a_fork_records_and_sends_too(place: str, kit: Any, program: Start) -> None:
    text = """
record(0, 10, "parent")
pid = os.fork()
if pid == 0:
    record(0, 10, "child")
    snapshot.close()
    os._exit(0)
record(10, 10, "parent")
assert os.waitpid(pid, 0)[1] == 0
snapshot.close()
"""
    assert program(place, text).end() == 0
    with kit.direct(place) as ledger:
        assert kit.numbers(ledger, "parent") == list(range(20))
        assert kit.numbers(ledger, "child") == list(range(10))


def test_an_exit_without_close_sends_what_waits(place: str, kit: Any, program: Start) -> None:
    text = """
from chatsnapshot.stores.spool import forwarder
forwarder.EXIT_SECONDS_MAX = 30.0   # where the machine is slow too
for number in range(50):
    snapshot.record("execution.message", {"role": "user", "content": f"number {number}"},
                    correlation_id="run-1", wait=False)
"""
    assert program(place, text).end() == 0
    with kit.direct(place) as ledger:
        assert kit.numbers(ledger) == list(range(50))


def test_an_exit_while_the_service_is_away_ends_in_time_and_leaves_it_for_the_next_start(
    place: str, server: HttpServer, kit: Any, program: Start
) -> None:
    server.stop()
    begun = time.monotonic()
    assert program(place, "record(0, 20)\n").end() == 0
    assert time.monotonic() - begun < 15
    server.start()
    program(place, "print(snapshot.flush(30).ok, flush=True)\n")
    with chatsnapshot.open(place) as ledger:
        ledger.flush(30)
        assert kit.numbers(ledger) == list(range(20))


def test_an_exit_while_the_service_stalls_ends_in_time(
    proxied: tuple[Proxy, str], kit: Any, program: Start
) -> None:
    proxy, place = proxied
    one = program(
        place, "record(0, 1)\nsnapshot.flush(20)\nprint(1, flush=True)\nsys.stdin.readline()\nrecord(1, 5)\n"
    )
    assert one.line() == "1"
    proxy.stall()
    begun = time.monotonic()
    one.go()
    assert one.end() == 0
    assert time.monotonic() - begun < 20
    proxy.heal()
    with chatsnapshot.open(place) as ledger:
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == list(range(6))


def test_a_refusal_in_a_full_spool_is_set_aside_too(place: str, server: HttpServer, kit: Any) -> None:
    with chatsnapshot.open(f"{place}&spool_bytes_max=6000") as ledger, kit.direct(place) as other:
        other.record(**kit.message(7), idempotency_key="a")
        server.stop()
        ledger.record(**kit.message(8), idempotency_key="a")
        stored = 0
        with pytest.raises(StoreFull):
            for number in range(100):
                ledger.record(**kit.message(number))
                stored += 1
        server.start()
        assert len(ledger.flush(30).failures) == 1
        ledger.flush(30)
        assert kit.numbers(ledger) == [7, *range(stored)]
        assert len(list(ledger.read(event_type="ledger.rejected"))) == 1


def test_nothing_that_is_recorded_while_the_thread_goes_to_rest_waits_for_the_next_event(
    place: str, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatsnapshot.stores.spool import forwarder

    monkeypatch.setattr(forwarder, "_IDLE_SECONDS", 0.001)
    with chatsnapshot.open(place) as ledger:
        for number in range(150):
            ledger.record(**kit.message(number))
            deadline = time.monotonic() + 30
            while not ledger._store._file.empty():  # type: ignore[attr-defined]
                assert time.monotonic() < deadline, f"event {number} is not sent"
                threading.Event().wait(0.001)
        assert kit.numbers(ledger) == list(range(150))


def test_space_is_given_back_after_an_outage(place: str, server: HttpServer, kit: Any) -> None:
    with chatsnapshot.open(place) as ledger:
        server.stop()
        for _ in range(30):
            ledger.record("execution.message", {"role": "user", "content": "x" * 500_000}, correlation_id="b")
        path = Path(ledger._store.spool)  # type: ignore[attr-defined]
        server.start()
        assert ledger.flush(60).ok
    assert path.stat().st_size < 1_000_000


def test_a_disk_that_takes_no_more_loses_nothing_that_was_acknowledged(
    place: str, server: HttpServer, kit: Any, program: Start
) -> None:
    text = """
import resource
from chatsnapshot.errors import LedgerError
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
stored = 0
while True:
    try:
        snapshot.record("execution.message", {"role": "user", "content": f"number {stored} " + "x" * 3000},
                        correlation_id="run-1")
    except LedgerError as error:
        print(type(error).__name__, stored, flush=True)
        break
    stored += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
snapshot.record("execution.message", {"role": "user", "content": f"number {stored} "}, correlation_id="run-1")
print("again", flush=True)
sys.stdin.readline()
"""
    server.stop()
    full = program(place, text)
    error, stored = full.line().split(" ")
    assert error in ("StoreFull", "StoreUnavailable")
    assert full.line() == "again"
    full.kill()
    server.start()
    with chatsnapshot.open(place) as ledger:
        assert ledger.flush(30).ok
        assert kit.numbers(ledger) == list(range(int(stored) + 1))
