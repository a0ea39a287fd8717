"""Whatever a message holds, it becomes an event or is set aside, once; none is lost and none raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.errors import InvalidEvent, LedgerError
from chatsnapshot.ingest.brokers.message import Message
from chatsnapshot.ingest.brokers.taking import Taker

AT = "2026-11-30T00:00:00.000000Z"


def message(number: int, data: Any, headers: dict[str, str] | None = None) -> Message:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return Message(f"key {number}", f"message {number}", AT, tuple((headers or {}).items()), raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["event_type", "correlation_id", "payload", "specversion", "id", "source", "type", "subject", "x"]
)
DATA = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode("utf-8", "replace")),
    st.dictionaries(KEYS, st.sampled_from(["a.b", "1.0", "/s", "é", "", None, 3, {"a": 1}])).map(
        lambda value: json.dumps(value).encode()
    ),
)
HEADERS = st.dictionaries(
    st.sampled_from(["ce-id", "ce-type", "ce-source", "ce-specversion", "ce-subject", "Content-Type", "x"]),
    st.sampled_from(
        ["1.0", "a.b", "/s", "application/json", "application/cloudevents+json", "%zz", "\udc80", ""]
    ),
)


@settings(max_examples=150)
@given(st.lists(st.tuples(DATA, HEADERS), max_size=6), st.sampled_from([None, "order.placed"]))
def test_every_message_is_an_event_or_set_aside_and_again_nothing_new(
    given: Any, event_type: str | None
) -> None:
    messages = [message(number, data, headers) for number, (data, headers) in enumerate(given)]
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        taker = Taker(ledger, correlation_id="c", event_type=event_type)
        refused = taker.take(messages)
        report = taker.report
        assert report.stored + report.known + report.refused_count == len(messages)
        assert len(refused) == report.refused_count
        assert ledger.head == report.stored + report.refused_count
        assert taker.take(messages) == refused
        assert ledger.head == report.stored + report.refused_count


def test_an_event_that_its_producer_gives_again_later_is_known() -> None:
    event = {"event_type": "a.b", "correlation_id": "c", "event_id": "0199c3a0-0000-7000-8000-000000000001"}
    keyed = {"event_type": "a.b", "correlation_id": "c", "idempotency_key": "k"}
    with chatsnapshot.open("memory:") as ledger:
        taker = Taker(ledger)
        taker.take([message(1, event), message(2, keyed)])
        later = "2026-11-30T00:00:07.000000Z"
        taker.take([message(3, event)._replace(at=later), message(4, keyed)._replace(at=later)])
        assert (taker.report.stored, taker.report.known, taker.report.refused_count) == (2, 2, 0)
        assert [entry.event.timestamp for entry in ledger.read()] == [AT, AT]
        taker.take([message(5, {**event, "timestamp": later})])  # said by the event itself, it is another
        assert taker.report.refused_count == 1


def test_a_message_that_was_set_aside_for_another_reason_stays_as_it_was() -> None:
    with chatsnapshot.open("memory:") as ledger:
        Taker(ledger).take([message(1, {"a": 1})])
        Taker(ledger, event_type="a.b").take([message(1, {"a": 1})])  # still without a correlation
        (entry,) = ledger.read()
        assert "neither an event" in entry.payload["reason"]


def test_a_message_that_is_there_twice_in_a_batch_is_set_aside_once() -> None:
    with chatsnapshot.open("memory:") as ledger:
        one = message(1, {"a": 1})
        taker = Taker(ledger, event_type="a.b")
        assert taker.take([one, one._replace(at="2026-11-30T00:00:07.000000Z")]) == {0, 1}
        assert (ledger.head, taker.report.refused_count) == (1, 2)


def test_what_can_be_neither_stored_nor_set_aside_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with chatsnapshot.open("memory:") as ledger:
        taker = Taker(ledger)
        monkeypatch.setattr(
            taker, "_rejection", lambda *_: {"event_id": "0199c3a0-0000-7000-8000-000000000001"}
        )
        with pytest.raises(LedgerError, match="neither stored nor set aside"):
            taker.take([message(1, b"?")])


def test_a_type_that_is_none_is_told_before_anything_is_fetched() -> None:
    with chatsnapshot.open("memory:") as ledger, pytest.raises(InvalidEvent):
        Taker(ledger, event_type="No Type")
