"""Checks 25 to 29, and those of 42 to 54 that are about the service: what clients cannot change, forge or find out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import chatsnapshot
from chatsnapshot.errors import (
    CommitUncertain,
    Corrupt,
    LedgerClosed,
    LedgerError,
    ReadOnly,
    StoreFull,
    StorePoisoned,
    StoreUnavailable,
)
from chatsnapshot.server.problems import problem_of
from chatsnapshot.server.routes import ENDPOINTS

NOT_THERE = "00000000-0000-4000-8000-000000000000"


def test_check_25_the_same_event_again_has_its_place_and_another_one_of_its_id_is_refused(
    open_service: Any, kit: Any
) -> None:
    one = kit.event(event_id=str(uuid4()), timestamp="2026-01-01T00:00:00Z")
    first = open_service.client.post("/v1/events", json=one).json()
    assert open_service.client.post("/v1/events", json=one).json() == {**first, "known": True}
    other = open_service.client.post("/v1/events", json={**one, "payload": {"n": 2}})
    assert (other.status_code, kit.kind(other)) == (409, "event-conflict")
    assert '"n"' not in other.text, "what is recorded is not told to who may only record"


def test_check_26_what_is_the_ledgers_own_is_not_taken_from_a_client(open_service: Any, kit: Any) -> None:
    for name in (
        "position",
        "sequence",
        "recorded_at",
        "leaf",
        "salt",
        "commitment",
        "known",
        "ledger",
        "seq",
    ):
        answer = open_service.client.post("/v1/events", json=kit.event(**{name: 1}))
        assert (answer.status_code, answer.json()["path"]) == (422, name)
    for own in ("ledger.payload_erased", "ledger.promoted", "ledger.key_created", "ledger.entries_read"):
        for correlation in ("ledger", "run-1"):
            answer = open_service.client.post(
                "/v1/events", json=kit.event(event_type=own, correlation_id=correlation)
            )
            assert (answer.status_code, kit.kind(answer)) == (422, "invalid-event"), own


def test_check_27_nothing_that_is_recorded_can_be_changed_by_any_method(open_service: Any, kit: Any) -> None:
    told = open_service.client.post("/v1/events", json=kit.event()).json()
    allowed = {("/events", "POST"), ("/events", "GET"), ("", "PUT")}
    for path in ("/events", f"/events/{told['event_id']}", "/runs/run-1", "/head", "/stream"):
        for method in ("PUT", "PATCH", "DELETE", "POST", "TRACE", "CONNECT", "PROPFIND", "x"):
            if (path, method) in allowed:
                continue
            answer = open_service.client.request(method, f"/v1{path}")
            assert answer.status_code == 405, (method, path, answer.text)
            assert "GET" in answer.headers["allow"] and kit.kind(answer)
    for method in ("PUT", "PATCH", "DELETE"):
        answer = open_service.client.request(
            "POST", f"/v1/events/{told['event_id']}", headers={"X-HTTP-Method-Override": method}
        )
        assert answer.status_code == 405
    assert {one.method for one in ENDPOINTS} <= {"GET", "POST", "PUT"}


def test_check_28_an_acknowledgement_says_where_the_event_stands(open_service: Any, kit: Any) -> None:
    told = open_service.client.post("/v1/events", json=kit.event()).json()
    entry = open_service.client.get(f"/v1/events/{told['event_id']}").json()
    assert {name: entry[name] for name in ("position", "sequence", "recorded_at", "leaf")} == {
        name: told[name] for name in ("position", "sequence", "recorded_at", "leaf")
    }


def test_check_42_no_path_reaches_a_file(open_service: Any) -> None:
    for path in ("/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1/blobs/..%2f..%2fetc%2fpasswd",
                 "//etc/passwd", "/v1/blobs/sha256:../../x",
                 "/v1/events/..%2f..%2fx", "/static/x", "/.env", "/v1/ledgers/%2e%2e/head"):  # fmt: skip
        answer = open_service.client.get(path)
        assert answer.status_code in (400, 404) and "root:" not in answer.text, path


def test_check_43_a_ledger_of_the_service_is_for_its_owner_alone(open_service: Any) -> None:
    for path in Path(open_service.path).parent.glob("runs.db*"):
        if not path.name.endswith(".lock"):  # empty, and locked by every process that records
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    "text",
    ["'; DROP TABLE events; --", "' OR '1'='1", '" OR ""="', "%", "_", "\\", "NEAR(", "a*", '"', "{", "$where", ">", "*",
     '{"$gt":""}', "x') UNION SELECT name FROM sqlite_master --", "-", "a AND", "\u0000", "col:a", "^a"],
)  # fmt: skip
def test_checks_44_and_45_what_is_looked_for_is_text_and_never_a_query(
    open_service: Any, kit: Any, text: str
) -> None:
    open_service.client.post(
        "/v1/events", json=kit.event(correlation_id="hidden", payload={"content": "hidden"})
    )
    for path, name in (
        ("/v1/events", "correlation_id"), ("/v1/events", "runtime"), ("/v1/events", "name"),
        ("/v1/events", "attribute.a"), ("/v1/search", "q"), ("/v1/events", "event_type"),
        ("/v1/stream", "event_type"), ("/v1/runs", "until"),
    ):  # fmt: skip
        if path == "/v1/stream" and text == "*":
            continue
        answer = open_service.client.get(
            path, params={name: text, **({"after": "x"} if "stream" in path else {})}
        )
        assert answer.status_code in (200, 400), (path, text, answer.text)
        found = answer.json() if answer.status_code == 200 else {}
        if path == "/v1/events" and (name, text) != ("event_type", "*"):
            assert not found.get("entries"), (name, text)
    for order in ("position; DROP TABLE x", "payload_json", "1"):
        assert open_service.client.get("/v1/search", params={"q": "a", "order": order}).status_code == 400
    assert open_service.client.get("/v1/verify").json()["ok"]


def test_check_49_secrets_are_taken_out_before_anything_is_stored_or_answered(
    open_service: Any, kit: Any
) -> None:
    secret = "ghp_" + "a1B2" * 9
    body = kit.event(payload={"content": f"use {secret}"}, correlation_id="redacted")
    told = open_service.client.post("/v1/events", json=body)
    line = open_service.client.post(
        "/v1/events", content=(str(body).replace("'", '"') + "\n").encode(), headers=kit.LINES
    )
    assert told.status_code == line.status_code == 200
    found = open_service.client.get("/v1/events?correlation_id=redacted").text
    assert secret not in found + told.text + line.text
    for path in Path(open_service.path).parent.glob("runs.db*"):
        assert secret.encode() not in path.read_bytes()
    wrong = open_service.client.post(
        "/v1/events", json=kit.event(event_type="Bad Type", payload={"k": secret})
    )
    assert secret not in wrong.text


def test_check_52_no_answer_holds_a_password_or_a_path_of_the_machine(
    serve: Any, kit: Any, tmp_path: Path
) -> None:
    service = serve("--ledger", tmp_path / "runs.db")
    assert service.client.post("/v1/events", json=kit.event()).status_code == 200
    said = [
        service.client.get(path).text
        for path in ("/readyz", "/v1/head", "/v1/events", "/v1/nothing", "/v1/openapi.json")
    ]
    assert str(tmp_path) not in "".join(said)


@pytest.mark.parametrize(
    "error", [StoreFull, StoreUnavailable, StorePoisoned, CommitUncertain, LedgerClosed, ReadOnly, Corrupt, LedgerError]
)  # fmt: skip
@pytest.mark.parametrize("place", ["/srv/agents/runs.db", "/srv/My Ledgers/2026/runs.db"])
def test_check_52_what_a_store_says_of_itself_loses_its_folders(error: type[LedgerError], place: str) -> None:
    detail = problem_of(
        error(f"the commit to {place} failed (IOError: {place} is full), so it is open")
    ).detail
    assert detail.startswith("the commit to runs.db failed (IOError: runs.db is full), so it is open")


def test_check_52_the_address_of_a_server_and_what_is_no_path_stay() -> None:
    said = "postgresql://db.example/agents: 3/4 of the connections are used, see https://a.example/b/c"
    assert problem_of(StoreUnavailable(said)).detail == said


def test_an_uncertain_commit_is_told_in_the_words_of_http() -> None:
    said = problem_of(
        CommitUncertain("the commit failed, so it is open; retry with record_many(error.events)")
    )
    assert (
        said.detail
        == "the commit failed, so it is open: send them again with the same ids, and each is stored once"
    )


def test_check_53_nothing_that_a_client_sends_as_a_place_makes_the_service_fail(open_service: Any) -> None:
    begin = time.monotonic()
    for path in ("/v1/events", "/v1/stream", "/v1/runs", "/v1/search?q=a", "/v1/metrics", "/v1/events/x", "/v1/blobs/x",
                 "/v1/runs/run-1/timeline", "/v1/verify", "/v1/head"):  # fmt: skip
        for name in ("after", "until", "limit", "require", "budget", "last"):
            for value in ("-1", "9" * 400, "1e3", "0x1", "\u0661", "1 ", "", "null", "NaN", "9007199254740993",
                          "2026-13-45T99:99:99Z", "a" * 5_000, "\U0001f600"):  # fmt: skip
                if "stream" in path and (name, value) == ("after", ""):
                    continue
                mark = "&" if "?" in path else "?"
                answer = open_service.client.get(f"{path}{mark}{name}={value}")
                assert answer.status_code in (400, 404, 422), (path, name, value, answer.text)
    assert time.monotonic() - begin < 60


def test_check_29_a_head_that_was_told_is_not_taken_back_by_a_kill(
    serve: Any, kit: Any, tmp_path: Path
) -> None:
    service = serve("--ledger", tmp_path / "runs.db")
    for _ in range(5):
        service.client.post("/v1/events", json=kit.event())
    before = service.client.get("/v1/head").json()
    service.kill()
    again = serve("--ledger", tmp_path / "runs.db")
    assert again.client.get("/v1/head").json() == before
    again.end()
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        assert ledger.verify().ok
