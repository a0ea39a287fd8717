"""Checks 39 to 41 and 58: what the service writes to its log, and that no traceback leaves it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.server.logs import LINE_CHARS_MAX, OneLine

EVIL = "a\r\nFAKE 2026 error\x1b[2J\x1b]52;c;eA==\x07\u009b31m\u2028\u202e\x00\x08" + "x" * 10_000


def record(message: str, *arguments: Any, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("chatsnapshot.server", logging.ERROR, "f", 1, message, arguments, info)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "one",
    [
        record(EVIL), record("%s", EVIL), record("x", error=raised(StoreUnavailable(EVIL))),
        record(EVIL, error=raised(ValueError(EVIL))), record("%d", "no number"),
    ],
    ids=["message", "argument", "ours", "theirs", "unformattable"],
)  # fmt: skip
def test_check_40_one_event_is_one_line_without_a_character_that_acts(
    form: str, one: logging.LogRecord
) -> None:
    line = OneLine(form).format(one)
    assert len(line) <= LINE_CHARS_MAX
    assert line.isprintable() and "\n" not in line
    if form == "json":
        assert json.loads(line)["level"] == "error"


def test_check_41_no_text_ends_a_field_of_the_json(tmp_path: Path) -> None:
    line = OneLine("json").format(record('a","level":"debug", \\ ] "'))
    found = json.loads(line)
    assert (found["level"], found["message"]) == ("error", 'a","level":"debug", \\ ] "')


def test_check_39_the_text_of_a_foreign_error_is_not_written() -> None:
    for form in ("text", "json"):
        line = OneLine(form).format(record("x failed", error=raised(ValueError("payload of somebody"))))
        assert "payload of somebody" not in line
        assert "ValueError" in line and "test_checks_logs.py:" in line


_BROKEN = """
import sys
from starlette.responses import Response
from chatsnapshot.server import app
from chatsnapshot.server.endpoints import Endpoint
from chatsnapshot.server.service import Service
from chatsnapshot.server.serving import listen, serve
from chatsnapshot.server import serving
from chatsnapshot.server.settings import Settings

async def broken(call):
    raise RuntimeError("secret \\r\\n of the payload")

async def late(call):
    async def send(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("secret")
    return send

made = {"/broken": broken, "/late": late}
ends = [Endpoint(method="GET", path=p, scope="read", handle=h, summary="s") for p, h in made.items()]
serving.application = lambda service: app.application(service, ends)
sock = listen("127.0.0.1", 0)
print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
sys.exit(serve(Service(Settings(ledgers={"main": sys.argv[1]})), sock, log_form="json"))
"""


def test_check_58_a_failure_sends_no_traceback_and_logs_one_line(tmp_path: Path, kit: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _BROKEN, str(tmp_path / "runs.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        said = b""
        for path in (b"/v1/broken?x=%0d%0aFAKE", b"/v1/late"):
            with kit.raw(url) as raw:
                raw.send(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                said += raw.answer()
    finally:
        process.terminate()
        _, log = process.communicate(timeout=30)
    assert b" 500 " in said and b"internal-error" in said
    for word in (b"Traceback", b"RuntimeError", b"secret", b".py"):
        assert word not in said
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines and all(one["level"] == "error" for one in lines)
    assert "secret" not in log and "FAKE" not in log
    assert "RuntimeError" in lines[0]["error"] and "/v1/broken" in lines[0]["message"]


def test_check_40_requests_of_any_kind_write_no_line(limited: Any, kit: Any, keys: Any) -> None:
    service = limited(keys=keys.path)
    for path in ("/v1/head", "/nothing%0d%0aFAKE", "/v1/events?%1b[2J"):
        service.client.get(
            path, headers={"User-Agent": "x\x1b[2J", "Upgrade": "websocket", "Connection": "Upgrade"}
        )
    with kit.raw(service.url) as raw:
        raw.send(b"nonsense\r\n\r\n")
        raw.answer()
    assert service.end() == ""
