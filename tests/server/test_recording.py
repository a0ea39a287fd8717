"""``POST /v1/events``: the answer comes after the commit, says what became of each event, and nothing is half-written."""

from __future__ import annotations

import gzip
import io
import json
import socket
import uuid
from typing import Any

import chatsnapshot

LINES = {"content-type": "application/x-ndjson"}


def event(number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "event_type": "execution.message",
        "correlation_id": "run-1",
        "payload": {"role": "user", "content": f"message {number}"},
        **more,
    }


def lines(*events: Any) -> bytes:
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in events)


def contents(path: Any) -> list[Any]:
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        return [entry.event.payload["content"] for entry in ledger.read()]


def test_one_event_is_durable_and_readable_when_it_is_answered(served: Any, tmp_path: Any) -> None:
    answer = served.client.post("/v1/events", json=event(7, event_id=str(uuid.uuid4())))
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["position"], told["sequence"], told["known"]) == (1, 1, False)
    served.kill()
    assert contents(tmp_path / "runs.db") == ["message 7"]


def test_the_same_event_again_gives_its_first_place_and_another_content_is_a_conflict(served: Any) -> None:
    one = event(1, event_id=str(uuid.uuid4()), timestamp="2026-01-01T00:00:00Z")
    first = served.client.post("/v1/events", json=one).json()
    again = served.client.post("/v1/events", json=one).json()
    assert again == {**first, "known": True}
    other = served.client.post("/v1/events", json={**one, "payload": {"content": "changed"}})
    assert other.status_code == 409
    assert other.json()["type"].endswith(":event-conflict") and other.json()["fields"] == ["payload"]


def test_an_array_is_stored_whole_or_not_at_all_and_says_which_event_is_bad(
    served: Any, tmp_path: Any
) -> None:
    bad = served.client.post("/v1/events", json=[event(0), event(1), {"event_type": "Not A Type"}])
    assert (bad.status_code, bad.json()["index"]) == (422, 2)
    good = served.client.post("/v1/events", json=[event(2), event(3)])
    assert good.json()["stored"] == 2 and [one["sequence"] for one in good.json()["results"]] == [1, 2]
    assert contents(tmp_path / "runs.db") == ["message 2", "message 3"]


def test_by_choice_the_rest_of_an_array_is_stored(served: Any, tmp_path: Any) -> None:
    answer = served.client.post(
        "/v1/events?on_error=continue", json=[event(0), {"event_type": "Not A Type"}, event(2)]
    )
    assert answer.status_code == 422
    told = answer.json()
    assert (told["stored"], told["failed"], told["failures"][0]["line"]) == (2, 1, 2)
    assert contents(tmp_path / "runs.db") == ["message 0", "message 2"]


def test_expected_sequence_is_kept_over_the_wire(served: Any) -> None:
    assert served.client.post("/v1/events?expected_sequence=0", json=event()).status_code == 200
    refused = served.client.post("/v1/events?expected_sequence=0", json=event())
    assert refused.status_code == 409
    assert (refused.json()["wanted"], refused.json()["found"]) == (0, 1)


def test_lines_are_counted_and_those_refused_are_named(served: Any, tmp_path: Any) -> None:
    answer = served.client.post(
        "/v1/events", content=lines(event(0), b"{nonsense", event(2), b"[]", event(4)), headers=LINES
    )
    assert answer.status_code == 422
    told = answer.json()
    assert (told["stored"], told["failed"], told["committed_through_line"]) == (3, 2, 5)
    assert [one["line"] for one in told["failures"]] == [2, 4]
    assert contents(tmp_path / "runs.db") == ["message 0", "message 2", "message 4"]


def test_lines_may_end_at_the_first_that_is_refused(served: Any, tmp_path: Any) -> None:
    answer = served.client.post(
        "/v1/events?on_error=stop", content=lines(event(0), b"{nonsense", event(2)), headers=LINES
    )
    assert (answer.status_code, answer.json()["stored"]) == (422, 1)
    assert contents(tmp_path / "runs.db") == ["message 0"]


def test_many_lines_without_a_length_are_taken_in_bounded_memory(served: Any) -> None:
    def body() -> Any:
        for start in range(0, 20_000, 500):
            yield lines(*(event(number) for number in range(start, start + 500)))

    answer = served.client.post("/v1/events", content=body(), headers=LINES, timeout=60)
    assert answer.json()["stored"] == answer.json()["last_position"] == 20_000


def test_results_come_as_they_are_committed_where_they_are_preferred(served: Any) -> None:
    content = lines(*(event(number) for number in range(2_500)), b"nonsense")
    with served.client.stream(
        "POST", "/v1/events", content=content, headers={**LINES, "Prefer": "stream-results"}
    ) as answer:
        told = [json.loads(line) for line in answer.iter_lines()]
    assert answer.status_code == 207
    assert [one["committed_through_line"] for one in told] == sorted(
        one["committed_through_line"] for one in told
    )
    assert told[-1]["done"] and (told[-1]["stored"], told[-1]["failed"]) == (2_500, 1)
    assert len(told) > 2


