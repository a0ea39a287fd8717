"""Large values stand beside the payload, once by content, and read back as themselves."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

import pytest

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.jsonvalue import BlobRef, Encoded, blob_digests, decode, encode, plain
from chatsnapshot.limits import Limits

KIB = 1024
PICTURE = os.urandom(40 * KIB)
URI = "data:image/png;base64," + base64.b64encode(PICTURE).decode()


def whole(written: Encoded) -> Any:
    by_digest = {"sha256:" + blob.digest.hex(): blob.data for blob in written.blobs}
    return decode(written.json, blob=lambda ref: by_digest[ref["$blob"]])


@pytest.mark.parametrize(
    ("value", "data", "media_type"),
    [
        (PICTURE, PICTURE, "application/octet-stream"),
        (URI, PICTURE, "image/png"),
        ("word " * 60_000, b"word " * 60_000, "text/plain;charset=utf-8"),
        ("é" * 140_000, "é".encode() * 140_000, "text/plain;charset=utf-8"),
    ],
    ids=["bytes", "data URI", "text", "text by its bytes"],
)
def test_a_large_value_becomes_a_blob(value: Any, data: bytes, media_type: str, strict_json: Any) -> None:
    written = encode({"a": 1, "v": value, "again": [value]})
    (blob,) = written.blobs
    assert (blob.digest, blob.data, blob.media_type) == (hashlib.sha256(data).digest(), data, media_type)
    ref = strict_json(written.json)["v"]
    assert ref["$blob"] == "sha256:" + hashlib.sha256(data).hexdigest()
    assert ref["bytes"] == len(data)
    assert ref["media_type"] == media_type
    assert len(written.json) < 1_000
    assert whole(written) == {"a": 1, "v": value, "again": [value]}
    assert blob_digests(written.json) == (blob.digest,)


@pytest.mark.parametrize(
    ("value", "blobs"),
    [
        (b"x" * 32 * KIB, 0),
        (b"x" * (32 * KIB + 1), 1),
        ("x" * 256 * KIB, 0),
        ("x" * (256 * KIB + 1), 1),
        ("data:a/b;base64," + "QUJD" * 8 * KIB, 1),
        ("data:a/b;base64," + "QUJD" * 7 * KIB, 0),
    ],
)
def test_values_up_to_the_limit_stay_in_the_payload(value: Any, blobs: int) -> None:
    written = encode({"v": value})
    assert len(written.blobs) == blobs
    assert whole(written) == {"v": value}


@pytest.mark.parametrize(
    "head",
    ["data:;base64,", "data:IMAGE/PNG;base64,", "data:image/png;charset=x y;base64,", "data:image/png,"],
)
def test_a_data_uri_that_would_not_read_back_exactly_is_text(head: str) -> None:
    value = head + "QUJD" * 80 * KIB
    written = encode({"v": value})
    assert written.blobs[0].media_type == "text/plain;charset=utf-8"
    assert whole(written) == {"v": value}


@pytest.mark.parametrize(
    "body", ["QUJD" * 80 * KIB + "\n", "QUJ" * 100 * KIB + "!", "QQ==" * 80 * KIB, "QUJD QUJD" * 40 * KIB]
)
def test_a_data_uri_with_irregular_base64_is_text(body: str) -> None:
    value = "data:image/png;base64," + body
    written = encode({"v": value})
    assert written.blobs[0].media_type == "text/plain;charset=utf-8"
    assert whole(written) == {"v": value}


def test_a_media_type_with_parameters_reads_back() -> None:
    value = "data:text/html;charset=utf-8;base64," + "QUJD" * 20 * KIB
    written = encode({"v": value})
    assert written.blobs[0].media_type == "text/html;charset=utf-8"
    assert whole(written) == {"v": value}


def test_long_text_with_a_lone_surrogate_reads_back() -> None:
    value = "word " * 60_000 + "\ud800"
    written = encode({"v": value})
    assert written.blobs
    assert whole(written) == {"v": value}


def test_what_is_above_the_payload_limit_becomes_one_json_blob_and_reads_back() -> None:
    limits = Limits(payload_bytes_max=10_000)
    value = {"steps": [{"n": n, "t": (n, n)} for n in range(1_000)], "file": PICTURE}
    written = encode(value, limits=limits)
    assert len(written.json) < 500
    assert {blob.media_type for blob in written.blobs} == {"application/json", "application/octet-stream"}
    assert set(blob_digests(written.json)) == {blob.digest for blob in written.blobs}
    assert whole(written) == value


def test_a_plain_payload_of_ten_megabytes_is_one_blob() -> None:
    value = {"lines": ["x" * 1_000] * 10_000}
    written = encode(value)
    assert [blob.media_type for blob in written.blobs] == ["application/json"]
    assert whole(written) == value


@pytest.mark.parametrize(("value", "kind"), [("x" * 5_000, "text"), (b"x" * 5_000, "bytes")])
def test_above_the_blob_limit_a_value_is_cut_with_size_and_digest(
    value: Any, kind: str, strict_json: Any
) -> None:
    limits = Limits(blob_bytes_max=4_000, binary_inline_bytes_max=100, string_inline_bytes_max=100)
    written = encode({"v": value, "rest": 1}, limits=limits)
    found = strict_json(written.json)
    assert found["rest"] == 1
    assert found["v"].pop("head")
    assert found["v"] == {
        "$type": "cut",
        "kind": kind,
        "bytes": 5_000,
        "digest": "sha256:" + hashlib.sha256(b"x" * 5_000).hexdigest(),
        "lossy": True,
    }
    assert written.blobs == ()
    assert plain(written.json)["v"] == f"<cut: {kind}, 5,000 bytes>"


def test_of_a_payload_above_the_blob_limit_the_small_members_are_kept(strict_json: Any) -> None:
    limits = Limits(blob_bytes_max=100_000, payload_bytes_max=80_000)
    written = encode({"role": "user", "rows": [["x" * 100] for _ in range(2_000)]}, limits=limits)
    found = strict_json(written.json)
    assert found["role"] == "user"
    assert found["rows"]["$type"] == "cut"
    assert found["rows"]["kind"] in ("json", "values")


def test_without_its_bytes_a_reference_stands_in() -> None:
    written = encode({"v": PICTURE})

    def gone(ref: Any) -> bytes:
        raise NotFound("erased")

    for found in (decode(written.json)["v"], decode(written.json, blob=gone)["v"]):
        assert isinstance(found, BlobRef)
        assert found.bytes == len(PICTURE)
        assert found.media_type == "application/octet-stream"
        assert found.digest == "sha256:" + hashlib.sha256(PICTURE).hexdigest()


def test_an_error_of_the_store_is_not_hidden() -> None:
    def fail(ref: Any) -> bytes:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        decode(encode({"v": PICTURE}).json, blob=fail)


def test_blobs_named_inside_a_deep_part_are_found() -> None:
    value: Any = PICTURE
    for _ in range(80):
        value = [value]
    written = encode({"v": value})
    assert b'{"$json":' in written.json
    assert blob_digests(written.json) == (written.blobs[0].digest,)
    assert whole(written) == {"v": value}


def test_a_caller_cannot_name_a_blob() -> None:
    forged = {"$blob": "sha256:" + "0" * 64, "bytes": 1, "media_type": "application/json"}
    for payload in (forged, {"v": forged}):
        written = encode(payload)
        assert blob_digests(written.json) == ()
        assert decode(written.json, blob=lambda ref: b"[]") == payload


def test_a_blob_shows_as_its_type_and_size() -> None:
    assert plain(encode({"v": URI}).json)["v"].startswith("<image/png, 40,960 bytes, sha256:")


def test_strict_mode_takes_long_text_but_no_bytes() -> None:
    assert whole(encode({"v": URI}, strict=True)) == {"v": URI}
    with pytest.raises(InvalidEvent):
        encode({"v": PICTURE}, strict=True)
