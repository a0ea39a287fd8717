"""Checks 9 to 12: several ledgers behind one service know nothing of each other."""

from __future__ import annotations

from typing import Any
from uuid import uuid4


def test_check_9_the_ledger_is_that_of_the_key_and_the_path_and_of_nothing_else(
    two: Any, key: Any, kit: Any
) -> None:
    of_a = kit.bearer(key("read", "ingest", ledgers=["a"]))
    assert two.client.post("/v1/ledgers/a/events", json=kit.event(), headers=of_a).status_code == 200
    for more in ({"X-Ledger": "b"}, {"Ledger": "b"}):
        assert two.client.get("/v1/ledgers/a/head", headers={**of_a, **more}).json()["position"] > 0
    assert (
        two.client.post("/v1/ledgers/a/events", json=kit.event(ledger="b"), headers=of_a).status_code == 422
    )
    foreign = two.client.get("/v1/ledgers/b/head", headers=of_a)
    missing = two.client.get("/v1/ledgers/nowhere/head", headers=of_a)
    assert foreign.status_code == 404 and foreign.content == missing.content
    for path in ("/v1/ledgers/b/events", "/v1/ledgers/b/store/append", "/v1/ledgers/b"):
        method = "PUT" if path.endswith("/b") else "POST"
        assert two.client.request(method, path, headers=of_a).status_code == 404


def test_check_42_names_that_are_paths_are_no_ledgers(two: Any, key: Any, kit: Any) -> None:
    every = kit.bearer(key("read", "admin"))
    for name in ("..", "%2e%2e", "a%2f..%2fb", "A", "a.db", "a%00", "%61%61", "~", "a%0d%0aX: y", "x" * 300):
        answer = two.client.get(f"/v1/ledgers/{name}/head", headers=every)
        assert answer.status_code == 404, name


def test_check_9_an_event_of_another_ledger_is_not_there(two: Any, key: Any, kit: Any) -> None:
    headers = kit.bearer(key("read", "ingest"))
    one = kit.event(event_id=str(uuid4()))
    assert two.client.post("/v1/ledgers/b/events", json=one, headers=headers).status_code == 200
    found = two.client.get(f"/v1/ledgers/a/events/{one['event_id']}", headers=headers)
    never = two.client.get(f"/v1/ledgers/a/events/{uuid4()}", headers=headers)
    assert found.status_code == never.status_code == 404 and kit.kind(found) == kit.kind(never)


def test_check_10_one_event_id_in_two_ledgers_is_two_events(two: Any, key: Any, kit: Any) -> None:
    headers = kit.bearer(key("read", "ingest"))
    same = str(uuid4())
    for name, n in (("a", 1), ("b", 2)):
        told = two.client.post(
            f"/v1/ledgers/{name}/events", json=kit.event(event_id=same, payload={"n": n}), headers=headers
        )
        assert told.status_code == 200 and told.json()["known"] is False
    for name, n in (("a", 1), ("b", 2)):
        entry = two.client.get(f"/v1/ledgers/{name}/events/{same}", headers=headers).json()
        assert entry["event"]["payload"] == {"n": n}


def test_check_11_each_ledger_has_a_tree_of_its_own_and_what_is_in_one_moves_no_other(
    two: Any, key: Any, kit: Any
) -> None:
    headers = kit.bearer(key("read", "ingest"))
    kit.until(
        lambda: two.client.get("/v1/ledgers/b/events?event_type=ledger.*", headers=headers).json()["entries"]
    )
    before = two.client.get("/v1/ledgers/b/head", headers=headers).json()
    for _ in range(5):
        two.client.post("/v1/ledgers/a/events", json=kit.event(), headers=headers)
    after = two.client.get("/v1/ledgers/b/head", headers=headers).json()
    ours = two.client.get("/v1/ledgers/a/head", headers=headers).json()
    assert before == after
    assert ours["root"] != after["root"] and ours["ledger_id"] != after["ledger_id"]


def test_check_11_a_key_of_one_ledger_sees_no_number_of_another(two: Any, key: Any, kit: Any) -> None:
    of_a = kit.bearer(key("read", ledgers=["a"]))
    text = two.client.get("/metrics", headers=of_a).text
    assert '"a"' in text and '"b"' not in text
    assert "chatsnapshot_events_recorded_total" not in text, "that counts the events of all"


def test_check_12_a_place_in_one_ledger_is_none_in_another(two: Any, key: Any, kit: Any) -> None:
    headers = kit.bearer(key("read", "ingest"))
    for _ in range(8):
        two.client.post("/v1/ledgers/a/events", json=kit.event(), headers=headers)
    answer = two.client.get("/v1/ledgers/b/stream", headers={**headers, "Last-Event-ID": "8"})
    assert (answer.status_code, kit.kind(answer)) == (400, "parameter")
    page = two.client.get("/v1/ledgers/b/events?after=8", headers=headers).json()
    assert page["entries"] == []
