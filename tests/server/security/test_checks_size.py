"""Checks 13 to 24: bodies of every size and shape, with a real socket where a client would not send them."""

from __future__ import annotations

import gzip
import json
import re
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

HEAD = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NDJSON = HEAD.replace(b"/json", b"/x-ndjson")
ONE = b'{"event_type":"a.b","correlation_id":"c","payload":1}'


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def position(service: Any) -> int:
    found: int = service.client.get("/v1/head").json()["position"]
    return found


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 99999999999999999999999\r\n", b"["),
        (b"Content-Length: 9000000\r\n", b"["),
        (b"Transfer-Encoding: chunked\r\n", b"%x\r\n" % 9_000_000 + b"[" * 9_000_000),
    ],
)
def test_check_13_a_body_that_is_too_large_is_refused_while_it_comes(
    open_service: Any, kit: Any, framing: bytes, body: bytes
) -> None:
    with kit.raw(open_service.url) as raw:
        raw.send(HEAD + framing + b"\r\n")
        try:
            raw.send(body)  # and never the rest
        except (BrokenPipeError, ConnectionResetError):
            pass
        raw.socket.settimeout(20)
        assert status(raw.socket.recv(65_536)) in (413, 400)
    assert open_service.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: -1\r\n", b"Content-Length: 1e3\r\n", b"Content-Length: \r\n", b"Content-Length: 0x10\r\n",
     b"Content-Length: +53\r\n", b"Content-Length: \xb2\r\n", b"Transfer-Encoding: gzip\r\n",
     b"Transfer-Encoding: identity, chunked\r\n"],
)  # fmt: skip
def test_check_13_a_length_that_is_none_is_refused(open_service: Any, kit: Any, framing: bytes) -> None:
    before = position(open_service)
    with kit.raw(open_service.url) as raw:
        raw.send(HEAD + framing + b"Connection: close\r\n\r\n" + ONE)
        assert status(raw.answer()) in (400, 501)
    assert position(open_service) == before


def test_check_13_a_length_that_is_too_small_makes_no_second_event(open_service: Any, kit: Any) -> None:
    before = position(open_service)
    with kit.raw(open_service.url) as raw:
        raw.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(ONE) + ONE + ONE)
        answer = raw.answer()
    assert status(answer) == 200 and answer.count(b"HTTP/1.1 200") == 1
    assert position(open_service) == before + 1


def test_check_13_a_line_that_never_ends_is_refused_in_bounded_memory(open_service: Any, kit: Any) -> None:
    def body() -> Any:
        yield b'{"event_type":"a.b","correlation_id":"c","payload":"'
        for _ in range(40):
            yield b"x" * 1_000_000
        yield b'"}\n' + ONE + b"\n"

    answer = open_service.client.post("/v1/events", content=body(), headers=kit.LINES)
    told = answer.json()
    assert (answer.status_code, told["stored"], told["failed"]) == (422, 1, 1)
    status_of = Path(f"/proc/{open_service.process.pid}/status")
    if status_of.exists():
        peak = re.search(r"VmHWM:\s+(\d+) kB", status_of.read_text())
        assert peak is not None and int(peak[1]) < 400_000


def test_check_14_bombs_stop_at_the_limit_and_other_encodings_are_not_taken(
    open_service: Any, kit: Any
) -> None:
    before = position(open_service)
    zipped = {"content-encoding": "gzip"}
    bomb = gzip.compress(b" " * 100_000_000, 9)
    assert len(bomb) * 900 < 100_000_000
    for types in (kit.JSON, kit.LINES):
        begin = time.monotonic()
        answer = open_service.client.post("/v1/events", content=bomb, headers={**types, **zipped})
        assert answer.status_code == 413 and time.monotonic() - begin < 10
    nested = gzip.compress(gzip.compress(ONE))
    for encoding, body in (
        ("br", ONE), ("deflate", zlib.compress(ONE)), ("zstd", ONE), ("gzip, gzip", nested), ("gzip,br", ONE),
        ("compress", ONE), ("x" * 1_000, ONE),
    ):  # fmt: skip
        answer = open_service.client.post(
            "/v1/events", content=body, headers={**kit.JSON, "content-encoding": encoding}
        )
        assert (answer.status_code, kit.kind(answer)) == (415, "content-encoding"), encoding
    good = gzip.compress(ONE)
    for body in (nested, good[:-1], good[:10], good + b"x", b"", b"\x1f\x8b"):
        answer = open_service.client.post("/v1/events", content=body, headers={**kit.JSON, **zipped})
        assert answer.status_code == 400, body
    assert position(open_service) == before


