"""``GET /metrics``: text that a parser of Prometheus reads, numbers that add up, and no names that a client chooses."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from chatsnapshot.server.counting import BOUNDS_SECONDS, Counts, Durations
from chatsnapshot.server.exposition import Family, histogram, text_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def parse(text: str) -> tuple[Samples, dict[str, str]]:
    """A parser of the text format, written from its specification: samples, and the type of each family."""
    assert text.endswith("\n")
    samples: Samples = {}
    types: dict[str, str] = {}
    helped: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram")
            types[name] = kind
        else:
            found = _LINE.fullmatch(line)
            assert found, line
            name, inside, number = found.groups()
            labels: list[tuple[str, str]] = []
            rest = inside or ""
            while rest:
                one = _LABEL.match(rest)
                assert one, line
                labels.append((one[1], re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), one[2])))
                rest = rest[one.end() :]
            assert len(dict(labels)) == len(labels)
            family = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
            assert family in types and family in helped, name
            assert types[family] == "histogram" or family == name
            assert types[family] != "counter" or name.endswith("_total")
            key = (name, frozenset(labels))
            assert key not in samples
            samples[key] = float(number)
    return samples, types


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_the_numbers_are_those_of_what_was_done(served: Any) -> None:
    event = {"event_type": "execution.message", "correlation_id": "r", "payload": {"content": "x"}}
    for _ in range(2):
        served.client.post("/v1/events", json=[{**event, "idempotency_key": str(n)} for n in range(3)])
    served.client.post(
        "/v1/events", content=b'{"a":1}\n{"b":2}\n', headers={"content-type": "application/x-ndjson"}
    )
    served.client.post("/v1/events", content=b"{", headers={"content-type": "application/json"})
    served.client.get("/v1/head")
    served.client.get("/v1/ledgers/main/head")
    served.client.get("/nope/" + "x" * 50)
    served.client.request("BREW", "/v1/head")
    with served.client.stream("GET", "/v1/stream"):
        answer = served.client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples, types = parse(answer.text)
    assert value(samples, "chatsnapshot_events_recorded_total") == 3
    assert value(samples, "chatsnapshot_events_known_total") == 3
    requests = "chatsnapshot_http_requests_total"
    assert value(samples, requests, method="POST", route="/v1/events", status="200") == 2
    assert value(samples, requests, method="POST", route="/v1/events", status="422") == 1
    assert value(samples, requests, method="GET", route="/v1/ledgers/{ledger}/head", status="200") == 1
    assert value(samples, requests, method="GET", route="none", status="404") == 1
    assert value(samples, requests, method="other", route="none", status="405") == 1
    assert value(samples, "chatsnapshot_problems_total", kind="some-events-refused") == 1
    assert value(samples, "chatsnapshot_problems_total", kind="json") == 1
    assert value(samples, "chatsnapshot_head_position", ledger="main") == 3
    assert value(samples, "chatsnapshot_ledger_readable", ledger="main") == 1
    assert value(samples, "chatsnapshot_streams_open") == 1
    assert value(samples, "chatsnapshot_http_requests_open") == 2  # the stream, and this one
    assert value(samples, "chatsnapshot_http_held_bytes") == 0
    assert value(samples, "chatsnapshot_queue_events", ledger="main") == 0
    duration = "chatsnapshot_http_request_duration_seconds"
    assert types[duration] == "histogram"
    assert value(samples, duration + "_count", route="/v1/events") == 4
    assert value(samples, duration + "_bucket", route="/v1/events", le="+Inf") == 4


def test_a_histogram_counts_up_to_each_bound() -> None:
    durations = Durations()
    for seconds in (0.0, 0.001, 0.0011, 0.2, 30.0, 31.0, 1e6):
        durations.add(seconds)
    samples, _ = parse(text_of([histogram("h", "What.", "route", {"r": durations})]))
    found = [value(samples, "h_bucket", route="r", le=str(bound)) for bound in BOUNDS_SECONDS]
    assert found[:2] == [2, 3] and found[-1] == 5 and found == sorted(found)
    assert value(samples, "h_bucket", route="r", le="+Inf") == value(samples, "h_count", route="r") == 7
    assert math.isclose(value(samples, "h_sum", route="r"), 1_000_061.2021)


@pytest.mark.parametrize("text", ["plain", 'quo"te', "back\\slash", "line\nbreak", "\\n", "ü"])
def test_any_label_comes_back(text: str) -> None:
    samples, _ = parse(text_of([Family("m_total", "counter", "What.", [("", (("l", text),), 1)])]))
    assert value(samples, "m_total", l=text) == 1


def test_events_are_counted_from_any_thread_and_retries_apart() -> None:
    counts = Counts()
    counts.recorded(5, known=2)
    counts.recorded(1)
    assert (counts.events, counts.known) == (4, 2)
