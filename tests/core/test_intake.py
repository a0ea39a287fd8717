"""What record takes: ids, sources, attributes, timestamps, defaults; and that bad input stores nothing."""

from __future__ import annotations

import enum
import json
import unicodedata
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from chatsnapshot import InvalidEvent, Ledger, LimitExceeded, Limits, Source

ID = "01890000-0000-7000-8000-000000000001"


class Kind(str, enum.Enum):
    MESSAGE = "execution.message"
    RUN = "run-1"
    AGENT = "agent"


# --- correlation and other ids ---


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("run-1", "run-1"),
        (7, "7"),
        (-(10**30), "-1000000000000000000000000000000"),
        (uuid.UUID(ID), ID),
        ("e\u0301te\u0301", "été"),
        ("日本語 🦜 a/b?c=d", "日本語 🦜 a/b?c=d"),
        ("x" * 256, "x" * 256),
        ("\u00a0\u200b\u2028", "\u00a0\u200b\u2028"),
        (Kind.RUN, "run-1"),
        (" padded ", " padded "),
    ],
)
def test_a_correlation_is_text_an_int_or_a_uuid_in_nfc(ledger: Ledger, given: object, stored: str) -> None:
    entry = ledger.record("a.b", correlation_id=given)
    assert entry.correlation_id == stored
    assert type(entry.correlation_id) is str
    assert unicodedata.is_normalized("NFC", entry.correlation_id)
    assert [found.position for found in ledger.read(correlation_id=given)] == [1]
    assert ledger.record("a.b", correlation_id=stored).sequence == 2


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("", "correlation_id is empty; give 1 to 256 characters"),
        ("x" * 257, "correlation_id has 257 characters, and id_chars_max is 256; shorten it or hash it"),
        (10**300, "correlation_id has 301 characters"),
        pytest.param(10**9_000, "id_chars_max is 256", id="huge"),
        ("a\x00b", "control character"),
        ("a\nb", "control character"),
        ("\x7f", "control character"),
        ("\x85", "control character"),
        ("a\ud800", "lone surrogate"),
        (True, "must be text, an int or a UUID, not bool"),
        (1.5, "must be text, an int or a UUID, not float"),
        (b"run", "not bytes"),
        (["run"], "not list"),
    ],
)
def test_a_correlation_that_cannot_be_is_refused_and_nothing_is_stored(
    ledger: Ledger, bad: object, words: str
) -> None:
    with pytest.raises(InvalidEvent, match=words) as caught:
        ledger.record("a.b", correlation_id=bad)
    assert caught.value.path == "correlation_id"
    assert ledger.head == 0


def test_an_event_without_correlation_is_refused_with_what_to_do(ledger: Ledger) -> None:
    with pytest.raises(
        InvalidEvent, match=r"correlation_id is missing; give the id .* or record inside a scope"
    ):
        ledger.record("a.b", {})
    assert ledger.head == 0


def test_the_length_of_an_id_is_that_of_its_stored_form(ledger: Ledger) -> None:
    grows = "\ufb2c"  # three characters in NFC
    assert len(ledger.record("a.b", correlation_id=grows * 85).correlation_id) == 255
    with pytest.raises(InvalidEvent, match="has 258 characters"):
        ledger.record("a.b", correlation_id=grows * 86)
    shrinks = "e\u0301" * 256
    assert len(ledger.record("a.b", correlation_id=shrinks).correlation_id) == 256


@pytest.mark.parametrize("bad", ["", "run-1", 7, 1.5, "01890000-0000-7000-8000-00000000000g", b"x"])
def test_an_event_id_is_a_uuid(ledger: Ledger, bad: object) -> None:
    with pytest.raises(InvalidEvent, match="event_id must be a UUID") as caught:
        ledger.record("a.b", correlation_id="c", event_id=bad)
    assert caught.value.path == "event_id"
    assert ledger.head == 0


def test_event_id_and_idempotency_key_exclude_each_other(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent, match="give event_id or idempotency_key, not both"):
        ledger.record("a.b", correlation_id="c", event_id=ID, idempotency_key="k")
    assert ledger.head == 0


@pytest.mark.parametrize("key", ["step-1", 7, uuid.UUID(ID), "e\u0301"])
def test_an_idempotency_key_makes_the_same_id_each_time(ledger: Ledger, key: object) -> None:
    first = ledger.record("a.b", correlation_id="c", idempotency_key=key)
    again = ledger.record("a.b", correlation_id="c", idempotency_key=unicodedata.normalize("NFC", str(key)))
    other = ledger.record("a.b", correlation_id="d", idempotency_key=key)
    assert again == first
    assert other.event_id != first.event_id
    assert uuid.UUID(first.event_id).version == 5


