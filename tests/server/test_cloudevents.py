"""CloudEvents over HTTP, with the official SDK as client in each mode, and out again into another ledger unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from cloudevents.core.bindings.http import HTTPMessage, from_http_event, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

import chatsnapshot
from chatsnapshot.clock import foreign_uuid, uuid_text

STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
AT = datetime(2026, 11, 30, 2, 26, 3, 123456, tzinfo=timezone.utc)


def cloud_event(number: int = 0, data: Any = None, **more: Any) -> CloudEvent:
    return CloudEvent(
        {
            "specversion": "1.0",
            "id": f"order-{number}",
            "source": "https://example.com/orders",
            "type": "com.example.order_placed",
            "time": AT,
            "correlationid": "txn-1",
            **more,
        },
        {"n": number} if data is None else data,
    )


def document(number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"order-{number}",
        "source": "https://example.com/orders",
        "type": "com.example.order_placed",
        "time": "2026-11-30T02:26:03.123456Z",
        "correlationid": "txn-1",
        "data": {"n": number},
        **more,
    }


def post(served: Any, message: HTTPMessage, path: str = "/v1/cloudevents", **params: str) -> Any:
    return served.client.post(path, headers=message.headers, content=message.body, params=params)


def events(path: Path) -> list[Any]:
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        return [entry.event for entry in ledger.read()]


@pytest.mark.parametrize("path", ["/v1/cloudevents", "/v1/events", "/v1/ledgers/main/cloudevents"])
@pytest.mark.parametrize("write", [to_binary_event, to_structured_event])
def test_an_event_of_the_sdk_is_recorded_in_each_mode(
    served: Any, tmp_path: Path, path: str, write: Any
) -> None:
    sent = cloud_event(
        sourcename="Küche “zwei” 100%", traceparent=f"00-{'a' * 32}-{'b' * 16}-01", partitionkey="p 7"
    )
    answer = post(served, write(sent), path)
    assert answer.status_code == 200, answer.text
    (event,) = events(tmp_path / "runs.db")
    assert (
        event.event_id
        == answer.json()["event_id"]
        == uuid_text(foreign_uuid(sent.get_source(), sent.get_id()))
    )
    assert event.event_type == "com.example.order_placed"
    assert event.timestamp == "2026-11-30T02:26:03.123456Z"
    assert event.source == chatsnapshot.Source("integration", "cloudevents", "Küche “zwei” 100%")
    assert event.correlation_id == "txn-1" and event.causation_id is None
    assert event.attributes == {"trace_id": "a" * 32, "span_id": "b" * 16}
    assert event.payload == {
        "n": 0,
        "native": {
            "id": "order-0",
            "source": "https://example.com/orders",
            "type": "com.example.order_placed",
            "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
            "partitionkey": "p 7",
        },
    }


def test_the_same_id_and_source_is_one_event_in_whatever_mode_it_comes(served: Any) -> None:
    first = post(served, to_binary_event(cloud_event(attempts=3))).json()
    again = post(served, to_structured_event(cloud_event(attempts=3))).json()
    assert (first["known"], again) == (False, {**first, "known": True})
    other_source = post(served, to_structured_event(cloud_event(source="https://example.com/other"))).json()
    assert other_source["position"] == 2
    changed = post(served, to_structured_event(cloud_event(data={"n": "changed"}, attempts=3)))
    assert changed.status_code == 409
    assert changed.json()["type"].endswith(":event-conflict") and changed.json()["fields"] == ["payload"]


def test_what_leaves_one_ledger_becomes_equal_events_in_another(serve: Any, tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "from.db") as ledger:
        with ledger.run(correlation_id="run/ä", name="triage") as run:
            first = run.record(
                "execution.message",
                {"role": "user", "content": "Hi", "$odd": 1},
                attributes={"actor": "me", "n": ["a"]},
            )
            ledger.record(
                "tool_x.called",
                {"deep": {"a": [1.5, None]}},
                causation_id=first,
                schema_version=3,
                source={"origin": "ui", "runtime": "a:b%/c", "name": "Ärger"},
                correlation_id="run/ä",
            )
        ledger.record(
            "execution.output", {"native": {"time": "unknown"}, "b": b"\x00\x01"}, correlation_id="other"
        )
    out, into = serve("--ledger", tmp_path / "from.db"), serve("--ledger", tmp_path / "to.db")
    page = out.client.get("/v1/events?format=cloudevents")
    assert page.headers["content-type"] == "application/cloudevents-batch+json"
    for element in page.json():
        from_http_event(HTTPMessage(dict(STRUCTURED), json.dumps(element).encode()))  # the SDK reads each
    answer = into.client.post("/v1/cloudevents", headers=BATCH, content=page.content)
    assert (answer.status_code, answer.json()["stored"]) == (200, 5), answer.text
    again = into.client.post("/v1/events", headers=BATCH, content=page.content).json()
    assert (again["stored"], again["known"]) == (0, 5)
    # One by one in binary mode they are the same events too (the SDK would give the last one a time).
    for element in page.json()[:4]:
        sent = to_binary_event(from_http_event(HTTPMessage(dict(STRUCTURED), json.dumps(element).encode())))
        answer = post(into, sent)
        assert answer.status_code == 200 and answer.json()["known"], answer.text
    before, after = events(tmp_path / "from.db"), events(tmp_path / "to.db")
    assert before[:4] == after[:4]
    assert {before[4].event_id, before[4].payload_json} == {after[4].event_id, after[4].payload_json}
    assert served_times(into)[4] is None  # unknown stays unknown


def served_times(served: Any) -> list[str | None]:
    accept = {"accept": "application/cloudevents-batch+json"}
    return [one.get("time") for one in served.client.get("/v1/events", headers=accept).json()]


def test_a_batch_is_stored_whole_or_not_at_all_and_every_refused_event_is_told(
    served: Any, tmp_path: Path
) -> None:
    batch = [document(0), document(1, specversion="0.3"), document(2), document(3, correlationid=None)]
    answer = served.client.post("/v1/cloudevents", headers=BATCH, content=json.dumps(batch))
    assert answer.status_code == 422 and [one["index"] for one in answer.json()["failures"]] == [1, 3]
    assert events(tmp_path / "runs.db") == []
    assert served.client.post("/v1/cloudevents", headers=BATCH, content=b"[]").json()["stored"] == 0


def test_with_on_error_continue_the_others_of_a_batch_are_stored(served: Any, tmp_path: Path) -> None:
    batch = [document(0), document(1, id=""), document(2), document(0, data="changed")]
    answer = served.client.post("/v1/events?on_error=continue", headers=BATCH, content=json.dumps(batch))
    told = answer.json()
    assert (answer.status_code, told["stored"], told["failed"]) == (422, 2, 2), answer.text
    assert [one["index"] for one in told["failures"]] == [1, 3]
    assert [one.payload["n"] for one in events(tmp_path / "runs.db")] == [0, 2]
    good = served.client.post(
        "/v1/events?on_error=continue", headers=BATCH, content=json.dumps([document(0)])
    )
    assert (good.status_code, good.json()["known"]) == (200, 1)


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"specversion": "2.0"}, "specversion"),
        ({"specversion": 1.0}, "specversion"),
        ({"id": 7}, "id"),
        ({"id": ""}, "id"),
        ({"source": "not a uri"}, "source"),
        ({"type": None}, "type"),
        ({"time": "yesterday"}, "time"),
        ({"time": "2026-11-30T02:26:03"}, "time"),
        ({"Upper": "x"}, "Upper"),
        ({"with_line": "x"}, "with_line"),
        ({"nested": {"a": 1}}, "nested"),
        ({"half": 1.5}, "half"),
        ({"far": 2**31}, "far"),
        ({"data_base64": "AA=="}, "data_base64"),
        ({"data": None, "subject": ""}, "subject"),
        ({"datacontenttype": "no type"}, "datacontenttype"),
        ({"sourceorigin": "moon"}, "sourceorigin"),
        ({"schemaversion": 0}, "schemaversion"),
        ({"eventattributes": "[]"}, "eventattributes"),
        ({"name": "a\x07b"}, "name"),
    ],
)
def test_what_the_specification_forbids_is_refused_by_name(served: Any, more: Any, path: str) -> None:
    answer = served.client.post("/v1/cloudevents", headers=STRUCTURED, content=json.dumps(document(**more)))
    assert (answer.status_code, answer.json().get("path")) == (422, path), answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/cloudevents+xml"}, 415),
        ({"content-type": "application/cloudevents+json"}, 400),
        ({"content-type": "application/cloudevents-batch+json"}, 400),
    ],
)
def test_what_is_no_cloudevent_is_answered_with_the_types_that_are(
    served: Any, headers: Any, status: int
) -> None:
    answer = served.client.post("/v1/cloudevents", headers=headers, content=b"<x/>")
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_headers_are_decoded_once_and_quotes_are_undone(served: Any, tmp_path: Path) -> None:
    headers = {
        "ce-specversion": "1.0",
        "CE-ID": "a%2520b",
        "ce-source": "/s",
        "ce-type": "a.b",
        "ce-subject": '"two \\"words\\""',
        "ce-note": "%E2%82%AC%22",
        "content-type": "text/plain; charset=iso-8859-1",
    }
    answer = served.client.post("/v1/cloudevents", headers=headers, content="Größe".encode("latin-1"))
    assert answer.status_code == 200, answer.text
    (event,) = events(tmp_path / "runs.db")
    assert event.correlation_id == 'two "words"'
    assert event.payload["value"] == "Größe"
    assert event.payload["native"]["id"] == "a%20b" and event.payload["native"]["note"] == '€"'
    assert event.payload["native"]["time"] == "unknown"
    bad = served.client.post("/v1/cloudevents", headers={**headers, "ce-note": "%FF"}, content=b"x")
    assert bad.status_code in (400, 422)
    twice = served.client.post(
        "/v1/cloudevents", headers=[*headers.items(), ("ce-type", "b.c")], content=b"x"
    )
    assert (twice.status_code, twice.json()["path"]) == (422, "type")


def test_types_and_correlations_can_be_given_in_the_address(served: Any, tmp_path: Path) -> None:
    params = {"type_prefix": "com.example.", "correlation_id": "shop"}
    for number, kind in enumerate(
        ("com.example.execution.message", "com.example.Order-Placed", "com.example.order")
    ):
        sent = document(number, type=kind, correlationid=None)
        answer = served.client.post(
            "/v1/cloudevents", params=params, headers=STRUCTURED, content=json.dumps(sent)
        )
        assert answer.status_code == 200, answer.text
    found = events(tmp_path / "runs.db")
    assert [one.event_type for one in found] == [
        "execution.message", "cloudevents.order_placed", "com.example.order",
    ]  # fmt: skip
    assert [one.correlation_id for one in found] == ["shop"] * 3
    assert found[1].payload["native"]["type"] == "com.example.Order-Placed"
    assert found[0].source.origin == "agent"
    unknown = served.client.post(
        "/v1/cloudevents?prefix=x", headers=STRUCTURED, content=json.dumps(document())
    )
    assert unknown.status_code == 400


def test_a_cause_from_another_source_is_found_among_what_the_correlation_holds(
    served: Any, tmp_path: Path
) -> None:
    served.client.post("/v1/cloudevents", headers=STRUCTURED, content=json.dumps(document(1)))
    payment = document(2, source="https://example.com/payments", causationid="order-1")
    served.client.post("/v1/cloudevents", headers=STRUCTURED, content=json.dumps(payment))
    dangling = document(3, causationid="never-sent")
    served.client.post("/v1/cloudevents", headers=STRUCTURED, content=json.dumps(dangling))
    found = events(tmp_path / "runs.db")
    assert found[1].causation_id == found[0].event_id
    assert found[2].causation_id == uuid_text(foreign_uuid("https://example.com/orders", "never-sent"))
    assert found[2].payload["native"]["causationid"] == "never-sent"


def test_one_entry_and_the_live_end_come_as_cloudevents_too(served: Any) -> None:
    placed = served.client.post("/v1/cloudevents", headers=STRUCTURED, content=json.dumps(document(1))).json()
    one = served.client.get(
        f"/v1/events/{placed['event_id']}", headers={"accept": "application/cloudevents+json"}
    )
    read = from_http_event(HTTPMessage(dict(one.headers), one.content))
    assert read.get_id() == placed["event_id"] and read.get_attributes()["correlationid"] == "txn-1"
    assert read.get_attributes()["position"] == "1"
    with served.client.stream("GET", "/v1/stream?format=cloudevents&after=0") as answer:
        lines = answer.iter_lines()
        data = next(line for line in lines if line.startswith("data: "))
        assert json.loads(data[6:]) == one.json()
        served.client.post("/v1/cloudevents", headers=STRUCTURED, content=json.dumps(document(2)))
        live = json.loads(next(line for line in lines if line.startswith('data: {"spec'))[6:])
        assert live["position"] == "2" and live["data"]["n"] == 2


def test_a_batch_of_a_page_says_where_the_next_page_begins(served: Any) -> None:
    batch = json.dumps([document(number) for number in range(5)])
    served.client.post("/v1/cloudevents", headers=BATCH, content=batch)
    first = served.client.get("/v1/events?format=cloudevents&limit=3")
    assert len(first.json()) == 3 and first.headers["chatsnapshot-next-after"] == "3"
    rest = served.client.get("/v1/events?format=cloudevents&limit=3&after=3")
    assert len(rest.json()) == 2 and "chatsnapshot-next-after" not in rest.headers


def test_secrets_are_taken_out_of_data_and_attributes(served: Any, tmp_path: Path) -> None:
    key = "sk-proj-" + "Ab1" * 14
    sent = document(data={"token": key}, note=f"Bearer {key}")
    assert (
        served.client.post("/v1/cloudevents", headers=STRUCTURED, content=json.dumps(sent)).status_code == 200
    )
    assert key.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_what_was_answered_survives_kill_9(served: Any, tmp_path: Path) -> None:
    answer = post(served, to_binary_event(cloud_event(1, data=b"\x00\xff", datacontenttype="image/png")))
    assert answer.status_code == 200
    served.kill()
    (event,) = events(tmp_path / "runs.db")
    assert event.value()["value"] == b"\x00\xff"


def test_the_cases_of_the_conformance_project_are_taken(
    served: Any, tmp_path: Path, shared_data: Path
) -> None:
    cases = list(yaml.safe_load_all((shared_data / "cloudevents" / "v1_minimum.yaml").read_text()))
    for case in cases:
        attributes = {**case["ContextAttributes"]}
        kind, data = attributes.pop("datacontenttype"), case["Data"]
        headers = {f"ce-{name}": str(value) for name, value in attributes.items()} | {"content-type": kind}
        answer = served.client.post(
            "/v1/cloudevents?correlation_id=c", headers=headers, content=data.encode()
        )
        assert answer.status_code == 200, (case, answer.text)
    found = events(tmp_path / "runs.db")
    assert [one.payload.get("value", one.payload.get("msg")) for one in found] == [
        "Hello, World!\n", "Hello, 🌎!\n", "Hello, 🌎!", "Hello, 🌎!", ["Hello", "🌎!"], "<msg>Hello, 🌎!</msg>\n",
    ]  # fmt: skip


def test_the_examples_of_the_specification_are_taken_or_refused_with_a_reason(
    served: Any, shared_data: Path
) -> None:
    refused: dict[int, str] = {}
    taken = 0
    lines = (shared_data / "cloudevents" / "spec_examples.jsonl").read_text().splitlines()
    for number, line in enumerate(lines):
        body = json.loads(line)["body"]
        headers = BATCH if isinstance(body, list) else STRUCTURED
        params = {"correlation_id": f"c{number}"}
        answer = served.client.post(
            "/v1/cloudevents", params=params, headers=headers, content=json.dumps(body)
        )
        if answer.status_code == 409:  # several examples have one id and source
            continue
        assert answer.status_code in (200, 422), answer.text
        if answer.status_code == 200:
            taken += 1
        else:
            refused[number] = answer.json()["detail"]
    assert taken >= 15  # the others are parts of events, or break the rules to show what they forbid
    known = (
        "the CloudEvent has no",
        "is no base64",
        "subject is empty",
        "is not named",
        "not a JSON object",
        "must be text",
    )
    strange = {number: why for number, why in refused.items() if not any(one in why for one in known)}
    assert strange == {}


def test_the_service_answers_as_it_is_described(serve: Any, tmp_path: Path) -> None:
    served = serve("--ledger", "memory:")
    found = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/v1/openapi.json", "--seed", "1",
            "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,"
            "response_schema_conformance,negative_data_rejection",
            "--include-path-regex", "/cloudevents$", "--phases", "coverage,fuzzing", "--max-examples", "20", "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-4_000:] + found.stderr[-2_000:]
