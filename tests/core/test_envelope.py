"""The envelope: its seven keys byte for byte, its reading back, and that nobody can change it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot import EventEnvelope, InvalidEvent, Ledger, NotFound, Source

ID = "01890000-0000-7000-8000-000000000001"
CAUSE = "01890000-0000-7000-8000-000000000000"


def event(**other: Any) -> EventEnvelope:
    made: dict[str, Any] = {
        "event_id": ID,
        "event_type": "execution.message",
        "timestamp": "2026-11-30T02:26:03.123456Z",
        "source": Source("agent", "ag2"),
        "correlation_id": "run-1",
        "payload_json": b'{"role":"user","content":"h\xc3\xa9llo"}',
    }
    return EventEnvelope(**{**made, **other})


# --- to JSON ---


def test_the_seven_keys_are_written_in_their_order() -> None:
    assert event().to_json() == (
        b'{"event_id":"01890000-0000-7000-8000-000000000001","event_type":"execution.message",'
        b'"timestamp":"2026-11-30T02:26:03.123456Z","source":{"origin":"agent","runtime":"ag2"},'
        b'"correlation_id":"run-1","causation_id":null,"payload":{"role":"user","content":"h\xc3\xa9llo"}}'
    )


def test_optional_keys_come_after_the_payload_and_only_when_set() -> None:
    full = event(
        causation_id=CAUSE,
        source=Source("ui", "web", "ada"),
        schema_version=2,
        attributes_json='{"actor":"ada","links":["a","b"]}',
        payload_json=b"{}",
    )
    assert full.to_json().partition(b'"source"')[2] == (
        b':{"origin":"ui","runtime":"web","name":"ada"},"correlation_id":"run-1",'
        b'"causation_id":"01890000-0000-7000-8000-000000000000","payload":{},"schema_version":2,'
        b'"attributes":{"actor":"ada","links":["a","b"]}}'
    )


def test_a_recorded_event_has_the_seven_keys_in_their_order(ledger: Ledger) -> None:
    entry = ledger.record(
        "execution.message",
        {"b": 1, "a": [1.0, None, True]},
        correlation_id="run-1",
        event_id=ID,
        timestamp="2026-11-30T02:26:03Z",
    )
    assert entry.event.to_json() == (
        b'{"event_id":"01890000-0000-7000-8000-000000000001","event_type":"execution.message",'
        b'"timestamp":"2026-11-30T02:26:03.000000Z","source":{"origin":"agent","runtime":"none"},'
        b'"correlation_id":"run-1","causation_id":null,"payload":{"b":1,"a":[1.0,null,true]}}'
    )


# --- from JSON ---


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"causation_id": CAUSE, "schema_version": 3, "attributes_json": '{"a":true,"b":["x"],"c":7}'},
        {"payload_json": b'{"$type":"decimal","value":"1.10"}', "source": Source("system", "none", "x")},
    ],
)
def test_what_was_written_reads_back_the_same(other: dict[str, Any]) -> None:
    given = event(**other)
    read = EventEnvelope.from_json(given.to_json())
    assert read == given
    assert hash(read) == hash(given)
    assert read.to_json() == given.to_json()


def test_text_is_read_as_bytes_are_and_spaces_do_not_matter() -> None:
    loose = json.dumps(json.loads(event().to_json()), indent=2, ensure_ascii=False)
    assert EventEnvelope.from_json(loose) == event()


def test_ids_and_time_are_brought_to_their_one_form() -> None:
    text = event().to_json().replace(ID.encode(), ID.upper().encode())
    text = text.replace(b"2026-11-30T02:26:03.123456Z", b"2026-11-30T03:26:03.123456+01:00")
    assert EventEnvelope.from_json(text) == event()


def changed(**other: object) -> bytes:
    return json.dumps({**json.loads(event().to_json()), **other}).encode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not an event envelope"),
        (b"[]", "not an event envelope"),
        (b"{}", "event_id"),
        (b'{"event_id":"\xff"}', "not an event envelope"),
        (changed(event_id="run-1"), "must be a UUID"),
        (changed(causation_id="run-1"), "causation_id must be a UUID"),
        (changed(event_type="Message"), "domain.name"),
        (changed(timestamp="2026-11-30T02:26:03"), "RFC 3339"),
        (changed(source={}), "origin"),
        (changed(source={"origin": "robot"}), "one of agent, system, ui, integration"),
        (changed(source={"origin": "agent", "host": "x"}), "host"),
        (changed(payload=[1]), "must be a JSON object"),
        (changed(payload=None), "must be a JSON object"),
        (changed(attributes=[1]), "attributes must be a JSON object"),
        (changed(extra=1), "extra"),
        (changed(schema_version="2"), "schema_version"),
        (changed(correlation_id=7), "correlation_id"),
        (event().to_json().replace(b'"role":"user"', b'"role":NaN'), "not an event envelope"),
        (event().to_json().replace(b'"user"', b"1e400"), "no strict JSON"),
        (event().to_json().replace(b'"user"', b'"\\ud800"'), "not an event envelope"),
        (event().to_json().replace(b'"user"', b"[" * 100_000), "not an event envelope"),
    ],
)
def test_what_is_no_envelope_is_refused_with_the_reason(text: bytes, words: str) -> None:
    with pytest.raises(InvalidEvent, match=words):
        EventEnvelope.from_json(text)


def test_a_lone_surrogate_in_given_text_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="not an event envelope"):
        EventEnvelope.from_json(event().to_json().decode().replace("user", "us\ud800er"))


def test_a_payload_of_big_numbers_keeps_its_bytes() -> None:
    text = event(payload_json=b'{"n":123456789012345678901234567890,"f":1E2,"g":-0.0}').to_json()
    assert EventEnvelope.from_json(text).to_json() == text


# --- frozen ---


def test_nobody_changes_an_event_or_an_entry(ledger: Ledger) -> None:
    entry = ledger.record("execution.message", {"list": [1], "deep": {"a": 1}}, correlation_id="run-1")
    for thing, field in ((entry, "position"), (entry.event, "event_type"), (entry.source, "origin")):
        with pytest.raises(AttributeError):
            setattr(thing, field, "other")
    entry.payload["list"].append(2)
    entry.event.payload["deep"].clear()
    entry.attributes["a"] = 1
    assert entry.payload == {"list": [1], "deep": {"a": 1}}
    assert entry.attributes == {}


def test_the_callers_objects_are_copied_before_record_returns(ledger: Ledger) -> None:
    inner = {"list": [1]}
    pending = ledger.record("a.b", {"x": inner}, correlation_id="c", wait=False)
    inner["list"].append(2)
    assert pending.result(10).payload == {"x": {"list": [1]}}


# --- the entry ---


def test_an_entry_says_what_the_ledger_added(ledger: Ledger) -> None:
    first = ledger.record("execution.message", correlation_id="a")
    ledger.record("execution.message", correlation_id="b")
    third = ledger.record("execution.output", correlation_id="a", causation_id=first)
    assert (first.position, first.sequence, third.position, third.sequence) == (1, 1, 3, 2)
    assert third.causation_id == first.event_id == third.event.causation_id
    assert len(third.recorded_at) == 27
    assert len(third.leaf) == 32
    assert (third.schema_version, third.erased, third.payload, third.value()) == (1, False, {}, {})
    assert third.event_type in repr(third)


def test_an_entry_read_again_is_equal_and_can_be_pickled(ledger: Ledger) -> None:
    entry = ledger.record(
        "execution.message", {"a": 1}, correlation_id="a", attributes={"actor": "x"}, schema_version=2
    )
    again = ledger.get(entry.event_id)
    assert again == entry
    assert again is not entry
    assert hash(again) == hash(entry)
    assert pickle.loads(pickle.dumps(entry)) == entry
    assert pickle.loads(pickle.dumps(entry.event)) == entry.event
    assert entry != entry.event
    assert len({entry, again}) == 1


def test_the_envelope_of_an_entry_can_be_recorded_elsewhere(
    url: str, opened: Callable[..., Ledger], hands: Any
) -> None:
    first, second = opened(url), opened("memory:")
    given = first.record("a.b", {"x": 1}, correlation_id="c", attributes={"k": "v"}, schema_version=4)
    copy = second.record(EventEnvelope.from_json(given.event.to_json()))
    assert copy.event == given.event
    assert copy.event.to_json() == given.event.to_json()


def test_an_envelope_goes_without_options_beside_it(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent, match="recorded as it is"):
        ledger.record(event(), {"a": 1})
    with pytest.raises(InvalidEvent, match="recorded as it is"):
        ledger.record(event(), correlation_id="x")
    assert ledger.head == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"event_id": "x"},
        {"event_type": "x"},
        {"timestamp": "yesterday"},
        {"source": Source("robot")},
        {"correlation_id": ""},
        {"causation_id": "x"},
        {"payload_json": b"[]"},
        {"payload_json": b"nonsense"},
        {"payload_json": b'{"a":NaN}'},
        {"payload_json": b'{"a":"\xff"}'},
        {"payload_json": b'{"a":"\\ud800"}'},
        {"payload_json": b'{"a":1} {"b":2}'},
        {"schema_version": 0},
        {"attributes_json": "[]"},
        {"attributes_json": "nonsense"},
        {"attributes_json": '{"Bad Key":1}'},
    ],
)
def test_a_hand_made_envelope_that_is_wrong_is_refused(ledger: Ledger, bad: dict[str, Any]) -> None:
    for record in (ledger.record, lambda envelope: ledger.record_many([envelope])):
        with pytest.raises(InvalidEvent):
            record(event(**bad))
    assert ledger.head == 0


def test_an_erased_event_is_written_with_a_mark_that_no_caller_can_make(ledger: Ledger) -> None:
    fake = ledger.record("a.b", {"$erased": True}, correlation_id="c")
    real = ledger.record("a.b", {"secret": 1}, correlation_id="c")
    ledger.erase(real.position, reason="asked")
    gone = ledger.get(real.event_id)
    assert gone.erased
    assert gone.payload == {"$erased": True}
    assert b'"payload":{"$erased":true}' in gone.event.to_json()
    assert fake.event.to_json() != gone.event.to_json()
    assert fake.value() == {"$erased": True}
    with pytest.raises(NotFound, match="at position 2 was erased"):
        gone.value()


@pytest.mark.parametrize("levels", [501, 700, 3_000])
def test_an_envelope_deeper_than_every_python_can_read_is_refused_on_each(levels: int) -> None:
    payload = '{"d": ' * levels + "1" + "}" * levels
    line = (
        '{"event_id": "0199a0b4-0000-7000-8000-000000000001", "event_type": "a.b", '
        '"timestamp": "2026-11-30T02:26:03.123456Z", "source": {"origin": "agent"}, "correlation_id": "c", '
        f'"causation_id": null, "payload": {payload}}}'
    )
    with pytest.raises(InvalidEvent):
        EventEnvelope.from_json(line)


def test_an_envelope_as_deep_as_the_limit_is_read() -> None:
    payload = '{"d": ' * 500 + "1" + "}" * 500
    envelope = EventEnvelope.from_json(
        '{"event_id": "0199a0b4-0000-7000-8000-000000000001", "event_type": "a.b", '
        '"timestamp": "2026-11-30T02:26:03.123456Z", "source": {"origin": "agent"}, "correlation_id": "c", '
        f'"causation_id": null, "payload": {payload}}}'
    )
    assert envelope.payload_json.count(b"{") == 500