def test_an_idempotency_key_is_checked_as_an_id(ledger: Ledger) -> None:
    for bad in ("", "\x00", "x" * 257, 1.5):
        with pytest.raises(InvalidEvent) as caught:
            ledger.record("a.b", correlation_id="c", idempotency_key=bad)
        assert caught.value.path == "idempotency_key"
    assert ledger.head == 0


def test_a_cause_is_text_uuid_entry_envelope_or_pending(ledger: Ledger) -> None:
    entry = ledger.record("a.b", correlation_id="c")
    pending = ledger.record("a.b", correlation_id="c", wait=False)
    for cause in (entry, entry.event, entry.event_id, uuid.UUID(entry.event_id), entry.event_id.upper()):
        assert ledger.record("a.b", correlation_id="other", causation_id=cause).causation_id == entry.event_id
    assert ledger.record("a.b", correlation_id="c", causation_id=pending).causation_id == pending.event_id


@pytest.mark.parametrize("bad", ["", "run-1", 7, 1.5, object()])
def test_a_cause_that_is_no_id_is_refused(ledger: Ledger, bad: Any) -> None:
    with pytest.raises(InvalidEvent, match="causation_id must be a UUID") as caught:
        ledger.record("a.b", correlation_id="c", causation_id=bad)
    assert "idempotency_key" not in str(caught.value)
    assert ledger.head == 0


def test_a_cause_that_is_not_there_yet_is_recorded(ledger: Ledger) -> None:
    entry = ledger.record("a.b", correlation_id="c", causation_id=ID)
    assert entry.causation_id == ID
    assert ledger.record("a.a", correlation_id="c", event_id=ID).position == 2


# --- types ---


@pytest.mark.parametrize(
    "given", ["execution.message", "custom.a.b_c.0", "x1_.y", "ag2.TextEvent".lower(), "ledger.gap"]
)
def test_any_type_that_reads_domain_dot_name_is_recorded(ledger: Ledger, given: str) -> None:
    assert ledger.record(given, correlation_id="c").event_type == given


def test_a_member_of_a_text_enum_is_taken_as_its_value(ledger: Ledger) -> None:
    entry = ledger.record(Kind.MESSAGE, correlation_id=Kind.RUN, source={"origin": Kind.AGENT})
    assert entry == ledger.get(entry.event_id)
    assert (type(entry.event_type), entry.event_type) == (str, "execution.message")
    assert entry.source == Source("agent")
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "bad",
    ["", "message", "Execution.message", "execution.", ".message", "execution..x", "execution message",
     "execution.méssage", "1a.b", "_a.b", "a.b\n", "a." + "b" * 255, None, 7, b"a.b", ["a.b"], {}],
)  # fmt: skip
def test_a_type_that_does_not_read_domain_dot_name_is_refused(ledger: Ledger, bad: Any) -> None:
    with pytest.raises(InvalidEvent, match=r"event_type must read domain\.name in lower case") as caught:
        ledger.record(bad, correlation_id="c")
    assert caught.value.path == "event_type"
    assert ledger.head == 0


@pytest.mark.parametrize("own", ["ledger.payload_erased", "ledger.clock_behind", "ledger.promoted"])
def test_what_verification_relies_on_is_recorded_by_the_ledger_alone(ledger: Ledger, own: str) -> None:
    with pytest.raises(InvalidEvent, match="recorded by the ledger itself"):
        ledger.record(own, {"positions": [1]}, correlation_id="ledger")
    assert ledger.head == 0


# --- source ---


@pytest.mark.parametrize(
    ("event_type", "origin"),
    [
        ("execution.message", "agent"),
        ("ui.interaction", "ui"),
        ("integration.call", "integration"),
        ("system.error", "system"),
        ("ledger.gap", "system"),
        ("billing.paid", "system"),
        ("execution_x.y", "system"),
    ],
)
def test_without_a_source_the_origin_follows_the_domain(ledger: Ledger, event_type: str, origin: str) -> None:
    assert ledger.record(event_type, correlation_id="c").source == Source(origin, "none")


def test_a_ledger_can_have_a_default_source(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, source={"origin": "agent", "runtime": "custom", "name": "planner"})
    assert ledger.record("ui.interaction", correlation_id="c").source == Source("agent", "custom", "planner")
    given = ledger.record("ui.interaction", correlation_id="c", source=Source("ui"))
    assert given.source == Source("ui", "none", None)


