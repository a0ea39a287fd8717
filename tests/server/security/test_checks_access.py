"""Checks 1 to 8: who is let in, what they may do, and what is said of it."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest

import chatsnapshot
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.server.access import Access
from chatsnapshot.server.routes import ENDPOINTS
from chatsnapshot.server.tries import Tries, network_of, source_of

WRONG = "csk_aaaaaaaa_" + "A" * 43


def facts(path: Path, event_type: str) -> list[dict[str, Any]]:
    with chatsnapshot.open(path, read_only=True) as ledger:
        return [dict(entry.event.payload) for entry in ledger.read(event_type=event_type)]


def test_check_1_whoever_brings_no_valid_key_gets_one_and_the_same_answer(
    keyed: Any, key: Any, kit: Any
) -> None:
    good = key("read")
    headers: list[Any] = [
        {},
        kit.bearer("x"),
        kit.bearer(good[:-1] + ("A" if good[-1] != "A" else "B")),
        {"Authorization": f"Basic {good}"},
        {"Authorization": good},
        [("Authorization", f"Bearer {good}"), ("Authorization", f"Bearer {good}")],
    ]
    answers = [keyed.client.get("/v1/head", headers=one) for one in headers]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
    assert keyed.client.get("/v1/head", headers=kit.bearer(good)).status_code == 200
    assert keyed.client.get("/v1/head", headers={"Authorization": f"bearer  {good}"}).status_code == 200


def test_check_1_an_unknown_id_costs_what_a_wrong_secret_costs(keys: Any) -> None:
    _, good = keys.create(["read"])
    wrong = good[:-43] + "A" * 43

    def seconds(text: str) -> float:
        begin = time.thread_time()  # without what others take on this machine
        for _ in range(50):
            keys.look_up(text)
        return time.thread_time() - begin

    seconds(wrong)
    ratios = [seconds(wrong) / seconds(WRONG) for _ in range(21)]
    assert 0.5 < median(ratios) < 2


def test_check_2_the_secret_is_in_no_log_no_ledger_and_no_answer(
    serve: Any, keys: Any, kit: Any, tmp_path: Path
) -> None:
    _, text = keys.create(["read", "ingest"], name="a name")
    secret = text[-43:]
    service = serve("--ledger", tmp_path / "runs.db", "--keys", keys.path)
    said = []
    for path in ("/v1/head", "/v1/events", "/v1/nothing", f"/v1/events?key={text}", f"/v1/events/{text}"):
        answer = service.client.get(path, headers=kit.bearer(text))
        said.append(answer.text + str(answer.headers))
    service.client.post("/v1/events", json=kit.event(payload={"authorization": f"Bearer {text}"}),
                        headers=kit.bearer(text))  # fmt: skip
    service.end()
    assert not [one for one in said if secret in one]
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes(), path


def test_check_3_each_route_is_for_its_scope_and_for_no_other(keyed: Any, key: Any, kit: Any) -> None:
    texts = {scope: key(scope) for scope in ("ingest", "read", "admin")}
    filled = {"event_id": "0" * 8 + "-0000-4000-8000-" + "0" * 12, "run": "r", "name": "sha256:" + "0" * 64}
    seen = set()
    for endpoint in ENDPOINTS:
        for prefix in ("/v1", "/v1/ledgers/main"):
            path = prefix + endpoint.path.format_map(
                {**dict.fromkeys(("kind", "view"), "timeline"), **filled}
            )
            for scope, text in texts.items():
                if endpoint.path == "/stream" and scope == "read":
                    path += "?after=x"
                answer = keyed.client.request(endpoint.method, path, headers=kit.bearer(text))
                seen.add(endpoint.scope)
                if endpoint.scope in (scope, "any"):
                    assert answer.status_code not in (401, 403), (endpoint.method, path, scope, answer.text)
                else:
                    assert (answer.status_code, kit.kind(answer)) == (403, "scope"), (path, scope)
    assert seen == {"ingest", "read", "admin", "any"}


def test_check_3_no_route_but_those_of_health_and_the_description_is_open(keyed: Any) -> None:
    for path in ("/healthz", "/readyz", "/v1/openapi.json"):
        answer = keyed.client.get(path)
        assert answer.status_code == 200 and "main" not in (answer.text if path != "/v1/openapi.json" else "")
    assert keyed.client.get("/metrics").status_code in (401, 404)
    for endpoint in ENDPOINTS:
        answer = keyed.client.request(endpoint.method, "/v1" + endpoint.path.format_map(_Anything()))
        assert answer.status_code == 401, endpoint.path


class _Anything(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "x"


def test_check_3_admin_stands_for_no_other_scope() -> None:
    access = Access(key="k", scopes=frozenset({"admin"}), ledgers=frozenset({"a"}))
    assert access.allows("admin", "a") and access.allows("any", "a")
    assert not (access.allows("read", "a") or access.allows("ingest", "a") or access.allows("admin", "b"))


def test_check_4_a_revoked_key_is_refused_at_once_and_its_open_stream_and_upload_end(
    serve: Any, keys: Any, kit: Any, tmp_path: Path
) -> None:
    made, text = keys.create(["read", "ingest"])
    _, other = keys.create(["ingest"])
    service = serve("--ledger", tmp_path / "runs.db", "--keys", keys.path, "--heartbeat", "0.3")
    line = b'{"event_type":"execution.message","correlation_id":"u","payload":1}\n'
    piece = f"{len(line):x}\r\n".encode() + line + b"\r\n"
    head = f"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {text}\r\n"
    head += "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    with httpx.Client(base_url=service.url, timeout=30, headers=kit.bearer(text)) as client:
        with client.stream("GET", "/v1/stream?after=0") as stream:
            found = stream.iter_raw()
            assert b"retry" in next(found)
            with kit.raw(service.url) as raw:
                raw.send(head.encode() + piece)
                keys.revoke(made.id)
                while not select.select([raw.socket], [], [], 0.1)[
                    0
                ]:  # until it is answered, though it goes on
                    raw.send(piece)
                assert b" 401 " in raw.socket.recv(65_536)[:20]
            for _ in found:
                pass  # it ends
        assert client.get("/v1/head").status_code == 401
    before = service.client.post("/v1/events", json=kit.event(), headers=kit.bearer(other)).json()["position"]
    assert before < 60


def test_check_4_all_processes_of_a_file_of_keys_refuse_a_revoked_one(
    serve: Any, keys: Any, kit: Any, command: Any, tmp_path: Path
) -> None:
    services = [serve("--ledger", tmp_path / "runs.db", "--keys", keys.path) for _ in range(2)]
    made, text = keys.create(["read"])
    assert [one.client.get("/v1/head", headers=kit.bearer(text)).status_code for one in services] == [
        200,
        200,
    ]
    assert command("keys", "revoke", made.id, "--keys", keys.path).returncode == 0
    assert [one.client.get("/v1/head", headers=kit.bearer(text)).status_code for one in services] == [
        401,
        401,
    ]


def test_check_5_a_key_in_a_url_is_refused_whatever_it_is_called(keyed: Any, key: Any, kit: Any) -> None:
    text = key("read")
    for query in (f"key={text}", f"API_KEY={text}", f"color={text}", f"to%6ben={text}", "access_token=x",
                  f"a=1&authorization=Bearer+{text}", f"x={text.replace('_', '%5F')}"):  # fmt: skip
        answer = keyed.client.get(f"/v1/events?{query}", headers=kit.bearer(text))
        assert (answer.status_code, kit.kind(answer)) == (400, "key-in-url"), query
        assert text[-43:] not in answer.text
    assert kit.kind(keyed.client.get(f"/v1/events/{text}", headers=kit.bearer(text))) == "key-in-url"


def test_check_6_five_wrong_keys_are_sent_away_with_one_fact_and_a_right_one_is_let_in(
    keyed: Any, key: Any, kit: Any, tmp_path: Path
) -> None:
    text = key("read")
    answers = [keyed.client.get("/v1/head", headers=kit.bearer(WRONG)) for _ in range(12)]
    assert [one.status_code for one in answers] == [401] * 5 + [429] * 7
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 61
    assert kit.kind(answers[-1]) == "tries"
    assert keyed.client.get("/v1/head").status_code == 401, "no key is no try"
    assert keyed.client.get("/v1/head", headers=kit.bearer(text)).status_code == 200
    keyed.end()
    assert facts(tmp_path / "runs.db", "ledger.access_refused") == [{"tries": 5, "network": "127.0.0.0/24"}]


def test_check_6_counting_is_bounded_by_address_and_by_time() -> None:
    now = [0.0]
    tries = Tries(5, 60.0, 100, clock=lambda: now[0])
    for number in range(10_000):
        tries.wrong(f"10.0.{number // 256}.{number % 256}")
    assert len(tries) == 100
    assert [tries.wrong("x")[0] for _ in range(3)] == [1, 2, 3]
    now[0] = 61.0
    assert tries.wrong("x") == (1, 60.0)
    assert source_of("2001:db8::1") == source_of("2001:db8::ffff:2") != source_of("2001:db8:0:1::1")
    assert source_of("::ffff:192.0.2.7") == source_of("192.0.2.7") == "192.0.2.7/32"
    assert network_of("192.0.2.7") == "192.0.2.0/24" and network_of("nonsense") == "unknown"


def test_check_7_what_is_done_with_keys_is_a_fact_of_the_ledgers_concerned(
    two: Any, keys: Any, kit: Any, command: Any, tmp_path: Path
) -> None:
    done = command("keys", "create", "--scope", "read", "--for-ledger", "a", "--name", "reader",
                   "--expires", "90d", "--keys", keys.path)  # fmt: skip
    text = done.stdout.strip()
    key_id = text.split("_")[1]
    command("keys", "revoke", key_id, "--keys", keys.path)
    kit.until(lambda: facts(tmp_path / "a.db", "ledger.key_revoked"))
    (made,) = facts(tmp_path / "a.db", "ledger.key_created")
    (gone,) = facts(tmp_path / "a.db", "ledger.key_revoked")
    assert made.keys() == {"key_id", "name", "scopes", "expires_at", "by"}
    assert (made["key_id"], made["name"], made["scopes"]) == (key_id, "reader", ["read"])
    assert gone["key_id"] == key_id and gone["by"].startswith("user ")
    two.end()
    assert facts(tmp_path / "b.db", "ledger.*") == []


def test_check_7_an_act_is_stated_once_however_often_the_service_begins(
    serve: Any, keys: Any, tmp_path: Path
) -> None:
    keys.create(["read"], name="one")
    for _ in range(2):
        serve("--ledger", tmp_path / "runs.db", "--keys", keys.path).end()
    serve("--ledger", tmp_path / "runs.db", "--keys", keys.path).kill()
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        assert len(facts(tmp_path / "runs.db", "ledger.key_created")) == 1
        assert ledger.verify().ok
        for own in (
            "ledger.key_created",
            "ledger.key_revoked",
            "ledger.access_refused",
            "ledger.entries_read",
        ):
            with pytest.raises(InvalidEvent, match="by the ledger itself"):
                ledger.record(own, {"key_id": "x"}, correlation_id="ledger")


def test_check_7_reads_are_stated_by_choice_and_following_them_makes_no_more(
    serve: Any, keys: Any, kit: Any, tmp_path: Path
) -> None:
    made, text = keys.create(["read"], ledgers=["main"])
    service = serve("--ledger", tmp_path / "runs.db", "--keys", keys.path, "--audit-reads")
    with httpx.Client(base_url=service.url, timeout=30, headers=kit.bearer(text)) as client:
        after = 0
        for _ in range(20):  # what was read grows by what is stated of it, but not without end
            page = client.get(f"/v1/events?after={after}").json()
            after = max([after, *(entry["position"] for entry in page["entries"])])
        client.get("/v1/events/00000000-0000-4000-8000-000000000000?x=secret")
    service.end()
    read = facts(tmp_path / "runs.db", "ledger.entries_read")
    assert [one["path"] for one in read] == ["/events", "/events/00000000-0000-4000-8000-000000000000"]
    assert {one["key_id"] for one in read} == {made.id}


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_check_8_without_keys_only_loopback_is_listened_on(command: Any, tmp_path: Path, host: str) -> None:
    done = command("serve", "--host", host, "--port", 0, "--ledger", tmp_path / "runs.db")
    assert done.returncode == 1 and "chatsnapshot keys create" in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "runs.db").exists()


def test_check_8_keys_that_cannot_be_read_let_nobody_in(
    command: Any, keyed: Any, keys: Any, kit: Any, key: Any
) -> None:
    text = key("read")
    assert keyed.client.get("/v1/head", headers=kit.bearer(text)).status_code == 200
    Path(keys.path).rename(keys.path + ".away")
    answer = keyed.client.get("/v1/head", headers=kit.bearer(text))
    assert (answer.status_code, kit.kind(answer)) == (503, "keys-unavailable")
    assert "keys.db" not in answer.text
    Path(keys.path + ".away").rename(keys.path)
    assert keyed.client.get("/v1/head", headers=kit.bearer(text)).status_code == 200
    missing = command("serve", "--port", 0, "--keys", keys.path + ".none")
    assert missing.returncode == 1 and "keys create" in missing.stderr


def test_a_key_of_another_machine_reaches_what_the_service_listens_on(
    serve: Any, keys: Any, kit: Any, key: Any, tmp_path: Path
) -> None:
    service = serve("--host", "0.0.0.0", "--ledger", tmp_path / "runs.db", "--keys", keys.path)
    port = service.url.rpartition(":")[2]
    answer = httpx.get(f"http://127.0.0.1:{port}/v1/head", headers=kit.bearer(key("read")))
    assert answer.status_code == 200


def test_the_command_shows_a_key_once_and_no_secret_again(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.db"
    made = command("keys", "create", "--scope", "read", "--keys", path)
    text = made.stdout.strip()
    assert made.returncode == 0 and text.startswith("csk_") and text not in made.stderr
    listed = command("keys", "list", "--keys", path), command("keys", "list", "--json", "--keys", path)
    revoked = command("keys", "revoke", text, "--keys", path)  # by the whole key, by mistake
    again = command("keys", "revoke", text[:12] + "x" + text[13:], "--keys", path)
    for done in (*listed, revoked, again):
        assert text[-43:] not in done.stdout + done.stderr
        assert "csk" not in done.stderr or done.returncode == 1
    assert revoked.returncode == 0 and "refused since" in revoked.stdout
    assert command("keys", "list").returncode == 1
    wrong = command("keys", "create", "--scope", "everything", "--keys", path)
    assert wrong.returncode == 1


def test_a_bad_use_of_the_command_is_one_sentence(command: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.db"
    for arguments in (
        ("keys", "create", "--scope", "read", "--expires", "soon", "--keys", path),
        ("keys", "list", "--keys", path),
        ("serve", "--tls-cert", path),
        ("serve", "--host-name", "a:1"),
        ("serve", "--audit-reads"),
    ):
        done = command(*arguments)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, (arguments, done.stderr)


def test_the_parts_of_the_command_load_no_server_for_help() -> None:
    program = (
        "import sys\nfrom chatsnapshot.cli.commands import keys\n"
        "sys.exit(any(name.startswith(('starlette', 'uvicorn', 'apsw')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
