"""Recording one event: known ids, conflicts, expected sequence, and that an acknowledged event is there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from chatsnapshot import (
    EventConflict,
    InvalidEvent,
    Ledger,
    LimitExceeded,
    Limits,
    ReadOnly,
    SequenceConflict,
    Source,
)

ID = "01890000-0000-7000-8000-000000000001"
OTHER = "01890000-0000-7000-8000-000000000002"
WHEN = "2026-11-30T02:26:03.000000Z"


def test_a_new_ledger_is_empty_and_positions_count_from_1(ledger: Ledger) -> None:
    assert ledger.head == 0
    entries = [ledger.record("a.b", {"i": i}, correlation_id=i % 2) for i in range(6)]
    assert [entry.position for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry.sequence for entry in entries] == [1, 1, 2, 2, 3, 3]
    assert ledger.head == 6
    assert list(ledger.read()) == entries


def test_what_record_returns_is_what_get_reads(ledger: Ledger) -> None:
    entry = ledger.record(
        "execution.message",
        {"role": "user", "content": "Hällo"},
        correlation_id="run-1",
        causation_id=OTHER,
        source=Source("agent", "ag2", "w"),
        timestamp=WHEN,
        event_id=ID,
        attributes={"actor": "ada"},
        schema_version=3,
    )
    assert ledger.get(ID) == entry
    assert ledger.get(ID.upper()) == entry
    assert (entry.event_id, entry.causation_id, entry.timestamp) == (ID, OTHER, WHEN)
    assert entry.payload == {"role": "user", "content": "Hällo"}
    assert (entry.attributes, entry.schema_version) == ({"actor": "ada"}, 3)


# --- the same id again ---


def test_the_same_content_returns_the_first_entry(ledger: Ledger) -> None:
    first = ledger.record("a.b", {"x": 1, "y": [2.0]}, correlation_id="c", event_id=ID)
    ledger.record("a.b", correlation_id="c")
    assert ledger.record("a.b", {"x": 1, "y": [2.0]}, correlation_id="c", event_id=ID) == first
    assert ledger.record("a.b", {"y": [2.0], "x": 1}, correlation_id="c", event_id=ID) == first
    assert ledger.record("a.b", {"x": 1, "y": [2.0]}, correlation_id="c", event_id=ID.upper()) == first
    assert ledger.head == 2


def test_the_first_entry_is_returned_after_opening_anew(path: str, opened: Callable[..., Ledger]) -> None:
    first = opened(path)
    entry = first.record("a.b", {"x": 1}, correlation_id="c", idempotency_key="once")
    first.close()
    again = opened(path)
    assert again.record("a.b", {"x": 1}, correlation_id="c", idempotency_key="once") == entry
    with pytest.raises(EventConflict):
        again.record("a.b", {"x": 2}, correlation_id="c", idempotency_key="once")
    assert again.head == 1


FULL: dict[str, Any] = {
    "event_type": "a.b",
    "payload": {"x": 1},
    "correlation_id": "c",
    "causation_id": OTHER,
    "source": {"origin": "agent", "runtime": "ag2", "name": "n"},
    "timestamp": WHEN,
    "attributes": {"actor": "ada"},
    "schema_version": 2,
    "event_id": ID,
}


@pytest.mark.parametrize(
    ("other", "fields"),
    [
        ({"event_type": "a.c"}, ("event_type",)),
        ({"payload": {"x": 2}}, ("payload",)),
        ({"payload": {"x": 1.0}}, ("payload",)),
        ({"payload": {"x": "1"}}, ("payload",)),
        ({"payload": {"x": True}}, ("payload",)),
        ({"payload": {}}, ("payload",)),
        ({"payload": {"x": 1, "y": None}}, ("payload",)),
        ({"correlation_id": "d"}, ("correlation_id",)),
        ({"causation_id": ID}, ("causation_id",)),
        ({"source": {"origin": "agent", "runtime": "ag2"}}, ("source",)),
        ({"timestamp": "2026-11-30T02:26:03.000001Z"}, ("timestamp",)),
        ({"attributes": {"actor": "bob"}}, ("attributes",)),
        ({"attributes": None}, ("attributes",)),
        ({"schema_version": None}, ("schema_version",)),
        ({"event_type": "a.c", "payload": {}, "correlation_id": "d"}, ("event_type", "correlation_id", "payload")),
    ],
)  # fmt: skip
def test_other_content_is_a_conflict_that_names_the_fields(
    ledger: Ledger, other: dict[str, Any], fields: tuple[str, ...]
) -> None:
    ledger.record("x.y", correlation_id="before")
    first = ledger.record(**FULL)
    with pytest.raises(EventConflict) as caught:
        ledger.record(**{**FULL, **other})
    error = caught.value
    assert (error.event_id, error.position, error.fields) == (ID, 2, fields)
    assert str(error) == (
        f"event {ID} is recorded at position 2 with another {', '.join(fields)}; "
        "events are immutable: record a new event with an id of its own"
    )
    assert ledger.head == 2
    assert ledger.record(**FULL) == first
    assert ledger.verify().ok


def test_what_the_ledger_filled_in_is_not_compared(ledger: Ledger, hands: Any) -> None:
    first = ledger.record("execution.message", {"x": 1}, correlation_id="c", event_id=ID)
    assert ledger.record("execution.message", {"x": 1}, correlation_id="c", event_id=ID) == first
    with ledger.scope("c", source={"origin": "ui"}, cause=OTHER):
        assert ledger.record("execution.message", {"x": 1}, event_id=ID) == first
    with pytest.raises(EventConflict) as caught:
        ledger.record(
            "execution.message",
            {"x": 1},
            correlation_id="c",
            event_id=ID,
            source={"origin": "ui"},
            causation_id=OTHER,
            timestamp=datetime(2020, 1, 1, tzinfo=timezone.utc),
        )
    assert caught.value.fields == ("timestamp", "source", "causation_id")


def test_the_same_moment_in_another_zone_is_the_same_content(ledger: Ledger) -> None:
    first = ledger.record(**FULL)
    assert ledger.record(**{**FULL, "timestamp": "2026-11-30T03:26:03+01:00"}) == first
    assert ledger.record(**{**FULL, "source": Source("agent", "ag2", "n")}) == first


def test_a_big_number_and_a_negative_zero_are_compared_as_they_are(ledger: Ledger) -> None:
    given = {"big": 2**53 + 1, "zero": -0.0, "e": 1e22}
    first = ledger.record("a.b", given, correlation_id="c", event_id=ID)
    assert ledger.record("a.b", dict(reversed(given.items())), correlation_id="c", event_id=ID) == first
    for key, value in (("big", 2**53), ("zero", 0.0), ("zero", 0), ("e", 10**22)):
        with pytest.raises(EventConflict):
            ledger.record("a.b", {**given, key: value}, correlation_id="c", event_id=ID)


def test_an_erased_event_is_returned_as_erased_and_nothing_is_stored(ledger: Ledger) -> None:
    first = ledger.record("a.b", {"secret": "x"}, correlation_id="c", event_id=ID)
    ledger.erase(first.position, reason="asked")
    again = ledger.record("a.b", {"secret": "x"}, correlation_id="c", event_id=ID)
    assert again.erased
    assert again.position == 1
    assert ledger.record("a.b", {"other": "y"}, correlation_id="c", event_id=ID).erased
    with pytest.raises(EventConflict):
        ledger.record("a.c", {"secret": "x"}, correlation_id="c", event_id=ID)
    assert ledger.head == 2
    assert ledger.get(ID).erased


# --- expected_sequence ---


def test_expected_sequence_is_the_last_sequence_of_the_correlation(ledger: Ledger) -> None:
    assert ledger.record("a.b", correlation_id="c", expected_sequence=0).sequence == 1
    ledger.record("a.b", correlation_id="other")
    assert ledger.record("a.b", correlation_id="c", expected_sequence=1).sequence == 2


@pytest.mark.parametrize(("recorded", "wanted"), [(0, 1), (2, 0), (2, 1), (2, 3)])
def test_another_sequence_is_a_conflict_with_wanted_and_found(
    ledger: Ledger, recorded: int, wanted: int
) -> None:
    for _ in range(recorded):
        ledger.record("a.b", correlation_id="c")
    with pytest.raises(SequenceConflict) as caught:
        ledger.record("a.b", correlation_id="c", expected_sequence=wanted)
    error = caught.value
    assert (error.correlation_id, error.wanted, error.found) == ("c", wanted, recorded)
    assert str(error) == (
        f"correlation 'c' is at sequence {recorded}, not at {wanted} as expected; "
        "read what was added and decide again"
    )
    assert ledger.head == recorded


def test_known_ids_are_looked_at_before_the_sequence(ledger: Ledger) -> None:
    first = ledger.record("a.b", correlation_id="c", event_id=ID, expected_sequence=0)
    assert ledger.record("a.b", correlation_id="c", event_id=ID, expected_sequence=0) == first
    with pytest.raises(EventConflict):
        ledger.record("a.c", correlation_id="c", event_id=ID, expected_sequence=0)


def test_expected_sequence_needs_the_answer(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent, match="does not go with wait=False"):
        ledger.record("a.b", correlation_id="c", expected_sequence=0, wait=False)
    ledger.flush()
    assert ledger.head == 0


def test_of_many_writers_that_expect_the_same_sequence_one_wins(
    ledger: Ledger, together: Callable[..., list[Any]]
) -> None:
    def attempt(number: int) -> bool:
        try:
            ledger.record("a.b", {"n": number}, correlation_id="c", expected_sequence=0)
        except SequenceConflict:
            return False
        return True

    assert sum(together(attempt, 8)) == 1
    assert ledger.head == 1


# --- limits ---


def test_a_large_payload_is_kept_as_a_blob_not_refused(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, limits=Limits(payload_bytes_max=1_000))
    given = {"list": [f"item {i}" for i in range(500)]}
    entry = ledger.record("a.b", given, correlation_id="c")
    assert entry.payload["$blob"].startswith("sha256:")
    assert ledger.get(entry.event_id).value() == given


def test_an_envelope_above_the_payload_limit_is_refused_with_what_to_do(
    url: str, opened: Callable[..., Ledger]
) -> None:
    large = opened("memory:").record("a.b", {"x": "y" * 2_000}, correlation_id="c").event
    ledger = opened(url, limits=Limits(payload_bytes_max=1_000))
    with pytest.raises(LimitExceeded) as caught:
        ledger.record(large)
    error = caught.value
    assert (error.limit, error.allowed, error.found) == ("payload_bytes_max", 1_000, 2_008)
    assert str(error).startswith("payload_bytes_max is 1,000 and 2,008 were found; ")
    assert ledger.head == 0


# --- facts about a ledger ---


def test_a_ledger_says_what_it_is(path: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(path)
    assert (ledger.url, ledger.read_only, ledger.closed) == (path, False, False)
    assert len(ledger.ledger_id) == 36
    assert ledger.limits == Limits()
    assert repr(ledger) == f"<Ledger {path}>"
    reader = opened(path, read_only=True)
    assert reader.ledger_id == ledger.ledger_id
    assert repr(reader) == f"<Ledger {path} read-only>"
    ledger.close()
    assert ledger.closed
    assert repr(ledger) == f"<Ledger {path} closed>"


def test_a_read_only_ledger_refuses_every_way_of_recording(path: str, opened: Callable[..., Ledger]) -> None:
    opened(path).record("a.b", correlation_id="c")
    reader = opened(path, read_only=True)
    for attempt in (
        lambda: reader.record("a.b", correlation_id="c"),
        lambda: reader.record("a.b", correlation_id="c", wait=False),
        lambda: reader.record_many([{"event_type": "a.b", "correlation_id": "c"}]),
        lambda: reader.record_many([]),
        lambda: reader.erase(1, reason="x"),
        lambda: reader.run("c").__enter__(),
    ):
        with pytest.raises(ReadOnly, match="was opened read-only; open it with read_only=False to record"):
            attempt()
    assert reader.head == 1


def test_a_retry_without_its_cause_is_the_same_event(ledger: Ledger) -> None:
    """A scope may have filled the cause in the first time; the retry may stand outside of it."""
    ledger.record("x.y", correlation_id="before")
    first = ledger.record(**FULL)
    assert ledger.record(**{**FULL, "causation_id": None}) == first