def test_a_bad_default_source_is_refused_at_opening(path: str, opened: Callable[..., Ledger]) -> None:
    with pytest.raises(InvalidEvent, match=r"source\.origin is one of"):
        opened(path, source={"origin": "robot"})


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (Source("agent", "ag2", "writer"), Source("agent", "ag2", "writer")),
        ({"origin": "ui"}, Source("ui", "none", None)),
        ({"origin": "ui", "runtime": None, "name": None}, Source("ui", "none", None)),
        ({"origin": "ui", "runtime": "", "name": 7}, Source("ui", "none", "7")),
        ({"name": "e\u0301", "runtime": "x", "origin": "system"}, Source("system", "x", "é")),
    ],
)
def test_a_source_is_a_struct_or_a_mapping(ledger: Ledger, given: Any, stored: Source) -> None:
    entry = ledger.record("a.b", correlation_id="c", source=given)
    assert entry.source == entry.event.source == stored


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("agent", "must be a Source or a mapping, not str"),
        ({}, r"source\.origin is one of agent, system, ui, integration, not None"),
        ({"origin": "robot"}, "not 'robot'"),
        ({"origin": ["agent"]}, r"source\.origin is one of"),
        (Source("robot"), r"source\.origin is one of"),
        ({"origin": "agent", "host": "x"}, "unknown key 'host'"),
        ({"origin": "agent", 7: "x"}, "unknown key '7'"),
        ({"origin": "agent", "name": ""}, r"source\.name is empty"),
        ({"origin": "agent", "name": "a\x1b[2J"}, r"source\.name .* control character"),
        ({"origin": "agent", "runtime": "x" * 257}, r"source\.runtime has 257 characters"),
        (Source("agent", name="\udcff"), r"source\.name .* lone surrogate"),
        ({"origin": "agent", "name": {"a": 1}}, "not dict"),
    ],
)
def test_a_source_that_cannot_be_is_refused(ledger: Ledger, bad: Any, words: str) -> None:
    with pytest.raises(InvalidEvent, match=words) as caught:
        ledger.record("a.b", correlation_id="c", source=bad)
    assert (caught.value.path or "").startswith("source")
    assert ledger.head == 0


# --- timestamp ---


def test_a_timestamp_of_another_zone_is_kept_as_utc(ledger: Ledger) -> None:
    zone = timezone(timedelta(hours=-7))
    entry = ledger.record("a.b", correlation_id="c", timestamp=datetime(2026, 5, 1, 12, 0, tzinfo=zone))
    assert entry.timestamp == entry.event.timestamp == "2026-05-01T19:00:00.000000Z"


def test_a_naive_timestamp_is_refused_and_nothing_is_stored(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent, match=r"no time zone; use datetime\.now\(timezone\.utc\)"):
        ledger.record("a.b", correlation_id="c", timestamp=datetime.now())
    with pytest.raises(InvalidEvent, match=r"event 1 of the batch: timestamp .* has no time zone"):
        ledger.record_many(
            [
                {"event_type": "a.b", "correlation_id": "c"},
                {"event_type": "a.b", "correlation_id": "c", "timestamp": datetime.now()},
            ]
        )
    assert ledger.head == 0


def test_the_timestamp_is_the_moment_of_the_call_not_of_the_commit(
    file_ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    door = gate(file_ledger)
    door.shut()
    before = datetime.now(timezone.utc)
    pending = file_ledger.record("a.b", correlation_id="c", wait=False)
    after = datetime.now(timezone.utc)
    door.reached()
    door.open()
    entry = pending.result(30)
    assert before <= datetime.fromisoformat(entry.timestamp[:-1] + "+00:00") <= after
    assert entry.recorded_at >= entry.timestamp


# --- attributes ---


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (
            {"actor": "ada", "n": 7, "ok": True, "links": ["a", "b"]},
            {"actor": "ada", "n": 7, "ok": True, "links": ["a", "b"]},
        ),
        ({"a": 1.5, "b": 2**53, "c": -(2**53) + 1}, {"a": "1.5", "b": "9007199254740992", "c": -(2**53) + 1}),
        ({"none": None}, {}),
        ({}, {}),
        ({"set": {"b", "a"}, "tuple": (1, True)}, {"set": ["a", "b"], "tuple": ["1", "True"]}),
        ({"id": uuid.UUID(ID), "e": Kind.AGENT}, {"id": ID, "e": "agent"}),
        ({"a.b_c0": "x", "x" * 64: "y"}, {"a.b_c0": "x", "x" * 64: "y"}),
        ({"s": "a\ud800b\x00\x1b\"\\é"}, {"s": "a?b\x00\x1b\"\\é"}),
        ({"empty": [], "text": ""}, {"empty": [], "text": ""}),
    ],
)  # fmt: skip
def test_attributes_are_text_bool_int_or_lists_of_text(
    ledger: Ledger, given: dict[str, Any], read: dict[str, Any]
) -> None:
    entry = ledger.record("a.b", correlation_id="c", attributes=given)
    assert entry.attributes == entry.event.attributes == read
    assert ledger.get(entry.event_id) == entry
    assert ("attributes" in json.loads(entry.event.to_json())) == bool(read)
    assert ledger.verify().ok


