"""Whatever a record holds, it becomes a message that is an event or is set aside; none is lost and none raises."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.ingest.brokers.kafkaaddress import read_topic
from chatsnapshot.ingest.brokers.kafkarecord import Record, message_of
from chatsnapshot.ingest.brokers.taking import Taker

SOURCE = read_topic("kafka://h/?topic=t")
NAMES = st.sampled_from(
    ["ce_id", "ce_type", "ce_source", "ce_specversion", "ce_", "CE_subject", "content-type", "idempotency_key", "x", ""]
)  # fmt: skip
VALUES = st.one_of(
    st.none(),
    st.sampled_from(
        [b"", b"a.b", b"1.0", b"/s", b"%41", b'"q"', b"\xff", b"\xc3\xa4", b"application/json", b" x "]
    ),
    st.binary(max_size=12),
)
DATA = st.one_of(
    st.sampled_from([None, b"", b"{}", b'{"a":1}', b'{"event_type":"a.b"}', b"null", b"1,2", b"[" * 2000]),
    st.binary(max_size=20),
)
RECORDS = st.builds(
    Record,
    st.integers(0, 3),
    st.integers(0, 2**62),
    st.one_of(st.just(-1), st.integers(-(2**63), 2**63 - 1)),
    VALUES,
    st.none() | st.lists(st.tuples(NAMES, VALUES), max_size=6).map(tuple),
    DATA,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(RECORDS, max_size=6), st.sampled_from([None, "a.b"]))
def test_every_record_is_stored_or_set_aside_once(records: list[Record], event_type: str | None) -> None:
    options: dict[str, Any] = {} if event_type is None else {"correlation_id": "r"}
    with chatsnapshot.open("memory:") as ledger:
        taker = Taker(ledger, event_type=event_type, **options)
        messages = [message_of(one, SOURCE) for one in records]
        taker.take(messages)
        head, report = ledger.head, taker.report
        assert report.stored + report.known + report.refused_count == len(records)
        taker.take(messages)
        assert ledger.head == head


def record(**more: Any) -> Record:
    return Record(0, 7, 1_764_460_800_000, b"k", (), b"{}")._replace(**more)


def test_a_key_is_of_place_time_and_content_and_the_same_at_each_delivery() -> None:
    others = [
        record(partition=1),
        record(offset=8),
        record(milliseconds=1),
        record(key=None),
        record(key=b""),
        record(value=None),
        record(value=b""),
        record(headers=(("a", b""),)),
        record(headers=(("a", None),)),
        record(headers=(("idempotency_key", b"mine"),)),
    ]
    keys = [message_of(one, SOURCE).key for one in (record(), *others)]
    assert len(set(keys)) == len(keys)
    assert keys == [message_of(one, SOURCE).key for one in (record(), *others)]
    named = read_topic("kafka://h/?topic=u&name=t")
    assert message_of(record(), named).key == keys[0]  # moved to another topic, under its old name


def test_the_time_of_a_record_is_that_of_its_broker_or_producer_where_it_is_one() -> None:
    assert message_of(record(), SOURCE).at == "2025-11-30T00:00:00.000000Z"
    assert [message_of(record(milliseconds=one), SOURCE).at for one in (-1, 0, 5)] == [""] * 3


def test_headers_that_the_client_cannot_read_are_told() -> None:
    assert message_of(record(headers=None), SOURCE).refused == "its headers are not UTF-8"
