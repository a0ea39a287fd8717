"""The service starts, says where, answers, and ends in order."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import chatsnapshot
from chatsnapshot.server.serving import GRACE_SECONDS


def test_it_says_where_it_is_and_answers_there(served: Any) -> None:
    assert served.client.get("/healthz").text == "ok\n"
    assert served.client.get("/readyz").text == "ready\n"


def test_the_head_is_that_of_the_ledger(served: Any, tmp_path: Any) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        for number in range(3):
            ledger.record("execution.message", {"content": str(number)}, correlation_id="run-1")
        report = ledger.verify()
    found = served.client.get("/v1/head").json()
    assert (found["position"], found["root"], found["ledger_id"]) == (3, report.root, ledger.ledger_id)


def test_several_ledgers_have_names(serve: Any, tmp_path: Any) -> None:
    service = serve("--ledger-named", f"a={tmp_path / 'a.db'}", "--ledger-named", f"b={tmp_path / 'b.jsonl'}")
    ids = [service.client.get(f"/v1/ledgers/{name}/head").json()["ledger_id"] for name in "ab"]
    assert len(set(ids)) == 2
    assert service.client.get("/v1/head").json()["type"] == "urn:chatsnapshot:problem:which-ledger"


def test_every_refusal_is_a_problem_of_one_shape(served: Any) -> None:
    for method, path, status in (
        ("GET", "/nope", 404), ("DELETE", "/v1/head", 405), ("GET", "/v1/ledgers/x/head", 404)
    ):  # fmt: skip
        answer = served.client.request(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json().keys() >= {"type", "title", "status", "detail"}


@pytest.mark.parametrize("kind", ["jsonl", "memory", "postgresql"])
def test_any_store_is_served(serve: Any, tmp_path: Any, servers: Any, require: Any, kind: str) -> None:
    if kind == "postgresql":
        server = servers(kind)
        require(not isinstance(server, Exception), str(server))
        url = f"{server.url}&ledger=served"
    else:
        url = "memory:" if kind == "memory" else str(tmp_path / "runs.jsonl")
    service = serve("--ledger-named", f"a={url}", "--ledger-named", f"b={tmp_path / 'b.db'}")
    event = {"event_type": "execution.message", "correlation_id": "run-1", "payload": {"content": "refund"}}
    lines = b"".join(json.dumps({**event, "idempotency_key": str(n)}).encode() + b"\n" for n in range(30))
    with service.client.stream("GET", "/v1/ledgers/a/stream?after=0") as stream:
        told = service.client.post(
            "/v1/ledgers/a/events", content=lines, headers={"content-type": "application/x-ndjson"}
        ).json()
        assert (told["stored"], told["last_position"]) == (30, 30)
        ids = (int(line[4:]) for line in stream.iter_lines() if line.startswith("id: "))
        assert [next(ids) for _ in range(30)] == list(range(1, 31))
    assert len(service.client.get("/v1/ledgers/a/events?correlation_id=run-1").json()["entries"]) == 30
    assert service.client.get("/v1/ledgers/a/runs/run-1/transcript").status_code == 200
    assert len(service.client.get("/v1/ledgers/a/search?q=refund&limit=5").json()["hits"]) == 5
    assert service.client.get("/v1/ledgers/a/verify").json()["ok"]
    assert service.client.get("/v1/ledgers/b/head").json()["position"] == 0


def test_sigterm_ends_streams_finishes_what_is_under_way_and_the_exit_code_is_0(
    served: Any, tmp_path: Any
) -> None:
    line = b'{"event_type": "a.b", "correlation_id": "c"}\n'
    told: list[Any] = []
    half, rest = threading.Event(), threading.Event()

    def body() -> Iterator[bytes]:
        yield line * 10
        half.set()
        rest.wait(20)
        yield line * 10

    def upload() -> None:
        with httpx.Client(base_url=served.url, timeout=30) as client:
            headers = {"content-type": "application/x-ndjson"}
            told.append(client.post("/v1/events", content=body(), headers=headers).json())

    uploading = threading.Thread(target=upload)
    uploading.start()
    assert half.wait(20)
    while served.client.get("/v1/head").json()["position"] < 10:
        pass
    with served.client.stream("GET", "/v1/stream?after=10") as stream:  # nothing comes on it
        pieces = stream.iter_raw()
        assert next(pieces).startswith(b"retry")
        served.process.send_signal(signal.SIGTERM)
        for _ in pieces:
            pass  # it comes to its end, and the connection is not broken
    rest.set()
    uploading.join(20)
    assert served.process.wait(20) == 0
    assert told[0]["stored"] == 20
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        assert ledger.head == 20 and ledger.verify().ok


def test_sigint_ends_with_130_and_a_second_one_at_once(served: Any) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        )
        while served.client.get("/metrics").text.find("chatsnapshot_uploads_open 1\n") < 0:
            pass
        served.process.send_signal(signal.SIGINT)
        while takes_connections(host, int(port)):
            pass  # two signals that come before the first is obeyed are one
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(0.5)  # it waits for the upload
        begun = time.monotonic()
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(20) == 130
        assert time.monotonic() - begun < GRACE_SECONDS - 2, "it was not the upload's time that ended it"


def takes_connections(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port)):
            return True
    except OSError:
        return False


def test_sigint_alone_is_an_orderly_end(served: Any) -> None:
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(20) == 130


def test_there_is_no_redirect_and_head_is_as_get(served: Any) -> None:
    assert served.client.get("/v1/head/").status_code == 404
    for path in ("/v1/head", "/v1/events", "/v1/stream", "/healthz"):
        answer = served.client.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path
    refused = served.client.put("/v1/events")
    assert refused.status_code == 405 and set(refused.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ledger", "{0}/nowhere/runs.db"], "does not exist; create it first"),
        (["--ledger", "{0}/junk.db"], "is damaged"),
        (["--ledger-named", "A=runs.db"], "1 to 63 of a-z, 0-9 and -, not 'A'"),
        (["--ledger-named", "a=x.db", "--ledger-named", "a=y.db"], "two ledgers the name 'a'"),
        (["--proxy", "nginx"], "takes an address, or a network such as 10.0.0.0/8, not 'nginx'"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(
    tmp_path: Any, arguments: list[str], said: str
) -> None:
    (tmp_path / "junk.db").write_bytes(b"junk " * 1_000)
    command = [sys.executable, "-m", "chatsnapshot", "serve", "--port", "0"]
    ended = subprocess.run(
        [*command, *(one.format(tmp_path) for one in arguments)],
        capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert said in ended.stderr.splitlines()[-1] and ended.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""  # it says that it serves once it does
