"""``POST /v1/traces`` and ``/v1/logs``: durable and readable at the 200; no span harms another."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

import chatsnapshot

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
NOW = 1_790_000_000_000_000_000


def request(*spans: dict[str, Any]) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    scope.scope.name = "test"
    for number, facts in enumerate(spans, 1):
        span = scope.spans.add(
            trace_id=b"t" * 16,
            span_id=number.to_bytes(8, "big"),
            name=f"span {number}",
            start_time_unix_nano=NOW,
            end_time_unix_nano=NOW + 1_000,
        )
        for key, value in facts.items():
            if isinstance(value, float):
                span.attributes.add(key=key).value.double_value = value
            else:
                span.attributes.add(key=key).value.string_value = value
    return made


def names(path: Any) -> list[str]:
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        return [entry.payload["name"] for entry in ledger.read()]


def test_what_is_answered_is_durable_in_each_form(served: Any, tmp_path: Any) -> None:
    body = request({"a": "1"}).SerializeToString()
    answer = served.client.post("/v1/traces", content=body, headers=PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == PROTOBUF["content-type"]
    zipped = served.client.post(
        "/v1/ledgers/main/traces",
        content=gzip.compress(body),
        headers={**PROTOBUF, "content-encoding": "gzip"},
    )
    assert zipped.status_code == 200, zipped.text
    span = {"traceId": "AB" * 16, "spanId": "cd" * 8, "name": "json", "startTimeUnixNano": str(NOW)}
    sent = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    answer = served.client.post("/v1/traces", json=sent)
    assert (answer.status_code, answer.json()) == (200, {})
    assert served.client.get("/v1/head").json()["position"] == 2
    served.kill()
    assert names(tmp_path / "runs.db") == ["span 1", "json"]
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        last = list(ledger.read())[-1]
        assert last.correlation_id == "ab" * 16
        assert last.attributes == {"trace_id": "ab" * 16, "span_id": "cd" * 8}


def test_one_bad_span_is_counted_and_stops_no_other(served: Any, tmp_path: Any) -> None:
    made = request({}, {}, {})
    made.resource_spans[0].scope_spans[0].spans[1].trace_id = b"short"
    answer = served.client.post("/v1/traces", content=made.SerializeToString(), headers=PROTOBUF)
    assert answer.status_code == 200
    told = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert told.rejected_spans == 1 and "5" in told.error_message
    good = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "good"}
    bad = [
        {**good, "traceId": "xyz"},
        {**good, "spanId": "0" * 16},
        {**good, "startTimeUnixNano": -1},
        {**good, "name": 5},
        7,
    ]
    answer = served.client.post(
        "/v1/traces", json={"resourceSpans": [{"scopeSpans": [{"spans": [*bad, good]}]}]}
    )
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "5"
    assert names(tmp_path / "runs.db") == ["span 1", "span 3", "good"]


def test_a_span_again_with_other_content_is_refused_and_the_rest_is_taken(served: Any, tmp_path: Any) -> None:
    for _ in range(2):
        body = request({"a": "1"}).SerializeToString()
        assert served.client.post("/v1/traces", content=body, headers=PROTOBUF).content == b""
    answer = served.client.post(
        "/v1/traces", content=request({"a": "2"}, {}).SerializeToString(), headers=PROTOBUF
    )
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 1
    assert names(tmp_path / "runs.db") == ["span 1", "span 2"]


def deep(levels: int) -> str:
    """A span with an attribute that is nested so deep."""
    value = '{"arrayValue": {"values": [' * levels + '{"stringValue": "x"}' + "]}}" * levels
    attribute = f'{{"key": "deep", "value": {value}}}'
    return f'{{"traceId": "{"1" * 32}", "spanId": "{levels:016x}", "attributes": [{attribute}]}}'


BROKEN: list[tuple[str, bytes, dict[str, str], int, str]] = [
    ("no protobuf", b"\xff\xff\xff", PROTOBUF, 400, "otlp"),
    ("cut protobuf", request({"a": "b" * 100}).SerializeToString()[:-20], PROTOBUF, 400, "otlp"),
    ("no JSON", b"{", JSON, 400, "otlp"),
    ("another shape", b'{"resourceSpans": 5}', JSON, 400, "otlp"),
    ("a list", b"[]", JSON, 400, "otlp"),
    ("no UTF-8", b'{"resourceSpans": []} \xff', JSON, 400, "otlp"),
    ("another type", b"x", {"content-type": "text/plain"}, 415, "content-type"),
    ("no type", b"x", {}, 415, "content-type"),
    ("another encoding", b"x", {**PROTOBUF, "content-encoding": "br"}, 415, "content-encoding"),
    ("no gzip", b"x", {**PROTOBUF, "content-encoding": "gzip"}, 400, "gzip"),
    ("a bomb", gzip.compress(bytes(40_000_000)), {**PROTOBUF, "content-encoding": "gzip"}, 413, ""),
    ("too large", bytes(9_000_000), PROTOBUF, 413, "body-too-large"),
]


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_what_is_broken_has_its_status_and_leaves_nothing(served: Any, path: str) -> None:
    for what, body, headers, status, kind in BROKEN:
        if path == "/v1/logs" and what in ("another shape", "cut protobuf"):
            continue  # unknown keys and fields are passed over
        answer = served.client.post(path, content=body, headers=headers)
        assert answer.status_code == status, (what, answer.text)
        assert answer.headers["content-type"] == "application/problem+json", what
        assert kind in answer.json()["type"], (what, answer.text)
    assert served.client.get("/v1/head").json()["position"] == 0
    assert served.client.get("/v1/traces").status_code == 405


def test_values_that_are_hard_to_hold_are_taken(served: Any, tmp_path: Any) -> None:
    many = {f"key.{number}": "v" for number in range(100_000)}
    odd = {"nan": float("nan"), "inf": float("inf"), "$ref": "x", "nul": "a\x00b", "big": "y" * 300_000}
    for facts in (many, odd):
        made = request(facts)
        made.resource_spans[0].scope_spans[0].spans[0].span_id = len(facts).to_bytes(8, "big")
        answer = served.client.post(
            "/v1/traces", content=made.SerializeToString(), headers=PROTOBUF, timeout=60
        )
        assert (answer.status_code, answer.content) == (200, b""), answer.text
    for levels, status in ((50, 200), (100, 200), (100_000, 400)):
        body = f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{deep(levels)}]}}]}}]}}'
        answer = served.client.post("/v1/traces", content=body, headers=JSON)
        assert answer.status_code == status, answer.text
        assert ("partialSuccess" in answer.text) == (levels == 100)
    assert served.client.get("/healthz").status_code == 200
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        assert ledger.verify().ok
        first, second = list(ledger.read())[:2]
        assert len(first.value()["native"]["attributes"]) == 100_000
        facts = second.value()["native"]["attributes"]
        assert facts["$ref"] == "x" and facts["inf"] == float("inf") and len(facts["big"]) == 300_000


def test_logs_are_taken_in_protobuf(served: Any, tmp_path: Any) -> None:
    made = ExportLogsServiceRequest()
    record = made.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=NOW, severity_number=9)
    record.body.string_value = "hello"
    for _ in range(2):
        answer = served.client.post("/v1/logs", content=made.SerializeToString(), headers=PROTOBUF)
        assert (answer.status_code, answer.content) == (200, b"")
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        (entry,) = ledger.read()
        assert (entry.event_type, entry.payload["body"]) == ("otel.log", "hello")


def test_secrets_do_not_reach_the_store(served: Any, tmp_path: Any) -> None:
    key = "ghp_" + "aB3d" * 9
    body = request({"input.value": f"use {key}"}, {"password": "hunter2hunter2"}).SerializeToString()
    assert served.client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    served.end()
    for file in tmp_path.iterdir():
        assert key.encode() not in file.read_bytes() and b"hunter2" not in file.read_bytes(), file.name


def test_the_description_names_both(served: Any) -> None:
    paths = served.client.get("/v1/openapi.json").json()["paths"]
    for path in ("/v1/traces", "/v1/logs"):
        assert "application/x-protobuf" in json.dumps(paths[path]["post"])
