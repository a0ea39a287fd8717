"""Batches: whole or not at all, known ids, the same id twice, one conflict refuses all."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot import (
    EventConflict,
    InvalidEvent,
    Ledger,
    LedgerError,
    LimitExceeded,
    Limits,
    SequenceConflict,
)


def key(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def event(number: int, **other: Any) -> dict[str, Any]:
    return {
        "event_type": "a.b",
        "correlation_id": "c",
        "event_id": key(number),
        "payload": {"n": number},
        **other,
    }


def test_a_batch_lands_in_its_order_with_one_recorded_at(ledger: Ledger) -> None:
    entries = ledger.record_many([event(n, correlation_id=f"c{n % 3}") for n in range(9)])
    assert [entry.position for entry in entries] == list(range(1, 10))
    assert [entry.sequence for entry in entries] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert len({entry.recorded_at for entry in entries}) == 1
    assert len({entry.timestamp for entry in entries}) == 1
    assert list(ledger.read()) == entries
    assert ledger.verify().ok


def test_ids_that_the_ledger_makes_rise_inside_a_batch(ledger: Ledger) -> None:
    entries = ledger.record_many({"event_type": "a.b", "correlation_id": "c"} for _ in range(300))
    ids = [entry.event_id for entry in entries]
    assert ids == sorted(set(ids))
    assert len({entry.salt for entry in entries}) == 300


def test_a_batch_may_be_empty_a_generator_or_hold_envelopes(ledger: Ledger) -> None:
    assert ledger.record_many([]) == []
    assert ledger.record_many(iter(())) == []
    first = ledger.record_many(event(n) for n in range(2))
    other = chatsnapshot.open("memory:")
    copied = other.record_many([first[0].event, event(5), first[1].event])
    assert [entry.event_id for entry in copied] == [key(0), key(5), key(1)]
    assert copied[0].event == first[0].event


def test_a_batch_takes_what_the_scope_fills_in(ledger: Ledger) -> None:
    with ledger.scope("inside", source={"origin": "ui"}):
        entries = ledger.record_many([{"event_type": "a.b"}, {"event_type": "a.b", "correlation_id": "own"}])
    assert [entry.correlation_id for entry in entries] == ["inside", "own"]
    assert {entry.source.origin for entry in entries} == {"ui"}


# --- known ids ---


def test_known_events_return_their_entries_and_the_new_ones_land_together(ledger: Ledger) -> None:
    known = [ledger.record(**event(n)) for n in (1, 3)]
    entries = ledger.record_many([event(n) for n in range(5)])
    assert [entry.payload["n"] for entry in entries] == [0, 1, 2, 3, 4]
    assert entries[1] == known[0]
    assert entries[3] == known[1]
    assert [entry.position for entry in entries] == [3, 1, 4, 2, 5]
    assert len({entries[i].recorded_at for i in (0, 2, 4)}) == 1
    assert ledger.record_many([event(n) for n in range(5)]) == entries
    assert ledger.head == 5


def test_the_same_id_twice_with_one_content_counts_once(ledger: Ledger) -> None:
    entries = ledger.record_many([event(1), event(2), event(1), event(1)])
    assert [entry.position for entry in entries] == [1, 2, 1, 1]
    assert entries[0] == entries[2] == entries[3]
    assert ledger.head == 2


def test_the_same_id_twice_with_other_content_refuses_the_batch(ledger: Ledger) -> None:
    with pytest.raises(EventConflict) as caught:
        ledger.record_many([event(1), event(2), event(1, payload={"n": 9})])
    assert (caught.value.position, caught.value.fields, caught.value.event_id) == (None, ("payload",), key(1))
    assert str(caught.value).startswith(
        f"event {key(1)} is recorded in the same batch with another payload; "
    )
    assert ledger.head == 0


def test_one_conflict_refuses_the_whole_batch(ledger: Ledger) -> None:
    ledger.record(**event(3))
    with pytest.raises(EventConflict) as caught:
        ledger.record_many([event(1), event(2), event(3, event_type="a.c"), event(4)])
    assert caught.value.position == 1
    assert ledger.head == 1
    assert len(ledger.record_many([event(n) for n in range(5)])) == 5
    assert ledger.verify().ok


def test_an_erased_event_in_a_batch_is_returned_as_erased(ledger: Ledger) -> None:
    ledger.record(**event(1))
    ledger.erase(1, reason="asked")
    entries = ledger.record_many([event(1), event(2)])
    assert [entry.erased for entry in entries] == [True, False]
    assert ledger.head == 3


# --- bad events ---


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"event_type": "Bad"}, "event 1 of the batch: event_type must read"),
        ({"correlation_id": "c"}, "event 1 of the batch: event_type is missing"),
        ({"event_type": "a.b", "correlation_id": ""}, "event 1 of the batch: correlation_id is empty"),
        (
            {"event_type": "a.b", "correlation_id": "c", "type": 1},
            "event 1 of the batch: 'type' is no argument",
        ),
        ({"event_type": "a.b", "correlation_id": "c", "wait": False}, "'wait' is no argument"),
        ({"event_type": "a.b", "correlation_id": "c", "expected_sequence": 0}, "'expected_sequence' is no"),
        ({"event_type": "a.b", "correlation_id": "c", "frame": 0}, "'frame' is no argument"),
        ("a.b", "event 1 of the batch must be a mapping or an EventEnvelope, not str"),
        (None, "must be a mapping or an EventEnvelope, not NoneType"),
        (["a.b"], "not list"),
    ],
)
def test_one_bad_event_refuses_the_batch_and_is_named(ledger: Ledger, bad: Any, words: str) -> None:
    with pytest.raises(InvalidEvent, match=words):
        ledger.record_many([event(0), bad, event(2)])
    assert ledger.head == 0


def test_a_batch_whose_source_of_events_fails_stores_nothing(ledger: Ledger) -> None:
    def events() -> Any:
        yield event(0)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        ledger.record_many(events())
    assert ledger.head == 0


# --- expected_sequence ---


def test_expected_sequence_is_looked_at_once_for_the_batch(ledger: Ledger) -> None:
    entries = ledger.record_many([event(n) for n in range(3)], expected_sequence=0)
    assert [entry.sequence for entry in entries] == [1, 2, 3]
    with pytest.raises(SequenceConflict) as caught:
        ledger.record_many([event(n) for n in range(3, 6)], expected_sequence=2)
    assert (caught.value.wanted, caught.value.found) == (2, 3)
    assert ledger.head == 3


def test_a_batch_of_known_events_needs_no_sequence_and_is_checked_when_some_are_new(ledger: Ledger) -> None:
    batch = [event(n) for n in range(3)]
    first = ledger.record_many(batch, expected_sequence=0)
    assert ledger.record_many(batch, expected_sequence=0) == first
    with pytest.raises(SequenceConflict):
        ledger.record_many([*batch, event(7)], expected_sequence=0)
    assert ledger.record_many([*batch, event(7)], expected_sequence=3)[3].sequence == 4


def test_expected_sequence_with_several_correlations_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent, match="is about one correlation, and this batch has several") as caught:
        ledger.record_many([event(1), event(2, correlation_id="d")], expected_sequence=0)
    assert caught.value.path == "expected_sequence"
    assert ledger.head == 0


# --- limits ---


def test_a_batch_is_bounded_in_events_and_bytes(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, limits=Limits(batch_events_max=3, batch_bytes_max=200))
    with pytest.raises(LimitExceeded, match="batch_events_max is 3 and 4 were found; record several batches"):
        ledger.record_many([event(n) for n in range(4)])
    with pytest.raises(
        LimitExceeded, match="batch_bytes_max is 200 and 322 were found; record several batches"
    ):
        ledger.record_many([event(n, payload={"x": "y" * 153}) for n in range(2)])
    assert ledger.head == 0
    assert len(ledger.record_many([event(n) for n in range(3)])) == 3


def test_a_batch_larger_than_a_group_or_the_queue_still_lands_whole(
    url: str, opened: Callable[..., Ledger], gate: Callable[[Ledger], Any]
) -> None:
    ledger = opened(url, limits=Limits(group_events_max=10, queue_events_max=20, page_entries_max=7))
    door = gate(ledger)
    assert len(ledger.record_many([event(n) for n in range(700)])) == 700
    assert door.groups == [700]
    assert [entry.position for entry in ledger.read()] == list(range(1, 701))
    assert ledger.verify().ok


# --- against a model ---


class Model:
    """What the ledger promises, in lists."""

    def __init__(self) -> None:
        self.events: list[tuple[int, str, int]] = []

    def batch(
        self, wanted: list[tuple[int, str, int]], expected: int | None
    ) -> list[int] | type[LedgerError]:
        known = {number: (place, text, value) for place, (number, text, value) in enumerate(self.events, 1)}
        new: dict[int, tuple[str, int]] = {}
        for number, correlation, value in wanted:
            if number in known:
                if known[number][1:] != (correlation, value):
                    return EventConflict
            elif new.setdefault(number, (correlation, value)) != (correlation, value):
                return EventConflict
        if expected is not None and new:
            correlations = {correlation for correlation, _ in new.values()}
            if len(correlations) > 1:
                return InvalidEvent
            if sum(text in correlations for _, text, _ in self.events) != expected:
                return SequenceConflict
        self.events += [(number, *rest) for number, rest in new.items()]
        places = {number: place for place, (number, *_) in enumerate(self.events, 1)}
        return [places[number] for number, *_ in wanted]


batches = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from(["c", "d"]), st.integers(0, 1)),
            max_size=6,
        ),
        st.none() | st.integers(0, 4),
    ),
    max_size=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=batches)
def test_any_series_of_batches_does_what_the_promises_say(url: str, steps: list[Any]) -> None:
    model = Model()
    kind = url if url == "memory:" else f"{url}-{uuid.uuid4().hex}"
    with chatsnapshot.open(kind, durability="os") as ledger:
        for wanted, expected in steps:
            answer = model.batch(wanted, expected)
            given = [event(n, correlation_id=text, payload={"v": value}) for n, text, value in wanted]
            if isinstance(answer, list):
                found = ledger.record_many(given, expected_sequence=expected)
                assert [entry.position for entry in found] == answer
            else:
                with pytest.raises(answer):
                    ledger.record_many(given, expected_sequence=expected)
        entries = list(ledger.read())
        assert [(entry.event_id, entry.correlation_id) for entry in entries] == [
            (key(number), text) for number, text, _ in model.events
        ]
        for text in ("c", "d"):
            mine = [entry.sequence for entry in entries if entry.correlation_id == text]
            assert mine == list(range(1, len(mine) + 1))
        assert ledger.verify().ok
