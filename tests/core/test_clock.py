"""Time as it is stored, and ids: spellings, order, names."""

from __future__ import annotations

import json
import os
import time
import uuid
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot import InvalidEvent
from chatsnapshot.clock import (
    NAMESPACE,
    foreign_uuid,
    idempotent_uuid,
    parse_time,
    time_text,
    timestamp_text,
    uuid7,
    uuid_bytes,
    uuid_text,
)

UTC = timezone.utc


# --- time ---


def test_a_time_has_six_digits_and_a_z() -> None:
    assert timestamp_text(datetime(2026, 11, 30, 2, 26, 3, tzinfo=UTC)) == "2026-11-30T02:26:03.000000Z"
    assert time_text(0) == "1970-01-01T00:00:00.000000Z"
    assert time_text(1_800_000_000_123_456_789) == "2027-01-15T08:00:00.123456Z"


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31)))
def test_the_ledger_clock_and_a_datetime_are_written_alike(moment: datetime) -> None:
    aware = moment.replace(tzinfo=UTC)
    nanoseconds = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
    assert time_text(nanoseconds) == timestamp_text(aware)
    assert parse_time(time_text(nanoseconds)) == aware


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-11-30T02:26:03Z", "2026-11-30T02:26:03.000000Z"),
        ("2026-11-30t02:26:03.5z", "2026-11-30T02:26:03.500000Z"),
        ("2026-11-30 02:26:03+05:30", "2026-11-29T20:56:03.000000Z"),
        ("2026-11-30T02:26:03.123456789-08:00", "2026-11-30T10:26:03.123456Z"),
        ("2026-11-30T02:26:03-00:00", "2026-11-30T02:26:03.000000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999Z"),
        ("2017-01-01T00:59:60.25+01:00", "2016-12-31T23:59:59.999999Z"),
    ],
)
def test_rfc_3339_text_is_taken_in_any_zone(given: str, stored: str) -> None:
    assert timestamp_text(given) == stored


@pytest.mark.parametrize(
    "zone", [ZoneInfo("America/Los_Angeles"), ZoneInfo("Asia/Kolkata"), timezone(timedelta(hours=14))]
)
def test_a_datetime_of_any_zone_is_the_same_moment(zone: tzinfo) -> None:
    moment = datetime(2026, 3, 8, 10, 30, 0, 7, tzinfo=UTC)
    assert timestamp_text(moment.astimezone(zone)) == timestamp_text(moment)


def test_the_second_pass_through_an_hour_that_is_repeated_is_kept_apart() -> None:
    zone = ZoneInfo("America/Los_Angeles")
    first = datetime(2026, 11, 1, 1, 30, tzinfo=zone)
    assert timestamp_text(first) == "2026-11-01T08:30:00.000000Z"
    assert timestamp_text(first.replace(fold=1)) == "2026-11-01T09:30:00.000000Z"


def test_a_naive_datetime_is_refused_and_the_message_says_how_to_mend_it() -> None:
    with pytest.raises(InvalidEvent, match=r"has no time zone; use datetime.now\(timezone.utc\)") as caught:
        timestamp_text(datetime(2026, 1, 1))
    assert caught.value.path == "timestamp"


@pytest.mark.parametrize(
    "bad",
    [
        "", "now", "2026-11-30", "2026-11-30T02:26:03", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z", "2026-01-01T00:00:61Z", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+05:60", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567890Z",
        "٢٠٢٦-01-01T00:00:00Z", "2026-01-01T00:00:00Z\x00", "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00", 1_800_000_000, 1.5, b"2026-01-01T00:00:00Z", object(),
    ],
)  # fmt: skip
def test_what_is_no_moment_is_refused(bad: object) -> None:
    with pytest.raises(InvalidEvent) as caught:
        timestamp_text(bad)
    assert caught.value.path == "timestamp"


@pytest.mark.parametrize("bad", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "x"])
def test_reading_a_time_refuses_what_lies_outside_the_years(bad: str) -> None:
    with pytest.raises(InvalidEvent):
        parse_time(bad)


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_a_datetime_outside_the_years_1_to_9999_in_utc_is_refused(moment: datetime) -> None:
    with pytest.raises(InvalidEvent, match="outside the years 1 to 9999"):
        timestamp_text(moment)