JSONS = [
    (15, b"[" * 200_000), (15, b'{"a":' * 100_000), (15, ONE.replace(b"1}", b"[" * 70 + b"]" * 70 + b"}")),
    (15, ONE.replace(b"1}", b'{"a":' * 70 + b"1" + b"}" * 70 + b"}")),
    (16, ONE.replace(b"1}", b"NaN}")), (16, ONE.replace(b"1}", b"Infinity}")), (16, ONE.replace(b"1}", b"-Infinity}")),
    (16, ONE.replace(b"1}", b"1e999}")), (16, ONE.replace(b"1}", b"-1e999}")), (16, ONE.replace(b"1}", b"01}")),
    (17, ONE.replace(b"1}", b'1,"payload":2}')), (17, ONE.replace(b"1}", b'{"a":1,"a":2}}')),
    (17, ONE.replace(b"1}", b'{"a":1,"\\u0061":2}}')), (17, ONE.replace(b"1}", b'1,"correlation_id":"d"}')),
    (18, ONE.replace(b"1}", b'1,"schema_version":9007199254740992}')),
    (18, ONE.replace(b"1}", b'1,"schema_version":-1}')),
    (18, ONE.replace(b"1}", b'1,"schema_version":' + b"9" * 5_000 + b"}")),
    (18, ONE.replace(b"1}", b'1,"schema_version":1.5}')),
    (19, ONE.replace(b'"c"', b'"\\ud800"')), (19, ONE.replace(b"1}", b'"\\udfff\\ud800"}')),
    (19, ONE.replace(b'"c"', b'"\xff"')), (19, ONE.replace(b'"c"', b'"\xed\xa0\x80"')), (19, b"\xef\xbb\xbf" + ONE),
    (19, ONE.replace(b'"c"', b'"a\\u0000b"')), (19, ONE.decode().encode("utf-16")),
    (20, ONE.replace(b'"c"', b'""')), (20, ONE.replace(b'"c"', b'"' + b"x" * 257 + b'"')),
    (20, ONE.replace(b'"c"', b'"a\\nb"')), (20, ONE.replace(b'"c"', b"{}")), (20, ONE.replace(b'"c"', b'{"$gt":""}')),
    (20, ONE.replace(b'"c"', b"true")),
]  # fmt: skip


def shape(open_service: Any, kit: Any, body: bytes) -> None:
    before = position(open_service)
    begin = time.monotonic()
    for more in ({}, {"expected_sequence": "0"}):
        answer = open_service.client.post("/v1/events", params=more, content=body, headers=kit.JSON)
        assert answer.status_code in (400, 422), (body[:80], answer.text)
        assert "Traceback" not in answer.text and kit.kind(answer)
    lines = open_service.client.post("/v1/events", content=body + b"\n", headers=kit.LINES)
    whole = b"\n" not in body and not body.startswith(b"\xef\xbb\xbf")  # which may stand before lines
    assert lines.status_code == 422 or not whole, (body[:80], lines.text)
    batch = open_service.client.post("/v1/events", content=b"[" + ONE + b"," + body + b"]", headers=kit.JSON)
    assert batch.status_code in (400, 422), (body[:80], batch.text)
    assert time.monotonic() - begin < 15
    if whole:
        assert position(open_service) == before


def of(number: int) -> Any:
    return pytest.mark.parametrize("body", [body for one, body in JSONS if one == number])


@of(15)
def test_check_15_what_is_nested_too_deeply_is_refused_before_anything_recurses(
    open_service: Any, kit: Any, body: bytes
) -> None:
    shape(open_service, kit, body)


