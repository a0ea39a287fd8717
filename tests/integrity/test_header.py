"""The canonical header, byte for byte against an independent RFC 8785 encoder."""

import base64
import json
import uuid

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.integrity import canonical_json, header_bytes, header_parts, is_canonical_object

TIME = "2026-11-30T02:26:03.123456Z"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
astral = st.text(st.sampled_from("a~\x7f\u20ac\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff"), max_size=4)
integers = st.integers(-(2**53) + 1, 2**53 - 1)
values = st.recursive(
    st.none() | st.booleans() | integers | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text | astral, inner, max_size=5),
    max_leaves=20,
)
ids = st.uuids().map(str)


@given(values)
@example({"\ue000": 1, "\U0001f600": 2})
@example({"": 0, "\x00": 1, "\x1f": 2, "\x7f": 3, "\u2028": 4, '"': 5, "\\": 6, "/": 7})
@example("\b\t\n\f\r\x0b\x1b\"'\\/")
@example([2**53 - 1, -(2**53) + 1, 0, True, False, None, [], {}, [[]], [{}]])
def test_canonical_json_is_rfc_8785(value):
    assert canonical_json(value) == rfc8785.dumps(value)


@given(
    event_id=ids,
    event_type=text,
    source=st.dictionaries(st.sampled_from(["origin", "runtime", "name"]), text),
    correlation_id=text,
    causation_id=st.none() | ids,
    schema_version=st.none() | st.integers(1, 2**31),
    attributes=st.none()
    | st.dictionaries(text | astral, text | integers | st.lists(text, max_size=3), max_size=4),
    commitment=st.binary(min_size=32, max_size=32),
    length=st.integers(0, 2**40),
)
def test_a_header_is_the_canonical_json_of_its_fields(
    event_id,
    event_type,
    source,
    correlation_id,
    causation_id,
    schema_version,
    attributes,
    commitment,
    length,
):
    wanted = {
        "v": 1,
        "event_id": event_id,
        "event_type": event_type,
        "timestamp": TIME,
        "source": source,
        "correlation_id": correlation_id,
        "recorded_at": "2026-11-30T02:26:04.000001Z",
        "payload": {
            "alg": "salted-sha256",
            "commit": base64.b64encode(commitment).decode(),
            "len": length,
        },
    }
    if causation_id is not None:
        wanted["causation_id"] = causation_id
    if schema_version not in (None, 1):
        wanted["schema_version"] = schema_version
    if attributes is not None:
        wanted["attributes"] = attributes
    header = header_bytes(
        event_id,
        event_type,
        TIME,
        canonical_json(source).decode(),
        correlation_id,
        causation_id,
        schema_version,
        None if attributes is None else canonical_json(attributes).decode(),
        commitment,
        length,
        "2026-11-30T02:26:04.000001Z",
    )
    assert header == rfc8785.dumps(wanted)
    assert json.loads(header) == wanted


def parts(**changes):
    fields = {
        "event_id": str(uuid.UUID(int=1)),
        "event_type": "execution.message",
        "timestamp": TIME,
        "source_json": '{"origin":"agent","runtime":"none"}',
        "correlation_id": "run-1",
        "causation_id": None,
        "schema_version": None,
        "attributes_json": None,
        "commitment": bytes(32),
        "payload_bytes": 2,
    }
    return header_parts(**{**fields, **changes})


def test_the_two_parts_stand_around_the_text_of_recorded_at():
    prefix, suffix = parts()
    header = json.loads(prefix + b"NOW" + suffix)
    assert header["recorded_at"] == "NOW"
    assert prefix.endswith(b'"recorded_at":"')
    assert suffix.startswith(b'","source":')


def test_schema_version_one_is_the_same_header_as_none():
    assert parts(schema_version=1) == parts(schema_version=None)
    assert b"schema_version" not in b"".join(parts(schema_version=1))
    assert b'"schema_version":2,' in b"".join(parts(schema_version=2))


def test_a_text_is_quoted_the_same_way_every_time_it_is_used():
    first = parts(correlation_id='a"\n\u00e9')
    assert parts(correlation_id='a"\n\u00e9') == first
    for n in range(5000):  # more texts than are kept
        parts(correlation_id=f"run-{n}")
    assert parts(correlation_id='a"\n\u00e9') == first


@pytest.mark.parametrize("field", ["event_type", "correlation_id", "source_json", "attributes_json"])
def test_a_lone_surrogate_in_a_header_is_refused(field):
    with pytest.raises(InvalidEvent, match="lone surrogate"):
        parts(**{field: "\ud800"})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (1.5, "$"),
        ({"a": [1, 2.0]}, "$.a[1]"),
        ({"a": {"b": float("nan")}}, "$.a.b"),
        ([2**53], "$[0]"),
        ([-(2**53)], "$[0]"),
        ({"a": b"x"}, "$.a"),
        ({"a": (1,)}, "$.a"),
        ({1: "x"}, "$"),
        ({"a": {None: 1}}, "$.a"),
    ],
)
def test_canonical_json_refuses_what_has_no_single_form_and_says_where(value, path):
    with pytest.raises(InvalidEvent) as caught:
        canonical_json(value)
    assert caught.value.path == path


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a\ud83d"]])
def test_canonical_json_refuses_lone_surrogates(value):
    with pytest.raises(InvalidEvent, match="lone surrogate"):
        canonical_json(value)


def test_canonical_json_refuses_deep_nesting_and_cycles_without_exhausting_the_stack():
    cycle = []
    cycle.append(cycle)
    with pytest.raises(InvalidEvent, match="deeper"):
        canonical_json(cycle)


@given(st.dictionaries(text, values, max_size=4))
def test_what_canonical_json_writes_is_a_canonical_object(value):
    assert is_canonical_object(canonical_json(value).decode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"a"',
        "null",
        "{} ",
        '{"a": 1}',
        '{"b":1,"a":2}',
        '{"a":1,"a":1}',
        '{"a":1.0}',
        '{"a":1e3}',
        '{"a":-0}',
        '{"a":9007199254740992}',
        '{"a":NaN}',
        '{"a":"\\u0061"}',
        '{"a":"\\/"}',
        '{"a":"\\ud800"}',
        '{"a":"\ud800"}',
        '{"a":1},"causation_id":"x"',
        "{" * 100_000,
    ],
)
def test_any_other_text_is_not(text):
    assert not is_canonical_object(text)


def test_text_moved_into_another_column_leaves_the_header_the_same_and_is_not_canonical():
    cause = str(uuid.UUID(int=7))
    moved = f'{{"a":1}},"causation_id":"{cause}"'
    honest = parts(attributes_json='{"a":1}', causation_id=cause)
    assert parts(attributes_json=moved, causation_id=None) == honest
    assert not is_canonical_object(moved)
