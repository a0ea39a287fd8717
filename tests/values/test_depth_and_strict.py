"""Deep nesting is kept, strict mode names the place, and tags from elsewhere are only data."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from chatsnapshot.errors import Corrupt, InvalidEvent, LedgerError
from chatsnapshot.jsonvalue import blob_digests, decode, encode, plain
from chatsnapshot.limits import Limits


def nested(levels: int, leaf: Any, kind: Any = None) -> Any:
    value = leaf
    for _ in range(levels):
        value = kind(value) if kind else {"in": [value]}
    return value


def depth(tree: Any) -> int:
    levels, level = 0, [tree]
    while level:
        levels += 1
        boxes = [box for box in level if isinstance(box, dict | list)]
        level = [child for box in boxes for child in (box.values() if isinstance(box, dict) else box)]
        level = [child for child in level if isinstance(child, dict | list)]
    return levels


def unwound(value: Any, levels: int, step: Any) -> Any:
    for _ in range(levels):
        value = step(value)
    return value


@pytest.mark.parametrize("levels", [28, 29, 30, 31, 40, 100, 200, 240])
def test_deep_dicts_and_lists_read_back(levels: int, strict_json: Any) -> None:
    written = encode(nested(levels, "leaf"))
    assert depth(strict_json(written.json)) <= 60
    assert unwound(decode(written.json), levels, lambda value: value["in"][0]) == "leaf"


@pytest.mark.parametrize("levels", [10, 19, 29, 30, 31, 60, 240])
def test_deep_tuples_read_back_as_tuples(levels: int, strict_json: Any) -> None:
    written = encode({"v": nested(levels, 7, lambda value: (value,))})
    assert depth(strict_json(written.json)) <= 60
    value = decode(written.json)["v"]
    for _ in range(levels):
        assert type(value) is tuple
        (value,) = value
    assert value == 7


@pytest.mark.parametrize("levels", [10, 19, 20, 30, 160])
def test_deep_mappings_with_other_keys_read_back(levels: int, strict_json: Any) -> None:
    written = encode(nested(levels, "leaf", lambda value: {1: value}))
    assert depth(strict_json(written.json)) <= 60
    assert unwound(decode(written.json), levels, lambda value: value[1]) == "leaf"


def test_exactly_the_limit_is_plain_json() -> None:
    value = nested(59, 1, lambda inner: [inner])
    assert b"$json" not in encode({"v": value}).json
    assert b"$json" in encode({"v": [value]}).json


@pytest.mark.parametrize("levels", [600, 5_000, 100_000])
def test_what_lies_too_deep_is_cut_and_the_rest_is_kept(levels: int, strict_json: Any) -> None:
    written = encode({"deep": nested(levels, 1, lambda inner: [inner]), "usage": {"tokens": 3}})
    found = strict_json(written.json)
    assert found["usage"] == {"tokens": 3}
    assert depth(found) <= 60
    assert rb"\"kind\":\"depth\"" in written.json
    value = unwound(decode(written.json)["deep"], 500, lambda inner: inner[0])
    assert value == {"$type": "cut", "kind": "depth", "class": "list", "lossy": True}
    plain(written.json)


def test_a_smaller_depth_is_kept_too(strict_json: Any) -> None:
    value = {"a": {"b": {"c": {"d": [1, (2,)]}}}}
    written = encode(value, limits=Limits(depth_max=3))
    assert depth(strict_json(written.json)) == 3
    assert decode(written.json) == value


@pytest.mark.parametrize(
    ("payload", "path", "kind"),
    [
        ({"a": [0, 1, 2, {"b": {1}}]}, "$.a[3].b", "set"),
        ({"a": (1,)}, "$.a", "tuple"),
        ({"n": float("nan")}, "$.n", "float"),
        ({"n": 2**64}, "$.n", "int"),
        ({"a b": {"ü": b""}}, '$["a b"].ü', "bytes"),
        ({"$k": {"at": datetime.date(2026, 1, 1)}}, '$["$k"].at', "datetime.date"),
        ({"a": {1: 2}}, "$.a", "int"),
        ({"t": "\ud800"}, "$.t", "str"),
        ({"e": ValueError("x")}, "$.e", "ValueError"),
        ([1, object()], "$[1]", "object"),
        ({1, 2}, "$", "set"),
        ({"d": nested(40, 1)}, "$", "depth_max"),
    ],
)
def test_strict_mode_says_where_and_what(payload: Any, path: str, kind: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        encode(payload, strict=True)
    assert caught.value.path == path
    assert kind in str(caught.value)
    assert "strict=False" in str(caught.value)
    assert isinstance(caught.value, LedgerError)
    encode(payload)


@pytest.mark.parametrize(
    "forged",
    [
        {"$type": "decimal", "value": "abc"},
        {"$type": "decimal"},
        {"$type": "os.system", "value": "true"},
        {"$type": 7, "value": 1},
        {"$type": ["set"], "value": 1},
        {"$type": "bytes", "value": "%%%"},
        {"$type": "int", "value": "9" * 10_000},
        {"$type": "range", "value": [0, 1, 0]},
        {"$type": "datetime", "value": "yesterday"},
        {"$type": "timedelta", "value": "1e400"},
        {"$type": "uuid", "value": "x"},
        {"$type": "str", "value": "abc", "surrogates": [[1, 65]]},
        {"$type": "str", "value": "abc", "surrogates": [[9, 0xD800]]},
        {"$type": "zone", "value": "../../etc/passwd"},
        {"$type": "ip", "class": "Popen", "value": "x"},
        {"$type": "map", "value": [[1]]},
        {"$type": "set", "value": "abc"},
        {"$type": "tuple", "value": "abc"},
        {"$type": "enum", "class": "x"},
        {"$json": "{not json"},
        {"$json": 7},
        {"$blob": "sha256:short"},
        {"$blob": 7},
        {"$class": 7, "a": 1},
        {"$a": 1, "$$a": 2},
        {"$withheld": "redaction failed"},
    ],
    ids=str,
)
def test_a_malformed_tag_reads_as_the_object_that_it_is(forged: dict[str, Any]) -> None:
    assert decode({"v": [forged]}) == {"v": [forged]}
    assert decode({"v": [forged]}, blob=lambda ref: b"") == {"v": [forged]}
    plain({"v": [forged]})
    assert blob_digests(encode({"v": forged}).json) == ()


def test_decoding_changes_nothing_of_what_it_is_given() -> None:
    stored = {"a": {"$$k": [{"$type": "decimal", "value": "1"}]}, "j": {"$json": "[1]"}}
    before = repr(stored)
    decode(stored)
    plain(stored)
    assert repr(stored) == before


def test_bytes_that_are_not_json_are_corrupt() -> None:
    for stored in (b"", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000):
        with pytest.raises(Corrupt):
            decode(stored)
        with pytest.raises(Corrupt):
            plain(stored)


def test_pairs_that_read_back_as_one_key_are_kept_apart() -> None:
    import enum

    class Colour(enum.Enum):
        RED = "red"

    assert decode(encode({Colour.RED: 1, "red": 2}).json) == [("red", 1), ("red", 2)]


def test_a_stored_payload_recorded_again_reads_back_as_that_json() -> None:
    stored = {"$type": "decimal", "value": "1.10", "$$k": 1}
    assert decode(encode({"copy": stored}).json) == {"copy": stored}
