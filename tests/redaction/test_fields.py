"""Rules for fields, and secrets wherever a payload can hold text."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import msgspec
import pytest

from chatsnapshot import jsonvalue
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.redaction import SECRETS, Pattern, Redactor

SOURCE = '{"origin":"agent","runtime":"none"}'
KEY = "AK" + "IAQ2W3E4R5T6Y7U2I3"


def rules(**options):
    return Redactor(errors="raise", **options)


def stored(value, redactor, limits=DEFAULTS):
    """The value as ``record`` encodes and redacts it: decoded payload and blobs."""
    encoded = jsonvalue.encode(value, limits=limits)
    out = redactor.apply("a.b", "c", encoded.json, encoded.blobs, None, SOURCE, limits)
    again = redactor.apply("a.b", "c", *out, limits)
    assert again == out
    return out, jsonvalue.decode(
        out.payload_json, blob=lambda ref: next(b.data for b in out.blobs if b.digest.hex() in ref["$blob"])
    )


def test_a_field_is_masked_hashed_or_kept_by_its_path(redact):
    found = redact(
        {"user": {"email": "ada@example.com", "name": "Ada"}, "note": "password=hunter2"},
        rules(rules={"payload.user.email": "hash", "payload.user.name": "mask", "payload.note": "keep"}),
    )
    digest = hashlib.sha256(b"ada@example.com").hexdigest()
    assert found == {
        "user": {"email": f"[hash:sha256:{digest}]", "name": "[redacted:rule]"},
        "note": "password=hunter2",
    }


def test_a_hash_with_a_key_is_an_hmac_and_stays_one(redact):
    redactor = rules(rules={"payload.id": "hash"}, hash_key=b"k" * 32)
    once = redact({"id": 42}, redactor)
    assert once == {"id": f"[hash:hmac-sha256:{hmac.digest(b'k' * 32, b'42', 'sha256').hex()}]"}
    assert redact(once, redactor) == once
    assert "k" * 32 not in repr(redactor)


def test_stars_and_lists_in_paths_and_the_last_rule_wins(redact):
    redactor = rules(
        rules={
            "payload.**.ssn": "mask",
            "payload.*.city": "mask",
            "payload.demo.ssn": "keep",
            r"payload.a\.b": "mask",
        }
    )
    payload = {
        "people": [{"ssn": "1"}, {"in": {"ssn": "2"}}],
        "x": {"city": "Ulm"},
        "demo": {"ssn": "3"},
        "a.b": 1,
    }
    assert redact(payload, redactor) == {
        "people": [{"ssn": "[redacted:rule]"}, {"in": {"ssn": "[redacted:rule]"}}],
        "x": {"city": "[redacted:rule]"},
        "demo": {"ssn": "3"},
        "a.b": "[redacted:rule]",
    }


def test_keep_exempts_what_lies_below_except_where_a_deeper_rule_speaks(redact):
    redactor = rules(rules={"payload.user": "keep", "payload.user.pin": "mask"})
    payload = {"user": {"password": "hunter2", "pin": "1"}, "password": "hunter2"}
    assert redact(payload, redactor) == {
        "user": {"password": "hunter2", "pin": "[redacted:rule]"},
        "password": "[redacted:password]",
    }


@pytest.mark.parametrize(
    "given",
    [
        {"user.email": "mask"},
        {"payload.x": "drop"},
        {"": "mask"},
        {"payload..x": "mask"},
        {"correlation_id": "mask"},
    ],
)
def test_a_rule_that_names_nothing_is_refused(given):
    with pytest.raises(InvalidEvent, match=r"rule|action"):
        Redactor(rules=given)


def test_attributes_and_the_source_name_have_rules_and_patterns():
    redactor = rules(
        rules={"attributes.principal": "hash", "attributes.actor": "keep", "source.name": "mask"}
    )
    out = redactor.apply(
        "a.b", "c", b"{}", (),
        f'{{"actor":"{KEY}","note":"key {KEY}","principal":"ada","tags":["{KEY}","x"]}}',
        '{"name":"ada","origin":"agent","runtime":"none"}', DEFAULTS,
    )  # fmt: skip
    attributes = msgspec.json.decode(out.attributes_json)
    assert attributes.pop("principal").startswith("[hash:sha256:")
    mark = "[redacted:aws-access-key-id]"
    assert attributes == {"actor": KEY, "note": f"key {mark}", "tags": [mark, "x"]}
    assert msgspec.json.decode(out.source_json)["name"] == "[redacted:rule]"


def test_keys_that_hold_secrets_are_redacted_and_kept_apart(redact):
    other = KEY[:-1] + "A"
    found = redact({KEY: 1, "x": 2, other: {"password": "hunter2"}})
    mark = "[redacted:aws-access-key-id]"
    assert list(found.items()) == [(mark, 1), ("x", 2), (f"{mark} (2)", {"password": "[redacted:password]"})]


@pytest.mark.parametrize(
    "value",
    [
        {"set": {f"key {KEY}"}},
        {"tuple": (1, f"key {KEY}")},
        {1: f"key {KEY}"},
        {"bytes": f"key {KEY}".encode()},
        {"binary": b"\xff\0" + f" {KEY} ".encode()},
        {"error": ValueError(f"bad {KEY}")},
        {"surrogate": f"\ud800 {KEY}"},
        {"uri": "data:text/plain;base64," + base64.b64encode(KEY.encode()).decode()},
        {"$own": {"$type": "x", "value": f"key {KEY}"}},
        {"args": json.dumps({"deep": json.dumps({"k": KEY})})},
    ],
    ids=lambda value: str(next(iter(value))),
)
def test_a_secret_is_found_inside_every_kind_of_value(value, secrets):
    _, found = stored(value, secrets)
    assert KEY not in repr(found) and base64.b64encode(KEY.encode()).decode() not in repr(found)


def test_a_secret_below_the_deepest_level_is_found(secrets):
    value: dict = {"k": f"key {KEY}"}
    for _ in range(90):
        value = {"d": value}
    out, _ = stored(value, secrets)
    assert b"$json" in out.payload_json and KEY.encode() not in out.payload_json


@pytest.mark.parametrize("media", ["text", "binary", "payload"])
def test_a_blob_with_a_secret_is_replaced_by_another_under_its_own_digest(media, secrets):
    limits = Limits(payload_bytes_max=20_000, string_inline_bytes_max=4_000, binary_inline_bytes_max=4_000)
    values = {
        "text": {"x": "a " * 4_000 + KEY},
        "binary": {"x": b"\0\xff" * 4_000 + b" " + KEY.encode() + b" "},
        "payload": {"x": ["a b" * 3] * 3_000 + [KEY, "z " * 4_000 + KEY]},
    }
    before = jsonvalue.encode(values[media], limits=limits)
    out, found = stored(values[media], secrets, limits)
    assert KEY not in str(found) and KEY.encode() not in b"".join(blob.data for blob in out.blobs)
    assert all(hashlib.sha256(blob.data).digest() == blob.digest for blob in out.blobs)
    assert {blob.digest for blob in out.blobs} == set(jsonvalue.blob_digests(out.payload_json))
    assert len(out.blobs) == len(before.blobs)


def test_escapes_of_foreign_json_hide_nothing(secrets):
    hidden = (
        b'{"p\\u0061ssword":"hunter2","k":"\\u0041'
        + KEY[1:].encode()
        + b'","u":"postgres:\\/\\/u:pw12@h\\/d"}'
    )
    out = secrets.apply("a.b", "c", hidden, (), None, SOURCE, DEFAULTS)
    assert b"hunter2" not in out.payload_json and KEY.encode() not in out.payload_json
    assert b"pw12" not in out.payload_json


def test_a_key_that_foreign_json_names_twice_hides_nothing(secrets):
    hidden = b'{"password":"hunter2","password":"","n":1}'
    out = secrets.apply("a.b", "c", hidden, (), None, SOURCE, DEFAULTS)
    assert out.payload_json == b'{"password":"","n":1}'


def test_a_payload_that_marks_make_too_large_becomes_a_blob(secrets):
    limits = Limits(payload_bytes_max=1_000)
    out, found = stored({"password": ["a1"] * 150}, secrets, limits)
    assert b"$blob" in out.payload_json and found == {"password": ["[redacted:password]"] * 150}


def test_a_source_name_that_a_mark_makes_too_long_goes_as_a_whole(secrets):
    source = '{"name":"%s pwd=a1b2","origin":"agent","runtime":"none"}' % ("x" * 245)
    out = secrets.apply("a.b", "c", b"{}", (), None, source, DEFAULTS)
    assert msgspec.json.decode(out.source_json)["name"] == "[redacted:name]"


def test_a_clean_payload_passes_as_the_same_bytes(secrets):
    json = b'{"a" : 1.0, "b":[ ]}'
    assert secrets.apply("a.b", "c", json, (), None, SOURCE, DEFAULTS).payload_json is json


def test_a_blob_that_is_clean_stays_the_same_object(secrets):
    encoded = jsonvalue.encode({"x": b"\xff" * 100_000})
    out = secrets.apply("a.b", "c", encoded.json, encoded.blobs, None, SOURCE, DEFAULTS)
    assert out.blobs == encoded.blobs and isinstance(out.blobs[0], Blob)


def test_names_and_values_in_lists_and_pairs(redact):
    mask = "[redacted:password]"
    assert redact({"argv": ["x", "--password", "hunter2"]}) == {"argv": ["x", "--password", mask]}
    assert redact({"env": [{"name": "DB_PASSWORD", "value": "x1"}]}) == {
        "env": [{"name": "DB_PASSWORD", "value": mask}]
    }
    assert redact({"required": ["password", "email"]}) == {"required": ["password", "email"]}
    assert redact({"password": ["a1", 7, None, ""]}) == {"password": [mask, 7, None, ""]}


def test_a_pattern_of_ones_own_stands_beside_the_built_in_ones(redact):
    redactor = rules(
        patterns=[*SECRETS, Pattern("employee", r"E\d{6}\b", accept=lambda hit: hit != "E000000")]
    )
    assert redact({"t": f"E123456 E000000 {KEY}"}, redactor) == {
        "t": "[redacted:employee] E000000 [redacted:aws-access-key-id]"
    }


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern("Bad Kind", "x"),
        Pattern("x", "("),
        Pattern("x", "(", linear=True),
        Pattern("x", "x", hints=('"',)),
        "x",
    ],
)
def test_a_pattern_that_cannot_work_is_refused_at_once(pattern):
    with pytest.raises(InvalidEvent):
        Redactor(patterns=[pattern])