@of(16)
def test_check_16_numbers_that_are_none_are_refused(open_service: Any, kit: Any, body: bytes) -> None:
    shape(open_service, kit, body)


@of(17)
def test_check_17_a_key_that_stands_twice_is_refused(open_service: Any, kit: Any, body: bytes) -> None:
    shape(open_service, kit, body)


@of(18)
def test_check_18_numbers_of_the_header_have_their_range(open_service: Any, kit: Any, body: bytes) -> None:
    shape(open_service, kit, body)


def test_check_18_large_numbers_of_a_payload_come_back_as_they_went(open_service: Any, kit: Any) -> None:
    body = ONE.replace(b"1}", b'{"n":12345678901234567890123456789,"f":1.0}}')
    told = open_service.client.post("/v1/events", content=body, headers=kit.JSON).json()
    entry = open_service.client.get(f"/v1/events/{told['event_id']}").json()
    with chatsnapshot.open(open_service.path, read_only=True) as ledger:
        assert ledger.get(told["event_id"]).value() == {"n": 12345678901234567890123456789, "f": 1.0}
    assert "12345678901234567890123456789" in json.dumps(entry)


@of(19)
def test_check_19_text_that_is_no_text_is_refused(open_service: Any, kit: Any, body: bytes) -> None:
    shape(open_service, kit, body)


@of(20)
def test_check_20_ids_that_are_none_are_refused(open_service: Any, kit: Any, body: bytes) -> None:
    shape(open_service, kit, body)


def test_check_20_ids_are_never_a_path_or_a_query(open_service: Any, kit: Any) -> None:
    for one in ("../../etc/passwd", "/abs", "C:\\x", "CON", "a/b", "'; DROP TABLE events; --", "%", "_", "a*b>c",
                "$where", "x" * 256, "\u202e\u200b"):  # fmt: skip
        answer = open_service.client.post("/v1/events", json=kit.event(correlation_id=one))
        assert answer.status_code == 200, one
        found = open_service.client.get("/v1/events", params={"correlation_id": one}).json()["entries"]
        assert {entry["event"]["correlation_id"] for entry in found} == {one}
    names = {path.name.partition(".")[0] for path in Path(open_service.path).parent.iterdir()}
    assert names == {"runs"}


def test_check_20_two_ways_to_write_a_letter_are_one_id(open_service: Any, kit: Any) -> None:
    for one in ("caf\u00e9", "cafe\u0301"):
        open_service.client.post("/v1/events", json=kit.event(correlation_id=one))
    found = open_service.client.get("/v1/events", params={"correlation_id": "caf\u00e9"}).json()["entries"]
    assert [entry["sequence"] for entry in found] == [1, 2]


def test_check_21_a_hundred_thousand_keys_take_bounded_time(open_service: Any, kit: Any) -> None:
    many = {f"key-{number}": number for number in range(100_000)}
    colliding = {str(number * (2**61 - 1)): 0 for number in range(100_000)}
    for payload in (many, colliding):
        for body, headers in (
            (json.dumps(kit.event(payload=payload)).encode(), kit.JSON),
            (json.dumps(kit.event(payload=payload)).encode() + b"\n", kit.LINES),
        ):
            begin = time.monotonic()
            answer = open_service.client.post("/v1/events", content=body, headers=headers)
            assert answer.status_code == 200 and time.monotonic() - begin < 15
    unknown = json.dumps({**kit.event(), **many}).encode()
    answer = open_service.client.post("/v1/events", content=unknown, headers=kit.JSON)
    assert answer.status_code == 422 and len(answer.content) < 2_000
    query = "&".join(f"k{number}=1" for number in range(5_000))
    assert open_service.client.get(f"/v1/events?{query}").status_code == 400


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        b"GET /v1/head HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 53\r\n\r\n" + ONE,
        b"Content-Length: 53\r\nContent-Length: 5\r\n\r\n" + ONE,
        b"Content-Length: 53, 5\r\n\r\n" + ONE,
        b"Content-Length : 53\r\n\r\n" + ONE,
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5;" + b"x" * 70_000,
        b"X: a\x00b\r\n\r\n", b"X: a\rContent-Length: 9\r\n\r\n", b": x\r\n\r\n",
    ],
)  # fmt: skip
def test_check_23_a_request_that_two_would_read_differently_is_refused_and_the_connection_ends(
    open_service: Any, kit: Any, smuggled: bytes
) -> None:
    before = position(open_service)
    with kit.raw(open_service.url) as raw:
        raw.send(HEAD + b"Connection: close\r\n" + smuggled)
        answer = raw.answer()
    assert answer.count(b"HTTP/1.1") <= 1, answer
    assert status(answer) in (400, 501), answer
    assert position(open_service) == before