def test_a_body_that_breaks_off_stores_no_torn_line(served: Any, tmp_path: Any) -> None:
    whole, torn = lines(event(0)), json.dumps(event(1)).encode()[:-9]
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
            b"Content-Length: 100000\r\n\r\n" + whole + torn
        )
    served.client.get("/healthz")
    assert served.end() is not None
    assert contents(tmp_path / "runs.db") in ([], ["message 0"])


def test_compressed_bodies_are_taken_and_bombs_are_not(served: Any, tmp_path: Any) -> None:
    zipped = {"content-encoding": "gzip"}
    good = served.client.post(
        "/v1/events", content=gzip.compress(lines(event(0))), headers={**LINES, **zipped}
    )
    assert good.json()["stored"] == 1
    bomb = gzip.compress(b" " * 50_000_000)
    for headers in (LINES, {"content-type": "application/json"}):
        refused = served.client.post("/v1/events", content=bomb, headers={**headers, **zipped})
        assert refused.status_code == 413, refused.text
    damaged = served.client.post("/v1/events", content=b"no gzip", headers={**LINES, **zipped})
    assert damaged.status_code == 400
    unknown = served.client.post("/v1/events", content=b"x", headers={**LINES, "content-encoding": "br"})
    assert unknown.status_code == 415
    assert contents(tmp_path / "runs.db") == ["message 0"]


