"""CloudEvents: names and types of attributes as the specification and its extensions have them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Exported = Callable[..., bytes]


def batch(exported: Exported, ledger: Any, **options: Any) -> list[dict[str, Any]]:
    return json.loads(exported(ledger, "cloudevents", **options))  # type: ignore[no-any-return]


def test_names_are_lower_case_and_values_are_of_the_types_that_json_allows(
    story: Any, exported: Exported
) -> None:
    for event in batch(exported, story):
        for name, value in event.items():
            if name != "data":
                assert re.fullmatch("[a-z0-9]{1,20}", name)
                assert isinstance(value, (str, bool)) or -(2**31) <= value < 2**31
        assert event["specversion"] == "1.0"
        assert all(event[name] for name in ("id", "source", "type"))


def test_every_event_is_found_again(story: Any, exported: Exported) -> None:
    entries = list(story.read())
    events = batch(exported, story)
    for entry, event in zip(entries, events, strict=True):
        assert event["id"] == entry.event_id
        assert event["type"] == entry.event_type
        assert event["time"] == entry.timestamp
        assert event["correlationid"] == event["subject"] == entry.correlation_id
        assert event.get("causationid") == entry.causation_id
        assert (int(event["sequence"]), int(event["position"])) == (entry.sequence, entry.position)
        assert event["recordedtime"] == entry.recorded_at
        assert event["data"] == entry.payload
        source = {key: event.get(f"source{key}") for key in ("origin", "runtime", "name")}
        assert source == {
            "origin": entry.source.origin,
            "runtime": entry.source.runtime,
            "name": entry.source.name,
        }
        assert json.loads(event.get("eventattributes", "{}")) == entry.attributes


def test_sequences_order_as_text_and_as_numbers(ledger: Any, tell: Any, exported: Exported) -> None:
    for _ in range(11):
        tell("custom.thing", {})
    sequences = [event["sequence"] for event in batch(exported, ledger)]
    assert sequences == sorted(sequences)
    assert list(map(int, sequences)) == list(range(1, 12))


def test_an_erased_event_has_no_data_and_a_trace_is_told(ledger: Any, tell: Any, exported: Exported) -> None:
    tell("custom.thing", {"a": 1}, attributes={"trace_id": "ab" * 16, "span_id": "cd" * 8})
    ledger.erase([1], reason="asked for")
    first = batch(exported, ledger)[0]
    assert first["erased"] is True
    assert "data" not in first
    assert first["traceparent"] == f"00-{'ab' * 16}-{'cd' * 8}-00"


def test_a_runtime_of_any_text_leaves_the_source_a_uri(ledger: Any, tell: Any, exported: Exported) -> None:
    tell("custom.thing", {}, source={"origin": "agent", "runtime": "my runtime/2 ü"})
    assert batch(exported, ledger)[0]["source"] == "urn:chatsnapshot:agent:my%20runtime%2F2%20%C3%BC"


def test_extensions_have_the_names_and_types_of_the_examples_of_the_specification(
    story: Any, exported: Exported, shared_data: Path
) -> None:
    examples = shared_data / "cloudevents" / "spec_examples.jsonl"
    known: dict[str, type] = {}
    for line in examples.read_text(encoding="utf-8").splitlines():
        body = json.loads(line)["body"]
        for event in body if isinstance(body, list) else [body]:
            if isinstance(event, dict) and "specversion" in event:
                known.update({name: type(value) for name, value in event.items() if value is not None})
    ours = {
        name: type(value)
        for event in batch(exported, story)
        for name, value in event.items()
        if name != "data"
    }
    shared = ours.keys() & known.keys()
    assert shared >= {"specversion", "type", "source", "id", "time", "datacontenttype", "subject"}
    assert shared >= {"correlationid", "causationid", "sequence"}
    assert {name: ours[name] for name in shared} == {name: known[name] for name in shared}


def test_the_official_package_reads_every_element(story: Any, exported: Exported) -> None:
    http = pytest.importorskip(
        "cloudevents.core.bindings.http", reason="needs cloudevents (make test-runtimes)"
    )
    headers = {"content-type": "application/cloudevents+json"}
    for element, entry in zip(batch(exported, story), story.read(), strict=True):
        message = http.HTTPMessage(headers=headers, body=json.dumps(element).encode())
        event = http.from_http_event(message)
        assert event.get_id() == entry.event_id
        assert event.get_data() == entry.payload
        assert event.get_attributes()["correlationid"] == entry.correlation_id
