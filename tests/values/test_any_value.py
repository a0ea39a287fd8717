"""Properties over any tree of Python values: strict JSON, round trip, the same bytes in every process."""

from __future__ import annotations

import collections
import datetime
import decimal
import json
import math
import os
import pathlib
import subprocess
import sys
import uuid
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue import blob_digests, decode, encode, plain
from chatsnapshot.jsonvalue.walk import Walk
from chatsnapshot.limits import DEFAULTS, Limits

SMALL = Limits(
    payload_bytes_max=2_000,
    binary_inline_bytes_max=16,
    string_inline_bytes_max=24,
    blob_bytes_max=100_000,
    depth_max=4,
)


class Raises:
    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no equality")

    def __hash__(self) -> int:
        return 1


any_text = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(
    ["$", "$type", "$$type", "$blob", "$json", "\x00", "\ud800", "data:text/plain;base64,QUJD" * 3]
)
text = st.text(max_size=30) | st.sampled_from(["$", "$type", "$$type", "$blob", "$json", "$class", "value"])
plain_leaf = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
plain_tree = st.recursive(
    plain_leaf,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=15,
)
safe_scalar = (
    plain_leaf
    | any_text
    | st.integers()
    | st.binary(max_size=40)
    | st.datetimes()
    | st.datetimes(timezones=st.timezones() | st.just(datetime.timezone.utc))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.complex_numbers(allow_nan=False)
    | st.sampled_from([math.inf, -math.inf, pathlib.PurePosixPath("/a/b"), range(3), range(5, 1, -2)])
)
scalar = st.deferred(lambda: safe_scalar)  # deferred: short to print
hashable = st.deferred(lambda: scalar | st.tuples(scalar, scalar) | st.frozensets(scalar, max_size=3))
safe_tree = st.recursive(
    scalar,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(any_text, inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(hashable, max_size=3)
        | st.lists(inner, max_size=3).map(collections.deque)
    ),
    max_leaves=15,
)
any_tree = st.recursive(
    safe_scalar
    | st.floats()
    | st.decimals()
    | st.builds(Raises)
    | st.builds(object)
    | st.sampled_from([len, int, ValueError("x"), ..., NotImplemented, float("nan")])
    | st.builds(lambda: 10**6000),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(any_text, inner, max_size=4)
        | st.tuples(inner)
        | st.lists(inner, max_size=2).map(iter)
        | st.lists(inner, max_size=2).map(lambda parts: ValueError(*parts))
    ),
    max_leaves=15,
)
many = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def whole(written: Any) -> Any:
    by_digest = {"sha256:" + blob.digest.hex(): blob.data for blob in written.blobs}
    return decode(written.json, blob=lambda ref: by_digest[ref["$blob"]])


def as_payload(value: Any) -> Any:
    return value if isinstance(value, dict) else {"value": value}


def repr_equal(left: Any, right: Any) -> bool:
    """Equal by type too: True is not 1, 1 is not 1.0, -0.0 is not 0.0."""
    if type(left) is not type(right):
        return False
    if type(left) in (list, tuple, collections.deque):
        return len(left) == len(right) and all(map(repr_equal, left, right))
    if type(left) is dict:
        return repr_equal([*left], [*right]) and repr_equal([*left.values()], [*right.values()])
    if type(left) in (set, frozenset):
        return bool(left == right)
    if isinstance(left, float | complex):
        return repr(left) == repr(right)
    return bool(left == right)


@many
@given(any_tree)
def test_any_value_becomes_one_strict_json_object(strict_json: Any, value: Any) -> None:
    for limits in (DEFAULTS, SMALL):
        written = encode(value, limits=limits)
        found = strict_json(written.json)
        assert type(found) is dict
        assert written.json == encode(value, limits=limits).json
        assert len(written.json) <= limits.payload_bytes_max
        assert set(blob_digests(written.json)) == {blob.digest for blob in written.blobs}
        strict_json(json.dumps(plain(written.json)).encode())
        whole(written)


@many
@given(safe_tree)
def test_safe_kinds_read_back_as_they_were(value: Any) -> None:
    assert repr_equal(whole(encode(value)), as_payload(value))


@many
@given(safe_tree)
def test_small_limits_change_where_a_value_stands_but_not_what_reads_back(value: Any) -> None:
    assert repr_equal(whole(encode(value, limits=SMALL)), as_payload(value))


@many
@given(st.dictionaries(text, plain_tree, max_size=6))
def test_the_fast_path_and_the_walk_give_the_same_bytes(value: dict[str, Any]) -> None:
    walked = encode({**value, "nan": math.nan}).json
    assert encode({**value, "nan": 0}).json == walked.replace(b'{"$type":"float","value":"NaN"}', b"0")
    assert Walk(DEFAULTS, strict=True).run(value) == json.loads(encode(value).json)


@many
@given(plain_tree)
def test_strict_mode_takes_plain_json_and_reads_it_back(value: Any) -> None:
    written = encode(value, strict=True)
    assert written.json == encode(value).json
    assert repr_equal(decode(written.json), as_payload(value))


@many
@given(any_tree)
def test_what_strict_mode_takes_has_no_tags(value: Any) -> None:
    try:
        written = encode(value, strict=True)
    except InvalidEvent as error:
        assert error.path is not None and error.path.startswith("$")
    else:
        assert repr_equal(decode(written.json), as_payload(value))
        assert b'"$type":' not in written.json


@many
@given(st.dictionaries(any_text, any_text | st.dictionaries(any_text, any_text, max_size=2), max_size=4))
def test_keys_with_dollars_survive(value: dict[str, Any]) -> None:
    assert decode(encode(value).json) == value


@many
@given(plain_tree)
def test_bytes_from_elsewhere_never_make_decoding_fail(value: Any) -> None:
    decode(value)
    plain(value)
    blob_digests(encode(value).json)


PROGRAM = """
import datetime, decimal, enum, sys, uuid
from chatsnapshot.jsonvalue import encode
class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"
class Thing: pass
value = {
    "words": {"a", "b", "c", "dd", "eee", ("x", 1), None, 2.5, Colour.RED, Colour.BLUE, frozenset({"p", "q"})},
    "nested": [frozenset({"x", "y", "z", b"raw", decimal.Decimal("1.1"), uuid.UUID(int=3)})],
    "objects": [Thing(), object(), lambda: 1, Thing, iter([])],
    "error": ValueError({"s", "t"}),
}
sys.stdout.buffer.write(encode(value).json)
"""


def test_the_bytes_do_not_depend_on_the_process_or_its_hash_seed() -> None:
    results = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    # The message of an exception is the exception's own text: here a set, whose repr follows the hash seed.
    assert len({result.split(b'"error"')[0] for result in results}) == 1
    assert b'"RED"' in results.pop()


@pytest.mark.parametrize("kind", [decimal.Decimal("1.10"), uuid.UUID(int=1), Fraction(1, 3)])
def test_the_rule_is_the_same_inside_every_container(kind: Any) -> None:
    alone = encode({"v": kind}).json[5:-1]
    for holder in (
        [kind],
        (kind,),
        {kind},
        {"k": kind},
        {kind: 1},
        ValueError(kind),
        collections.deque([kind]),
    ):
        assert alone in encode({"v": holder}).json


@pytest.mark.parametrize("digits", [18, 19, 20, 4_000, 6_000])
def test_an_integer_of_any_size_reads_back(digits: int) -> None:
    number = 10**digits
    value = {"n": [number, -number, number - 1], "f": Fraction(number, 3), "r": range(number), number: 1}
    assert decode(encode(value).json) == value
