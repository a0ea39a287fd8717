"""Promise 3: exactly once by id, for ever."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from chatsnapshot.errors import EventConflict
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Failed, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.processes import Say
from chatsnapshot.testing.samples import event, events, new_id
from chatsnapshot.testing.together import in_tasks, in_threads


def _whole(event_id: str) -> dict[str, Any]:
    """An event with every field given."""
    return {
        "event_id": event_id,
        "event_type": "execution.message",
        "correlation_id": "run-1",
        "causation_id": "11111111-1111-4111-8111-111111111111",
        "source": {"origin": "agent", "runtime": "custom", "name": "Ann"},
        "timestamp": "2026-11-30T02:26:03.123456Z",
        "payload": {"a": 1, "b": [1, 2, {"c": None}], "d": 1.5},
        "attributes": {"actor": "ann", "tries": 2},
        "schema_version": 3,
    }


@check(3)
def the_same_event_twice_gives_the_first_entry_and_stores_nothing(bench: Bench) -> None:
    with bench.open() as ledger:
        given = _whole(new_id(bench.chance("same")))
        first = ledger.record(**given)
        ledger.record(**event(1))
        for _ in range(3):
            expect_equal(ledger.record(**given), first, "entry of the repeated event")
        expect_equal(ledger.record_many([given, given])[1], first, "entry out of a batch")
        expect_equal(ledger.record(first.event), first, "entry of the recorded envelope")
        expect_equal(ledger.head, 2, "head")


@check(3)
def other_content_under_a_known_id_is_a_conflict_that_names_the_fields(bench: Bench) -> None:
    changes: dict[str, Any] = {
        "event_type": "execution.output",
        "correlation_id": "run-2",
        "causation_id": "22222222-2222-4222-8222-222222222222",
        "source": {"origin": "agent", "runtime": "custom", "name": "Bob"},
        "timestamp": "2026-11-30T02:26:03.123457Z",
        "payload": {"a": 1, "b": [1, 2, {"c": 0}], "d": 1.5},
        "attributes": {"actor": "ann", "tries": 3},
        "schema_version": 4,
    }
    with bench.open() as ledger:
        given = _whole(new_id(bench.chance("conflict")))
        first = ledger.record(**given)
        for field, value in changes.items():
            with expecting(EventConflict, f"another {field}") as caught:
                ledger.record(**{**given, field: value})
            expect_equal(caught.error.fields, (field,), "fields that the conflict names")
            expect_equal(caught.error.event_id, first.event_id, "event that the conflict names")
            expect_equal(caught.error.position, first.position, "position that the conflict names")
        with expecting(EventConflict, "two fields differ") as both:
            ledger.record(**{**given, "payload": {}, "schema_version": None, "attributes": None})
        expect_equal(set(both.error.fields), {"payload", "schema_version", "attributes"}, "fields named")
        expect_equal(ledger.head, 1, "head")
        expect_equal(ledger.get(first.event_id), first, "the first entry")


@check(3)
def what_the_ledger_or_a_scope_filled_in_is_not_compared(bench: Bench) -> None:
    with bench.open() as ledger:
        cause = ledger.record(**event(0))
        event_id = new_id(bench.chance("filled"))
        with ledger.scope(correlation_id="run-1", source={"origin": "ui"}, cause=cause):
            first = ledger.record("execution.message", {"a": 1}, event_id=event_id)
        again = ledger.record("execution.message", {"a": 1}, event_id=event_id, correlation_id="run-1")
        expect_equal(again, first, "the same event outside of the scope")
        with expecting(EventConflict, "a source that the caller gave is compared") as caught:
            ledger.record(
                "execution.message", {"a": 1}, event_id=event_id, correlation_id="run-1",
                source={"origin": "integration"},
            )  # fmt: skip
        expect_equal(caught.error.fields, ("source",), "fields that the conflict names")


@check(3)
def payloads_are_compared_as_json_values_after_encoding(bench: Bench) -> None:
    chance = bench.chance("values")
    moment = datetime(2026, 11, 30, 2, 26, tzinfo=timezone(timedelta(hours=1)))
    pairs: list[tuple[Any, Any]] = [
        ({"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1}),
        ({"s": {3, 1, 2}}, {"s": {2, 3, 1}}),
        ({"t": moment}, {"t": datetime.fromisoformat(moment.isoformat())}),
        ([1, 2], [1, 2]),
        ({"$a": "ä\u2028"}, {"$a": "ä\u2028"}),
    ]
    with bench.open() as ledger:
        for one, other in pairs:
            event_id = new_id(chance)
            first = ledger.record(**event(0, event_id=event_id, payload=one))
            expect_equal(ledger.record(**event(0, event_id=event_id, payload=other)), first, f"{other!r}")
        for one, other in [({"a": 1}, {"a": True}), ({"a": "1"}, {"a": 1}), ({"a": None}, {})]:
            event_id = new_id(chance)
            ledger.record(**event(0, event_id=event_id, payload=one))
            with expecting(EventConflict, f"{one!r} and {other!r} differ"):
                ledger.record(**event(0, event_id=event_id, payload=other))


@check(3)
def an_idempotency_key_makes_one_event_in_each_correlation(bench: Bench) -> None:
    with bench.open() as ledger:
        first = ledger.record(**event(1, idempotency_key="order 7"))
        expect_equal(ledger.record(**event(1, idempotency_key="order 7")), first, "the same key again")
        other = ledger.record(**event(1, "run-2", idempotency_key="order 7"))
        expect(other.event_id != first.event_id, "the same key in another correlation is another event")
        with expecting(EventConflict, "another payload under the key"):
            ledger.record(**event(2, idempotency_key="order 7"))
        expect_equal(ledger.head, 2, "head")


@check(3)
def an_id_is_known_after_many_other_events(bench: Bench) -> None:
    with bench.open() as ledger:
        given = _whole(new_id(bench.chance("old")))
        first = ledger.record(**given)
        for number in range(3):
            ledger.record_many(events(400, f"run-{number}"))
        expect_equal(ledger.record(**given), first, "the entry of the old event")
        expect_equal(ledger.head, 1201, "head")


@check(3, "durable")
def an_id_is_known_after_opening_again(bench: Bench) -> None:
    place, given = bench.place(), _whole(new_id(bench.chance("again")))
    with bench.open(place) as ledger:
        first = ledger.record(**given)
    with bench.open(place) as ledger:
        expect_equal(ledger.record(**given), first, "the entry of the known event")
        with expecting(EventConflict, "other content after opening again"):
            ledger.record(**{**given, "payload": {}})
        expect_equal(ledger.head, 1, "head")


@check(3)
def an_erased_event_is_still_known_and_stays_erased(bench: Bench) -> None:
    with bench.open() as ledger:
        given = _whole(new_id(bench.chance("erased")))
        first = ledger.record(**given)
        ledger.erase(first.position, reason="asked to")
        for payload in (given["payload"], {"other": 1}):
            again = ledger.record(**{**given, "payload": payload})
            expect(again.erased, "the erased entry is returned")
            expect_equal((again.position, again.leaf), (first.position, first.leaf), "the first place")
        expect(ledger.get(first.event_id).erased, "nothing was stored again")
        expect_equal(ledger.head, 2, "head: the event and the record of its erasure")


@check(3)
def two_threads_with_the_same_id_get_the_same_entry(bench: Bench) -> None:
    chance = bench.chance("threads")
    with bench.open() as ledger:
        for number in range(bench.rounds(25)):
            given = event(number, event_id=new_id(chance))

            def write(given: dict[str, Any] = given) -> Any:
                return ledger.record(**given)

            found = in_threads([write] * 3)
            expect(all(entry == found[0] for entry in found), f"three threads got {found}")
            expect_equal(ledger.head, number + 1, "head")
        expect_sound(ledger)


@check(3)
def many_tasks_with_the_same_id_get_the_same_entry(bench: Bench) -> None:
    chance = bench.chance("tasks")
    with bench.open() as ledger:
        given = event(1, event_id=new_id(chance))
        found = in_tasks([lambda: ledger.arecord(**given) for _ in range(50)])
        expect(all(entry == found[0] for entry in found), f"tasks got {found[:3]} …")
        expect_equal(ledger.head, 1, "head")


@check(3)
def of_two_contents_under_one_id_exactly_one_is_stored(bench: Bench) -> None:
    chance = bench.chance("race of contents")
    with bench.open() as ledger:
        for number in range(bench.rounds(15)):
            event_id = new_id(chance)

            def write(content: int, event_id: str = event_id) -> Any:
                return ledger.record(**event(content, event_id=event_id))

            found = in_threads([lambda at=at: write(at % 2) for at in range(4)])  # type: ignore[misc]
            _expect_one_winner(found, event_id)
            expect_equal(ledger.head, number + 1, "head")


def _expect_one_winner(found: list[Any], event_id: str) -> None:
    """Two of four callers agreed on the entry, the two others got the conflict."""
    stored = [entry for entry in found if not isinstance(entry, Exception)]
    refused = [error for error in found if isinstance(error, EventConflict)]
    expect_equal((len(stored), len(refused)), (2, 2), f"stored and refused, of {found}")
    expect_equal(stored[0], stored[1], "the entry that both got")
    expect(all(error.event_id == event_id for error in refused), "the conflict names the event")


def record_same(say: Say, bench: Bench, place: str, ids: list[str], content: int) -> list[Any]:
    """Record each id in turn; gives leaf and position, or the name of the error."""
    with bench.open(place) as ledger:
        return [_attempt(ledger, number, event_id, content) for number, event_id in enumerate(ids)]


def _attempt(ledger: Ledger, number: int, event_id: str, content: int) -> Any:
    try:
        entry = ledger.record(**event(number, event_id=event_id, attributes={"tries": content}))
    except EventConflict as error:
        return type(error).__name__
    return entry.position, entry.leaf


@check(3, "processes")
def two_processes_with_the_same_ids_get_the_same_entries(bench: Bench) -> None:
    place, chance = bench.place(), bench.chance("processes")
    ids = [new_id(chance) for _ in range(bench.rounds(60))]
    with bench.open(place):
        pass
    with bench.workers(3) as crew:
        for worker in crew:
            worker.start(record_same, bench, place, ids, 0)
        one, *others = [worker.answer() for worker in crew]
    for other in others:
        expect_equal(other, one, "entries that another process was given")
    with bench.open(place) as ledger:
        expect_sound(ledger, len(ids))


@check(3, "processes")
def of_two_contents_from_two_processes_exactly_one_is_stored(bench: Bench) -> None:
    place, chance = bench.place(), bench.chance("contents of processes")
    ids = [new_id(chance) for _ in range(bench.rounds(40))]
    with bench.open(place):
        pass
    with bench.workers(2) as crew:
        for content, worker in enumerate(crew):
            worker.start(record_same, bench, place, ids, content)
        one, other = [worker.answer() for worker in crew]
    for mine, yours in zip(one, other, strict=True):
        if [mine, yours].count("EventConflict") != 1:
            raise Failed(f"two contents under one id: one process got {mine}, the other {yours}")
    with bench.open(place) as ledger:
        expect_sound(ledger, len(ids))