def test_an_attribute_may_be_an_entry_or_a_list_of_entries(ledger: Ledger) -> None:
    one = ledger.record("a.b", correlation_id="c")
    two = ledger.record("a.b", correlation_id="c", attributes={"links": [one, one.event], "of": one})
    assert two.attributes == {"links": [one.event_id, one.event_id], "of": one.event_id}


def test_an_attribute_that_cannot_be_shown_never_loses_the_event(ledger: Ledger) -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError

    assert ledger.record("a.b", correlation_id="c", attributes={"x": Bad()}).attributes == {"x": "<Bad>"}


@pytest.mark.parametrize("key", ["", "A", "a-b", "1a", "_a", "a b", "é", "x" * 65, 7, None, "a\n"])
def test_an_attribute_key_outside_its_alphabet_is_refused(ledger: Ledger, key: Any) -> None:
    with pytest.raises(InvalidEvent, match="put other data into the payload") as caught:
        ledger.record("a.b", correlation_id="c", attributes={key: "x"})
    assert caught.value.path == "attributes"
    assert ledger.head == 0


def test_attributes_must_be_a_mapping(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent, match="must be a mapping, not list"):
        ledger.record("a.b", correlation_id="c", attributes=["a"])  # type: ignore[arg-type]


def test_attributes_are_bounded_in_bytes(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, limits=Limits(attributes_bytes_max=100))
    ledger.record("a.b", correlation_id="c", attributes={"a": "é" * 40})
    with pytest.raises(LimitExceeded, match="attributes_bytes_max is 100 and 128 were found; put large data"):
        ledger.record("a.b", correlation_id="c", attributes={"a": "é" * 60})
    assert ledger.head == 1


# --- the rest of record ---


@pytest.mark.parametrize("bad", [0, -1, 1.0, "2", True, 2**31])
def test_a_schema_version_is_a_whole_number_from_1_on(ledger: Ledger, bad: Any) -> None:
    with pytest.raises(InvalidEvent, match="schema_version is a whole number from 1 on") as caught:
        ledger.record("a.b", correlation_id="c", schema_version=bad)
    assert caught.value.path == "schema_version"
    assert ledger.head == 0


def test_schema_version_1_is_the_default_and_left_out(ledger: Ledger) -> None:
    one = ledger.record("a.b", correlation_id="c", schema_version=1)
    two = ledger.record("a.b", correlation_id="c", schema_version=2)
    assert (one.schema_version, two.schema_version) == (1, 2)
    assert "schema_version" not in json.loads(one.event.to_json())
    assert json.loads(two.event.to_json())["schema_version"] == 2


@pytest.mark.parametrize("given", [None, {}])
def test_no_payload_is_an_empty_object(ledger: Ledger, given: Any) -> None:
    assert ledger.record("a.b", given, correlation_id="c").payload == {}


@pytest.mark.parametrize("given", [7, "text", [1, 2], True, 1.5])
def test_a_payload_that_is_no_mapping_becomes_a_value(ledger: Ledger, given: Any) -> None:
    entry = ledger.record("a.b", given, correlation_id="c")
    assert entry.payload == {"value": given}


def test_strict_refuses_what_json_cannot_hold_and_says_where(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent) as caught:
        ledger.record("a.b", {"a": [0, {"b": float("nan")}]}, correlation_id="c", strict=True)
    assert caught.value.path == "$.a[1].b"
    assert ledger.record("a.b", {"a": [0, {"b": None}]}, correlation_id="c", strict=True).position == 1


@pytest.mark.parametrize("option", ["cause", "corelation_id", "frame", "now", "spare"])
def test_an_unknown_argument_is_a_type_error(ledger: Ledger, option: str) -> None:
    with pytest.raises(TypeError):
        ledger.record("a.b", correlation_id="c", **{option: 1})  # type: ignore[call-overload]
    assert ledger.head == 0


def test_expected_sequence_is_0_or_more(ledger: Ledger) -> None:
    for bad in (-1, 1.5, "0", True):
        with pytest.raises(InvalidEvent, match="expected_sequence is 0 or more") as caught:
            ledger.record("a.b", correlation_id="c", expected_sequence=bad)  # type: ignore[arg-type]
        assert caught.value.path == "expected_sequence"
    assert ledger.head == 0
