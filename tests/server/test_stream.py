"""``GET /v1/stream``: from the past into the live end without a gap, over broken connections and slow readers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import chatsnapshot


def events(answer: Any) -> Iterator[tuple[str, int, Any]]:
    """The server-sent events of an answer: name, id, data."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            if "data" in fields:
                yield fields["event"], int(fields["id"]), json.loads(fields["data"])
            fields = {}


def record(served: Any, first: int, count: int) -> None:
    batch = [
        {"event_type": "execution.message", "correlation_id": f"run-{n % 2}", "payload": {"n": n}}
        for n in range(first, first + count)
    ]
    with httpx.Client(base_url=served.url, timeout=30) as client:
        assert client.post("/v1/events", json=batch).status_code == 200


def test_the_past_and_the_live_end_join_without_a_gap(served: Any) -> None:
    record(served, 0, 300)
    recording = threading.Thread(target=lambda: [record(served, 300 + n * 50, 50) for n in range(12)])
    positions = []
    with served.client.stream("GET", "/v1/stream?after=0") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        recording.start()
        for name, position, data in events(answer):
            assert name == "entry" and data["position"] == position
            positions.append(position)
            if position == 900:
                break
    recording.join()
    assert positions == list(range(1, 901))


def test_a_client_goes_on_where_its_connection_broke(served: Any) -> None:
    record(served, 0, 10)
    with served.client.stream("GET", "/v1/stream", headers={"Last-Event-ID": "7"}) as answer:
        found = events(answer)
        assert [next(found)[1] for _ in range(3)] == [8, 9, 10]
        record(served, 10, 2)
        assert [next(found)[1] for _ in range(2)] == [11, 12]


def test_commits_of_another_process_are_seen(served: Any, tmp_path: Any) -> None:
    with served.client.stream("GET", "/v1/stream?after=0") as answer:
        found = events(answer)
        with chatsnapshot.open(tmp_path / "runs.db") as ledger:
            ledger.record("execution.message", {"n": 1}, correlation_id="elsewhere")
        assert next(found)[2]["event"]["correlation_id"] == "elsewhere"


def test_a_filtered_stream_says_how_far_it_looked(served: Any) -> None:
    record(served, 0, 4)
    wanted = {"correlation_id": "run-1", "after": "0"}
    with served.client.stream("GET", "/v1/stream", params=wanted) as answer:
        found = events(answer)
        assert [next(found)[1] for _ in range(2)] == [2, 4]
        record(served, 4, 3)
        assert next(found)[1] == 6


def test_a_heartbeat_carries_the_position_that_was_looked_at(serve: Any, tmp_path: Any) -> None:
    served = serve("--ledger", tmp_path / "runs.db", "--heartbeat", "0.2")
    record(served, 0, 5)
    with served.client.stream("GET", "/v1/stream?after=0&correlation_id=nobody") as answer:
        assert next(events(answer)) == ("heartbeat", 5, {"position": 5})


@pytest.mark.parametrize("wrong", ["after=99", "after=x", "color=red", "origin=mars"])
def test_what_cannot_be_followed_is_a_problem(served: Any, wrong: str) -> None:
    answer = served.client.get(f"/v1/stream?{wrong}")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


@pytest.mark.parametrize("wrong", ["", "x", "-1", "99", "1e3"])
def test_a_last_event_id_that_is_no_place_is_named(served: Any, wrong: str) -> None:
    answer = served.client.get("/v1/stream", headers={"Last-Event-ID": wrong})
    assert (answer.status_code, answer.json()["parameter"]) == (400, "Last-Event-ID")


def test_a_client_that_reads_nothing_holds_up_nobody(served: Any) -> None:
    with served.client.stream("GET", "/v1/stream?after=0"):
        for n in range(10):
            record(served, n * 500, 500)
        with httpx.stream("GET", f"{served.url}/v1/stream?after=0", timeout=30) as answer:
            for _, position, _ in events(answer):
                if position == 5_000:
                    break
    assert served.client.get("/v1/head").json()["position"] == 5_000