# --- ids ---


@pytest.mark.parametrize(
    "spelling",
    [
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
        "6ba7b8109dad11d180b400c04fd430c8",
        "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
        "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8").bytes,
    ],
)
def test_every_usual_spelling_of_a_uuid_is_one_id(spelling: object) -> None:
    assert uuid_text(uuid_bytes(spelling)) == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


@pytest.mark.parametrize(
    "bad",
    [
        "", "run-1", "6ba7b810-9dad-11d1-80b4-00c04fd430c", "6ba7b810-9dad-11d1-80b4-00c04fd430c8 ",
        "6ba7b8109dad11d180b400c04fd4_0c8", "+ba7b8109dad11d180b400c04fd430c8",
        "٦ba7b8109dad11d180b400c04fd430c8", "0x a7b8109dad11d180b400c04fd430c8", b"short", 7, None, 1.5,
    ],
)  # fmt: skip
def test_what_is_no_uuid_is_refused_and_the_message_names_idempotency_key(bad: object) -> None:
    with pytest.raises(InvalidEvent, match="idempotency_key") as caught:
        uuid_bytes(bad)
    assert caught.value.path == "event_id"


@given(st.uuids())
def test_bytes_and_text_of_a_uuid_go_both_ways(value: uuid.UUID) -> None:
    assert uuid_text(value.bytes) == str(value)
    assert uuid_bytes(str(value)) == value.bytes


def test_new_ids_are_uuid_7_of_now_and_rise() -> None:
    before = time.time_ns() // 1_000_000
    made = [*uuid7(5_000), *(uuid7()[0] for _ in range(5_000))]
    assert made == sorted(set(made))
    first = uuid.UUID(bytes=made[0])
    assert (first.version, first.variant) == (7, uuid.RFC_4122)
    assert before <= int.from_bytes(made[0][:6], "big") <= time.time_ns() // 1_000_000 + 1


def test_new_ids_rise_across_threads(together) -> None:
    batches = together(lambda _: [made for _ in range(200) for made in uuid7(3)], 4)
    every = [made for batch in batches for made in batch]
    assert len(set(every)) == len(every)
    assert all(batch == sorted(batch) for batch in batches)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_makes_other_ids(python) -> None:
    program = """
import os, sys
from chatsnapshot.clock import uuid7
uuid7()
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, b"".join(uuid7(50)))
    os._exit(0)
mine = set(uuid7(50))
os.wait()
theirs = os.read(reading, 800)
theirs = {theirs[i:i + 16] for i in range(0, 800, 16)}
assert len(theirs) == 50 and not theirs & mine
assert not {one[9:] for one in theirs} & {one[9:] for one in mine}, "the same random bits"
"""
    python(program)


def test_an_idempotency_key_makes_the_id_that_the_format_says() -> None:
    assert str(NAMESPACE) == "6ba5f2a8-2c0d-5f5e-9d0b-3f1f5a7b4c11"
    named = uuid.uuid5(NAMESPACE, '["run-1","step-1"]')
    assert uuid_text(idempotent_uuid("run-1", "step-1")) == str(named)
    assert uuid_text(idempotent_uuid("lauf-ü", 'a"b')) == str(uuid.uuid5(NAMESPACE, '["lauf-ü","a\\"b"]'))
    assert idempotent_uuid("a", "b,c") != idempotent_uuid("a,b", "c")
    assert uuid_text(foreign_uuid("langgraph", "7")) == str(uuid.uuid5(NAMESPACE, '["langgraph","7"]'))


def test_the_vectors_of_the_format_page_are_the_ids_that_are_made(pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "docs" / "format.md").read_text()
    text = page.partition("<!-- vector: named-ids -->")[2].partition("```json")[2].partition("```")[0]
    vector = json.loads(text)
    assert vector["namespace"] == str(NAMESPACE)
    for case in vector["cases"]:
        assert uuid_text(idempotent_uuid(*case["name"])) == case["uuid"]
