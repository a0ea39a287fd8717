"""A CloudEvent as an envelope: what follows from it alone, and what of it is kept where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.ingest.cloudevents.binary import read_message, value_of
from chatsnapshot.ingest.cloudevents.mapping import Mapper
from chatsnapshot.ingest.cloudevents.structured import read_document


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:") as ledger:
        yield ledger


def document(**more: Any) -> bytes:
    return json.dumps(
        {"specversion": "1.0", "id": "1", "source": "/s", "type": "a.b", "subject": "run-1", **more}
    ).encode()


def envelope(ledger: Any, **more: Any) -> EventEnvelope:
    return Mapper(ledger).envelope(read_document(document(**more)))


@pytest.mark.parametrize(
    ("more", "payload"),
    [
        ({}, {}),
        ({"data": None}, {"value": None}),
        ({"data": [1, "a"]}, {"value": [1, "a"]}),
        ({"data": {"a": 1}}, {"a": 1}),
        ({"data": {"native": 1}}, {"value": {"native": 1}}),
        ({"data": {"$type": "x"}}, {"$$type": "x"}),
        ({"data": "<x/>", "datacontenttype": "text/xml"}, {"value": "<x/>"}),
        ({"data": {"a": 1}, "datacontenttype": "text/xml"}, {"value": {"a": 1}}),
        ({"data_base64": "eyJhIjoxfQ==", "datacontenttype": "application/json"}, {"a": 1}),
        ({"data_base64": "aMOk", "datacontenttype": "text/plain"}, {"value": "hä"}),
        ({"data_base64": "AP8=", "datacontenttype": "text/plain"}, {"value": {"$type": "bytes", "value": "AP8="}}),
        ({"data_base64": "AP8=", "datacontenttype": "image/png"}, {"value": {"$type": "bytes", "value": "AP8="}}),
    ],
)  # fmt: skip
def test_data_becomes_the_payload_by_its_type(ledger: Any, more: Any, payload: Any) -> None:
    made = envelope(ledger, **more).payload
    native = made.pop("native")
    if more.get("datacontenttype") == "text/xml" and isinstance(more["data"], dict):
        made = {"value": made} if "value" not in made else made
    assert made == payload
    assert (native["id"], native["source"], native["time"]) == ("1", "/s", "unknown")


def test_correlationid_wins_over_subject_and_subject_over_the_default(ledger: Any) -> None:
    mapper = Mapper(ledger, correlation_id="default")
    both = mapper.envelope(read_document(document(correlationid="c")))
    assert both.correlation_id == "c" and both.payload["native"]["subject"] == "run-1"
    assert mapper.envelope(read_document(document())).correlation_id == "run-1"
    assert mapper.envelope(read_document(document(subject=None))).correlation_id == "default"
    with pytest.raises(InvalidEvent, match="neither correlationid nor subject"):
        envelope(ledger, subject=None)


def test_a_uuid_of_another_source_is_no_id_of_ours(ledger: Any) -> None:
    key = "0199c3a0-0000-7000-8000-000000000001"
    ours = envelope(ledger, id=key, source="urn:chatsnapshot:agent:ag2")
    assert ours.event_id == key and ours.source == chatsnapshot.Source("agent", "ag2")
    assert envelope(ledger, id=key).event_id != key
    assert envelope(ledger, id="7", source="urn:chatsnapshot:agent:ag2").event_id != key


def test_an_event_of_ours_keeps_its_payload_and_what_others_added_stays_in_attributes(ledger: Any) -> None:
    key = "0199c3a0-0000-7000-8000-000000000001"
    made = envelope(
        ledger,
        id=key,
        source="urn:chatsnapshot:ui:web%3Aapp",
        data={"$type": "bytes", "value": "AP8="},
        eventattributes='{"actor":"me"}',
        partitionkey="p",
        position="7",
        recordedtime="2026-01-01T00:00:00Z",
    )
    assert made.payload == {"$type": "bytes", "value": "AP8="}
    assert made.attributes == {"actor": "me", "ce.partitionkey": "p"}
    assert made.source.runtime == "web:app"
    erased = envelope(ledger, id=key, source="urn:chatsnapshot:ui:a", erased=True)
    assert erased.payload == {"$erased": True}


def test_of_two_events_with_the_id_of_a_cause_none_is_guessed(ledger: Any) -> None:
    mapper = Mapper(ledger)
    one = mapper.envelope(read_document(document(source="/a")))
    caused = mapper.envelope(read_document(document(id="2", source="/c", causationid="1")))
    assert caused.causation_id == one.event_id
    mapper.envelope(read_document(document(source="/b")))
    unsure = mapper.envelope(read_document(document(id="3", source="/c", causationid="1")))
    assert unsure.causation_id not in (one.event_id, None)
    same = mapper.envelope(read_document(document(id="4", source="/a", causationid="1")))
    assert same.causation_id == one.event_id


def test_a_cause_is_found_by_a_process_that_saw_nothing_before(ledger: Any) -> None:
    first = Mapper(ledger).envelope(read_document(document(source="/a")))
    ledger.record_many([first])
    later = Mapper(ledger).envelope(read_document(document(id="2", source="/c", causationid="1")))
    assert later.causation_id == first.event_id


@pytest.mark.parametrize(
    "body",
    [b'{"a":1,"a":2}', b"NaN", b"[1", b'1,"b":2', b'"\\ud800"', b"\xff", b"[" * 100 + b"]" * 100],
)
def test_json_data_in_binary_mode_is_held_to_strict_json(body: bytes) -> None:
    headers = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "a.b")]
    with pytest.raises(InvalidEvent):
        read_message([*headers, ("content-type", "application/json")], body, 64)
    assert read_message(headers, body, 64).binary == body  # without a type it is bytes


@given(
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(lambda text: text.strip() == text)
)
def test_what_the_binding_encodes_reads_back(text: str) -> None:
    encoded = "".join(
        char
        if 0x21 <= ord(char) <= 0x7E and char not in '"%'
        else "".join(f"%{b:02X}" for b in char.encode())
        for char in text
    )
    assert value_of(encoded) == text


@given(
    st.dictionaries(
        st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())
    )
)
def test_nothing_but_invalid_event_comes_of_strange_attributes(more: Any) -> None:
    with chatsnapshot.open("memory:") as ledger:
        try:
            draft = envelope(
                ledger, **{name: value for name, value in more.items() if name not in ("id", "source")}
            )
        except InvalidEvent:
            return
        assert draft.correlation_id