def test_check_23_huge_heads_are_refused(open_service: Any, kit: Any) -> None:
    for head in (b"GET /" + b"x" * 100_000, b"GET /v1/head HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 30_000,
                 b"GET /v1/head HTTP/1.1\r\nX: " + b"y" * 100_000, b"x" * 100_000, b"\x16\x03\x01\x02\x00" * 50,
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):  # fmt: skip
        with kit.raw(open_service.url) as raw:
            try:
                raw.send(head)
                raw.socket.shutdown(1)
            except OSError:
                pass
            assert status(raw.answer()) in (0, 400, 421, 505), head[:40]
    assert open_service.client.get("/healthz").status_code == 200


def test_check_13_a_refusal_reaches_a_client_that_first_sends_all_of_its_body(
    open_service: Any, kit: Any
) -> None:
    for path, kind, wanted in ((b"/v1/events", b"application/json", 413), (b"/v1/events", b"text/plain", 415),
                               (b"/v1/nothing", b"application/json", 404)):  # fmt: skip
        head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 9000000\r\n"
        with kit.raw(open_service.url) as raw:
            raw.send(head % (path, kind) + b"Connection: close\r\n\r\n")
            for _ in range(9):
                raw.send(b"x" * 1_000_000)
            assert status(raw.answer()) == wanted


def test_check_23_what_is_no_http_is_a_problem_like_any_other(open_service: Any, kit: Any) -> None:
    with kit.raw(open_service.url) as raw:
        raw.send(b"GET /v1/head HTTP/1.1\r\n\r\n")
        head, _, body = raw.answer().partition(b"\r\n\r\n")
    assert json.loads(body)["type"] == "urn:chatsnapshot:problem:framing"
    assert b"nosniff" in head and b"application/problem+json" in head and b"connection: close" in head


def test_check_23_what_is_no_http_behind_the_beginning_of_an_answer_ends_it_and_makes_no_line(
    limited: Any, kit: Any
) -> None:
    service = limited()
    with kit.raw(service.url) as raw:
        raw.send(
            NDJSON + b"Prefer: stream-results\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (len(ONE) + 1)
        )
        raw.send(ONE + b"\n\r\n")
        found = b""
        while b'"stored":1' not in found:
            found += raw.socket.recv(65_536)
        raw.send(b"zz\r\n")
        assert raw.answer() == b""
    assert "error" not in service.end()


def test_check_23_requests_behind_each_other_are_each_answered_in_order(open_service: Any, kit: Any) -> None:
    many = b"".join(
        b"GET /v1/events?limit=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % number
        for number in (0, 1, 0, 1) * 50
    )
    with kit.raw(open_service.url) as raw:
        raw.send(many + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = raw.answer()
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"400", b"200"] * 100 + [b"200"]


def test_check_24_far_times_are_taken_and_order_stays_that_of_positions(open_service: Any, kit: Any) -> None:
    for when in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59.999999Z"):
        told = open_service.client.post("/v1/events", json=kit.event(timestamp=when, correlation_id="far"))
        assert told.status_code == 200, told.text
    for bad in ("2026-01-01T00:00:00", "yesterday", "99999-01-01T00:00:00Z", 7, ""):
        answer = open_service.client.post("/v1/events", json=kit.event(timestamp=bad))
        assert answer.status_code == 422, bad
    entries = open_service.client.get("/v1/events?correlation_id=far").json()["entries"]
    assert [entry["sequence"] for entry in entries] == [1, 2, 3]
    assert sorted(entry["recorded_at"] for entry in entries) == [entry["recorded_at"] for entry in entries]