def test_what_is_no_strict_json_is_refused(served: Any, tmp_path: Any) -> None:
    json_type = {"content-type": "application/json"}
    deep = b'{"event_type":"a.b","correlation_id":"c","payload":' + b"[" * 100 + b"]" * 100 + b"}"
    for body in (
        b"", b"{", b"[1,", b"null", b'"x"', b"[[]]", b"\xff\xfe",
        b'{"event_type":"a.b","event_type":"a.c","correlation_id":"c"}',
        b'{"event_type":"a.b","correlation_id":"c","payload":NaN}',
        b'{"event_type":"a.b","correlation_id":"c","payload":"\\ud800"}',
        deep,
    ):  # fmt: skip
        answer = served.client.post("/v1/events", content=body, headers=json_type)
        assert answer.status_code == 400, (body[:60], answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    assert contents(tmp_path / "runs.db") == []


def test_what_is_too_large_or_of_another_kind_says_so(served: Any) -> None:
    json_type = {"content-type": "application/json"}
    assert served.client.post("/v1/events", content=b"[" * 9_000_000, headers=json_type).status_code == 413
    many = json.dumps([event()] * 1_001).encode()
    refused = served.client.post("/v1/events", content=many, headers=json_type)
    assert (refused.status_code, refused.json()["limit"]) == (413, "batch_events_max")
    assert (
        served.client.post("/v1/events", content=b"x", headers={"content-type": "text/plain"}).status_code
        == 415
    )
    assert served.client.post("/v1/events?on_error=maybe", json=event()).status_code == 400
    assert served.client.post("/v1/events?expected_sequence=-1", json=event()).status_code == 400


def test_fields_that_are_the_ledgers_own_are_refused(served: Any) -> None:
    for name in ("position", "sequence", "recorded_at", "leaf"):
        answer = served.client.post("/v1/events", json=event(0, **{name: 1}))
        assert (answer.status_code, answer.json()["path"]) == (422, name)


def test_secrets_are_taken_out_before_anything_is_stored(served: Any, tmp_path: Any) -> None:
    secret = "ghp_" + "a1B2" * 9
    served.client.post("/v1/events", json=event(0, payload={"content": f"token {secret}"}))
    assert secret not in contents(tmp_path / "runs.db")[0]
    assert secret.encode() not in (tmp_path / "runs.db").read_bytes()


def test_a_named_upload_that_is_sent_again_stores_nothing_twice_in_any_form(
    served: Any, tmp_path: Any
) -> None:
    events = [event(number) for number in range(5)]
    content = lines(*events)
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        ledger.ingest(io.BytesIO(content), name="monday")
    for _ in range(2):
        told = served.client.post("/v1/events?name=monday", content=content, headers=LINES).json()
        assert (told["stored"], told["known"]) == (0, 5)
    array = b"[" + content.strip().replace(b"\n", b",\n") + b"]"
    json_type = {"content-type": "application/json"}
    for how in ("", "&on_error=continue"):
        told = served.client.post(f"/v1/events?name=monday{how}", content=array, headers=json_type).json()
        assert (told["stored"], told["known"]) == (0, 5), how
    one = served.client.post("/v1/events?name=monday", content=content.split(b"\n")[0], headers=json_type)
    assert one.json()["known"]
    other = served.client.post("/v1/events?name=tuesday", content=content, headers=LINES).json()
    assert other["stored"] == 5
    refused = served.client.post("/v1/events?name=a%00b", content=content, headers=LINES)
    assert (refused.status_code, refused.json()["parameter"]) == (400, "name")


def test_lines_without_a_correlation_have_that_of_the_upload(served: Any) -> None:
    content = lines({"event_type": "a.b"}, event(1))
    told = served.client.post("/v1/events?correlation_id=upload", content=content, headers=LINES).json()
    assert told["stored"] == 2
    entries = served.client.get("/v1/events").json()["entries"]
    assert [entry["event"]["correlation_id"] for entry in entries] == ["upload", "run-1"]


def test_lines_are_committed_when_the_input_is_quiet_and_told_while_it_is_open(served: Any) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(
            b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Prefer: respond-async, stream-results\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        answer = connection.makefile("rb")
        for number in range(3):
            line = lines(event(number))
            connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            while True:
                got = answer.readline()
                if got.startswith(b"{") and json.loads(got)["committed_through_line"] == number + 1:
                    break
        connection.sendall(b"0\r\n\r\n")
        while not (got := answer.readline()).startswith(b'{"done":true'):
            pass
        assert json.loads(got)["stored"] == 3


def test_a_body_that_is_damaged_after_lines_were_stored_says_how_far_it_was_taken(served: Any) -> None:
    content = gzip.compress(lines(*(event(number) for number in range(3_000))))[:-20]
    answer = served.client.post("/v1/events", content=content, headers={**LINES, "content-encoding": "gzip"})
    told = answer.json()
    assert (answer.status_code, told["type"][-4:]) == (400, "gzip")
    assert (
        told["committed_through_line"] == told["stored"] == served.client.get("/v1/head").json()["position"]
    )


def test_more_failures_than_are_told_are_counted(served: Any) -> None:
    answer = served.client.post("/v1/events", content=b"[]\n" * 1_500, headers=LINES)
    told = answer.json()
    assert (len(told["failures"]), told["failures_left_out"], told["failed"]) == (1_000, 500, 1_500)


def test_with_expected_sequence_what_can_be_read_of_an_array_is_stored_whole(served: Any) -> None:
    bad = {"event_type": "Not A Type", "correlation_id": "run-1"}
    wanted = "/v1/events?on_error=continue&expected_sequence="
    answer = served.client.post(wanted + "0", json=[event(0), bad, event(2)])
    told = answer.json()
    assert (answer.status_code, told["stored"], told["failures"][0]["line"]) == (422, 2, 2)
    assert served.client.post(wanted + "0", json=[event(3)]).json()["found"] == 2
    several = served.client.post(wanted + "2", json=[event(3), event(4, correlation_id="run-2")])
    assert several.status_code == 409
    assert served.client.get("/v1/head").json()["position"] == 2


def test_parameters_that_are_not_known_or_given_twice_are_refused(served: Any) -> None:
    for query in ("color=red", "name=a&name=b", "expected_sequence=", "correlation_id="):
        answer = served.client.post(f"/v1/events?{query}", json=event())
        assert (answer.status_code, answer.json()["type"][-9:]) == (400, "parameter"), query
    refused = served.client.post("/v1/events?expected_sequence=0", content=lines(event()), headers=LINES)
    assert refused.status_code == 400
    assert served.client.get("/v1/head").json()["position"] == 0


def test_an_envelope_is_stored_as_it_is_and_one_that_lacks_something_as_arguments(served: Any) -> None:
    whole = event(
        1,
        event_id=str(uuid.uuid4()),
        timestamp="2026-01-01T00:00:00Z",
        source={"origin": "agent", "runtime": "ag2"},
        causation_id=None,
        payload={"$type": "decimal", "value": "1.10"},
    )
    for changed in ({}, {"event_id": None}, {"timestamp": None}, {"source": None}):
        assert served.client.post("/v1/events", json={**whole, **changed}).status_code in (200, 409), changed
    entries = served.client.get("/v1/events").json()["entries"]
    assert entries[0]["event"]["payload"] == whole["payload"]
    assert entries[1]["event"]["payload"] == {"$$type": "decimal", "value": "1.10"}
    number = served.client.post("/v1/events", json=event(2, schema_version=2.0, correlation_id=7))
    assert number.status_code == 200
    for wrong in ({"runtime": {}, "origin": "ui"}, {"origin": "mars"}, {"origin": "ui", "more": 1}):
        assert served.client.post("/v1/events", json=event(3, source=wrong)).status_code == 422
