"""What surrounds the protocol: standard output, signals, addresses, Host and Origin, a ledger that is not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from chatsnapshot.errors import LedgerError
from chatsnapshot.mcp.serving import address, listen

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "chatsnapshot", "mcp", *map(str, arguments)]


def piped(path: Path, lines: list[str]) -> subprocess.CompletedProcess[str]:
    text = "".join(line + "\n" for line in lines)
    return subprocess.run(
        command("--ledger", path), input=text, capture_output=True, text=True, timeout=60, check=False
    )


def test_standard_output_carries_the_protocol_and_nothing_else(ledger_file: Path) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "list_runs", "arguments": {"last": -5}},
    }
    lines = [json.dumps(INITIALIZE), json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})]
    done = piped(ledger_file, [*lines, "this is no JSON", json.dumps(call), "[]", "{}"])
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(one["jsonrpc"] == "2.0" for one in said)
    assert said[0]["result"]["serverInfo"]["name"] == "chatsnapshot"
    assert "quoted from the record" in said[0]["result"]["instructions"]


def test_the_end_of_standard_input_is_the_end(ledger_file: Path) -> None:
    done = piped(ledger_file, [])
    assert (done.returncode, done.stdout) == (0, "")


def test_ctrl_c_ends_it_while_it_waits(ledger_file: Path) -> None:
    process = subprocess.Popen(
        command("--ledger", ledger_file),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()
    assert "serverInfo" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("flags", [[], ["--allow-notes"], ["--http", "127.0.0.1:0"]])
def test_a_ledger_that_is_not_there_is_told_on_standard_error(tmp_path: Path, flags: list[str]) -> None:
    done = subprocess.run(
        command("--ledger", tmp_path / "none.db", *flags),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "no ledger at" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("sig", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_http_server_in_order(over_http: Callable[..., Any], sig: int, code: int) -> None:
    server = over_http()
    assert server.said.startswith("http://127.0.0.1:")
    assert httpx.post(server.url, json=INITIALIZE, headers=HEADERS).status_code == 200
    assert server.end(sig) == code


def test_another_host_or_origin_is_refused(over_http: Callable[..., Any]) -> None:
    server = over_http()
    port = int(server.url.split(":")[2].split("/")[0])
    statuses = {}
    for host, origin in (
        (f"127.0.0.1:{port}", None),
        (f"localhost:{port}", f"http://localhost:{port}"),
        (f"[::1]:{port}", None),
        ("127.0.0.1", None),
        (f"127.0.0.1:{port + 1}", None),
        (f"evil.example:{port}", None),
        (f"localhost:{port}.evil.example", None),
        (f"127.0.0.1:{port}", "http://evil.example"),
        (f"127.0.0.1:{port}", f"http://localhost:{port + 1}"),
        (f"127.0.0.1:{port}", "null"),
    ):
        headers = {**HEADERS, "Host": host} | ({} if origin is None else {"Origin": origin})
        answer = httpx.post(server.url, json=INITIALIZE, headers=headers)
        statuses[host.replace(str(port), "P"), (origin or "").replace(str(port), "P")] = answer.status_code
    refused = [status for status in statuses.values() if status != 200]
    assert list(statuses.values())[:3] == [200, 200, 200]
    assert refused == [421, 421, 421, 421, 403, 403, 403]


def test_bodies_are_bounded(over_http: Callable[..., Any]) -> None:
    server = over_http()
    large = {**INITIALIZE, "params": {**INITIALIZE["params"], "x": "y" * 2_000_000}}
    assert httpx.post(server.url, json=large, headers=HEADERS).status_code == 413
    assert (
        httpx.post(
            server.url, content=b"{" * 500_000, headers={**HEADERS, "Content-Type": "application/json"}
        ).status_code
        == 400
    )
    assert httpx.post(server.url, json=INITIALIZE, headers=HEADERS).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no such host"])
def test_an_address_that_others_reach_is_not_listened_on(host: str) -> None:
    with pytest.raises(LedgerError):
        listen(host, 0)


@pytest.mark.parametrize(
    "text", ["", "8421", ":8421", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "a:٣"]
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(LedgerError, match="HOST:PORT"):
        address(text)


def test_an_address_is_read() -> None:
    assert address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert address("[::1]:8421") == ("::1", 8421)
