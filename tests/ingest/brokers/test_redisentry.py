"""Whatever fields an entry has, it becomes a message that is an event or is set aside; none is lost and none raises."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.ingest.brokers.redisaddress import read_stream
from chatsnapshot.ingest.brokers.redisentry import Entry, entries_of, message_of
from chatsnapshot.ingest.brokers.taking import Taker

NAMES = st.sampled_from(
    [b"data", b"event_type", b"correlation_id", b"payload", b"source", b"attributes", b"timestamp", b"event_id",
     b"idempotency_key", b"ce-id", b"ce-type", b"ce-source", b"ce-specversion", b"content-type", b"\xff", b"", b"x"]
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from([b"", b"a.b", b"1.0", b"/s", b"{}", b'{"a":1}', b'{"event_type":"a.b"}', b"null", b'"', b"\xff",
                     b"1,2", b"application/json", b"application/cloudevents+json", b"k", b"[" * 2000]),
    st.binary(max_size=12),
)  # fmt: skip
FIELDS = st.none() | st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=6).map(tuple)
IDS = st.sampled_from(["0-1", "1-1", "1796068369105-0", "18446744073709551615-18446744073709551615"])


@settings(max_examples=150)
@given(st.lists(st.tuples(IDS, FIELDS), max_size=5), st.sampled_from(["", "&field=x"]), st.booleans())
def test_every_entry_is_an_event_or_set_aside_and_again_nothing_new(
    given: Any, option: str, typed: bool
) -> None:
    source = read_stream(f"redis://h?stream=s{option}")
    messages = [message_of(Entry(entry_id, fields), source) for entry_id, fields in given]
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        taker = Taker(ledger, correlation_id="c", event_type="order.placed" if typed else None)
        refused = taker.take(messages)
        report = taker.report
        assert report.stored + report.known + report.refused_count == len(messages)
        head = ledger.head
        assert taker.take(messages) == refused
        assert ledger.head == head


def test_entries_come_in_their_order_with_what_was_deleted_among_them() -> None:
    found = entries_of([[b"1-0", [b"a", b"1", b"a", b"2"]], [b"2-0", None]])
    assert found == [Entry("1-0", ((b"a", b"1"), (b"a", b"2"))), Entry("2-0", None)]
    assert found[0].size == 4 and entries_of(None) == []


def test_a_field_that_stands_there_twice_is_no_event() -> None:
    source = read_stream("redis://h?stream=s")
    with chatsnapshot.open("memory:") as ledger:
        taker = Taker(ledger, correlation_id="c", event_type="a.b")
        taker.take([message_of(Entry("1-0", ((b"a", b"1"), (b"a", b"2"))), source)])
        assert "twice" in taker.report.refused[0].reason
