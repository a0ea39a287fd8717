"""Promises 8 and 9 with a network in between that fails: what is said of an event is true, and nothing hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chatsnapshot.errors import CommitUncertain, LedgerError, StoreUnavailable
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.checks.replay import record_varied
from chatsnapshot.testing.checks.running import LAG_SECONDS_MAX, lag_while
from chatsnapshot.testing.expecting import Failed, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.faults.addresses import address_of, through
from chatsnapshot.testing.faults.proxy import Proxy
from chatsnapshot.testing.samples import Ticking, event, new_id
from chatsnapshot.testing.together import in_threads, run_async

PIECES_MAX = 16
"""So many pieces of bytes of one call are lost in turn, at most."""

STALL_SECONDS_MAX = 40.0
"""Within this time a call over a network that gives nothing has to come back, whatever it says."""


@contextmanager
def network(bench: Bench, made: bool = True) -> Iterator[tuple[Proxy, str, str]]:
    """A proxy before the server, the place of a fresh ledger, and the same by way of the proxy."""
    place = bench.place()
    if made:
        bench.open(place).close()
    with Proxy(address_of(place)) as proxy:
        try:
            yield proxy, place, through(place, proxy.address)
        finally:
            proxy.heal()
            bench.tidy()


def losses(bench: Bench, proxy: Proxy) -> Iterator[str]:
    """Lose each piece of what is said in the loop's body in turn, first requests, then answers.

    It goes on until nothing is left to be lost; every connection is cut with the piece.
    """
    for lose, name in ((proxy.lose_request, "request"), (proxy.lose_answer, "answer")):
        after = spared = 0
        while spared < 2 and after < PIECES_MAX:
            before = proxy.counts.lost
            lose(after)
            yield f"{name} {after + 1} is lost"
            proxy.heal()
            spared = spared + 1 if proxy.counts.lost == before else 0
            after += 1
    expect(proxy.counts.lost > 1, "something was lost")


@check(8, "server")
def whatever_request_or_answer_is_lost_what_is_said_of_the_events_is_true(bench: Bench) -> None:
    chance = bench.chance("lost")
    with network(bench) as (proxy, place, way), bench.open(place) as direct, bench.open(way) as ledger:
        number = 0
        stored: list[str] = []
        refused: list[str] = []
        for what in losses(bench, proxy):
            size = 1 + 2 * (number % 2)
            given = [event(number, f"run-{at}", event_id=new_id(chance)) for at in range(size)]
            ids = [one["event_id"] for one in given]
            number += 1
            try:
                entries = [ledger.record(**given[0])] if size == 1 else ledger.record_many(given)
            except StoreUnavailable:
                refused += ids
                continue
            except CommitUncertain as error:
                proxy.heal()
                held = [envelope.event_id for envelope in error.events]
                expect_equal(held, ids, f"{what}: events that the error holds")
                entries = ledger.record_many(error.events)
            stored += ids
            expect_equal([entry.event_id for entry in entries], ids, f"{what}: events answered")
            expect_equal([direct.get(one) for one in ids], entries, f"{what}: entries, and what is stored")
            expect_equal(direct.head, len(stored), f"{what}: head")
        last = ledger.record(**event(-1))
        expect_equal(last.position, len(stored) + 1, "position of an event when all is well again")
        wrong = {entry.event_id for entry in direct.read()} & set(refused)
        expect(not wrong, f"{len(wrong)} events are stored though an error said that nothing was")
        expect_sound(direct, len(stored) + 1)
        expect_sound(ledger, len(stored) + 1)


@check(8, "server")
def connections_that_were_cut_while_nothing_went_on_are_made_anew(bench: Bench) -> None:
    with network(bench) as (proxy, _, way), bench.open(way) as ledger:
        entry = ledger.record(**event(0))
        reads: list[Callable[[], object]] = [
            lambda: ledger.head,
            lambda: ledger.get(entry.event_id),
            lambda: list(ledger.read()),
        ]
        for number, read in enumerate(reads, 1):
            proxy.cut()
            read()
            proxy.cut()
            once(lambda number=number: ledger.record(**event(number)))  # type: ignore[misc]
        expect(ledger.head in range(4, 8), f"head {ledger.head} after four events, three recorded anew")
        expect_sound(ledger)


def record_when_away(ledger: Ledger) -> None:
    """The first event may meet a connection that nobody has found dead yet; what is said then is definite."""
    try:
        ledger.record(**event(7, "away"))
    except CommitUncertain:
        with expecting(StoreUnavailable, "a second record while the server is away"):
            ledger.record(**event(8, "away"))
    except StoreUnavailable:
        pass
    else:
        raise Failed("an event was acknowledged while the server was away")


def once(call: Callable[[], object]) -> None:
    """Call, and once more when the store says that it is unavailable or does not know."""
    try:
        call()
    except (StoreUnavailable, CommitUncertain):
        call()


@check(8, "server")
def a_refused_connection_is_a_definite_error_and_recording_goes_on_when_it_is_taken(bench: Bench) -> None:
    with network(bench) as (proxy, place, way), bench.open(way) as ledger:
        first = ledger.record(**event(0))
        proxy.refuse()
        record_when_away(ledger)
        lags: list[float] = []

        async def arecord() -> None:
            with expecting(StoreUnavailable, "arecord"):
                await ledger.arecord(**event(1))

        calls: dict[str, Callable[[], object]] = {
            "record": lambda: ledger.record(**event(1)),
            "record_many": lambda: ledger.record_many([event(1), event(2)]),
            "read": lambda: list(ledger.read()),
            "get": lambda: ledger.get(first.event_id),
            "head": lambda: ledger.head,
            "open": lambda: bench.open(way),
            "open without making it": lambda: bench.open(way, create=False),
        }
        found = in_threads([*calls.values(), lambda: lags.append(run_async(lag_while(arecord())))])
        for name, error in zip([*calls, "arecord"], found, strict=True):
            expect(
                isinstance(error, StoreUnavailable) or (name == "arecord" and error is None),
                f"{name} while connections are refused: wanted StoreUnavailable, found {error!r}",
            )
        expect(lags[0] < LAG_SECONDS_MAX, f"the event loop stood still for {lags[0] * 1000:.0f} ms")
        pending = ledger.record(**event(3), wait=False)
        report = ledger.flush(STALL_SECONDS_MAX)
        expect_equal((report.stored, len(report.failures)), (0, 1), "stored and failed of what was accepted")
        with expecting(StoreUnavailable, "the result of an accepted event"):
            pending.result(1)
        with bench.open(place) as direct:
            expect_equal(direct.head, 1, "head, by a way that nobody refuses")
        proxy.heal()
        ledger.record_many([failure.event for failure in report.failures])
        expect_equal(ledger.record(**event(4)).position, 3, "position once connections are taken")
        expect_sound(ledger, 3)


@check(8, "server")
def a_stalled_connection_is_given_up_in_time_and_holds_up_nobody_else(bench: Bench) -> None:
    chance = bench.chance("stalled")
    with network(bench) as (proxy, place, way), bench.open(place) as direct:
        ledger, reader, closing, tasks = (bench.open(way) for _ in range(4))
        first = ledger.record(**event(0))
        for one in (reader, closing, tasks):
            expect_equal(one.get(first.event_id), first, "the first event")
        given = [event(number, event_id=new_id(chance)) for number in (1, 2)]
        lags: list[float] = []

        async def arecord() -> None:
            with expecting(LedgerError, "arecord over a stalled connection"):
                await tasks.arecord(**given[1])

        proxy.stall()
        calls: dict[str, Callable[[], object]] = {
            "record": lambda: ledger.record(**given[0]),
            "head": lambda: reader.head,
            "read": lambda: list(reader.read()),
            "open": lambda: bench.open(way),
            "close": closing.close,
            "arecord": lambda: lags.append(run_async(lag_while(arecord()))),
            "another way": lambda: [direct.record(**event(number, "other")) for number in range(20)],
        }
        begun = time.monotonic()
        found = dict(zip(calls, in_threads(list(calls.values())), strict=True))
        took = time.monotonic() - begun
        expect(took < STALL_SECONDS_MAX, f"calls over a stalled connection took {took:.1f} s")
        for name in ("head", "read", "open"):
            expect(
                isinstance(found[name], StoreUnavailable), f"{name}: wanted StoreUnavailable, {found[name]!r}"
            )
        said = found["record"]
        expect(isinstance(said, (StoreUnavailable, CommitUncertain)), f"record: found {said!r}")
        for name in ("another way", "arecord", "close"):
            expect(not isinstance(found[name], Exception), f"{name}: {found[name]!r}")
        expect(lags[0] < LAG_SECONDS_MAX, f"the event loop stood still for {lags[0] * 1000:.0f} ms")
        proxy.heal()
        once(lambda: ledger.record(**given[0]))
        once(lambda: run_async(tasks.arecord(**given[1])))
        once(lambda: reader.head)
        expect_sound(direct, 23)


@check(8, "server")
def whatever_is_lost_while_a_ledger_is_made_it_can_be_made_again(bench: Bench) -> None:
    identities = set()
    with network(bench, made=False) as (proxy, _, _):
        for what in losses(bench, proxy):
            place = bench.place()
            try:
                bench.open(through(place, proxy.address)).close()
            except (StoreUnavailable, CommitUncertain):
                pass
            proxy.heal()
            with bench.open(through(place, proxy.address)) as ledger, bench.open(place) as direct:
                expect_equal(ledger.ledger_id, direct.ledger_id, f"{what}: id of the ledger")
                identities.add(ledger.ledger_id)
                ledger.record(**event(1))
                expect_sound(direct, 1)
    expect(len(identities) > 2, "several ledgers were made")


@check(8, "server")
def whatever_is_lost_of_an_erasure_or_an_import_it_is_whole_or_not_there(bench: Bench) -> None:
    with bench.reference(clock=Ticking()) as source:
        record_varied(source, bench, 3 * 2 * PIECES_MAX)
        rows = [entry._identity() for entry in source.read()]
    with network(bench) as (proxy, place, way), bench.open(place) as direct, bench.open(way) as ledger:
        taken = 0
        for what in losses(bench, proxy):
            part = rows[taken : taken + 3]
            _attempt(lambda part=part: store_of(ledger).import_rows(part, {}))  # type: ignore[misc]
            proxy.heal()
            expect(direct.head in (taken, taken + len(part)), f"{what}: head {direct.head} after {taken}")
            if direct.head == taken:
                store_of(ledger).import_rows(part, {})
            taken += len(part)
        found = [entry._identity() for entry in direct.read()]
        expect_equal(found, rows[:taken], "rows that were imported")
        for number, what in enumerate(losses(bench, proxy)):
            position = 1 + number % taken
            _attempt(lambda position=position: ledger.erase(position, reason="asked to"))  # type: ignore[misc]
            proxy.heal()
            ledger.erase(position, reason="asked to")
            entry = next(iter(direct.read(after=position - 1, until=position)))
            expect(entry.erased, f"{what}: the payload is erased when it was asked for again")
        expect_sound(direct)


def _attempt(call: Callable[[], object]) -> None:
    try:
        call()
    except (StoreUnavailable, CommitUncertain):
        pass


@check("following", "server")
def a_tail_goes_on_over_connections_that_were_cut_and_misses_nothing(bench: Bench) -> None:
    turns, each = bench.rounds(6), 10
    with network(bench) as (proxy, place, way), bench.open(place) as direct, bench.open(way) as ledger:
        seen: list[int] = []
        arrived = threading.Condition()

        def follow() -> None:
            with ledger.tail(after=0, timeout=STALL_SECONDS_MAX) as tail:
                for entry in tail:
                    with arrived:
                        seen.append(entry.position)
                        arrived.notify_all()
                    if entry.position == turns * each:
                        return

        def write() -> None:
            for turn in range(turns):
                for number in range(each):
                    if turn % 2 and number == each // 2:
                        proxy.cut()
                    direct.record(**event(number))
                _wait_until(arrived, lambda turn=turn: len(seen) >= (turn + 1) * each)  # type: ignore[misc]
                proxy.cut()

        for error in in_threads([follow, write]):
            if error is not None:
                raise Failed(f"a tail over connections that are cut: {error!r}") from error
        expect_equal(seen, list(range(1, turns * each + 1)), "positions that the tail gave")


def _wait_until(arrived: threading.Condition, done: Callable[[], bool]) -> None:
    with arrived:
        expect(arrived.wait_for(done, STALL_SECONDS_MAX), "the tail goes on")
