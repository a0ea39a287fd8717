"""Large OTLP bodies are read in a second process: the same events, and nothing is lost with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.ingest.otlp.making import TRACES, records_of
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.taking import Taking
from chatsnapshot.server.helping import _cores

NOW = 1_790_000_000_000_000_000
TRACE = "ab" * 16

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists() or _cores() < 2, reason="needs two cores, and /proc"
)


def span(number: int, **facts: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": str(NOW + number * 1_000),
        "endTimeUnixNano": str(NOW + number * 1_000 + 500),
        "attributes": [
            {"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in facts.items()
        ],
    }


def body(*spans: dict[str, Any]) -> bytes:
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "test"}, "spans": list(spans)}]}]}
    ).encode()


def tool(number: int, **more: Any) -> dict[str, Any]:
    return span(
        number, **{"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "look_up", **more}
    )


def large(first: int, *more: dict[str, Any]) -> bytes:
    """A body that is large enough for the second process."""
    filler = [tool(first + number, input__value="x" * 400, password="hunter2") for number in range(60)]
    return body(*filler, {**tool(first), "spanId": "bad"}, *more)


def post(served: Any, content: bytes) -> dict[str, Any]:
    answer = served.client.post("/v1/traces", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def children(served: Any) -> list[int]:
    pid = served.process.pid
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def recorded(path: Any) -> list[Any]:
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert ledger.verify().ok
        return [(entry.event, entry.sequence) for entry in ledger.read()]


def test_the_second_process_makes_the_same_events(served: Any, tmp_path: Path) -> None:
    content = large(1)
    assert children(served) == []
    post(served, body(tool(900)))
    assert children(served) == [], "a small body alone starts none"
    told = post(served, content)
    assert told["partialSuccess"]["rejectedSpans"] == "1"
    assert len(children(served)) == 1
    assert post(served, content) == told, "once more is the same events"
    found = recorded(tmp_path / "runs.db")
    assert len(found) == 122

    with chatsnapshot.open(tmp_path / "inside.db") as ledger:
        for one in (body(tool(900)), content):
            taking = Taking(ledger, Memory())
            taking.read(records_of(one, True, TRACES), TRACES.events_of, "secrets")
            asyncio.run(taking.commit())
    assert found == recorded(tmp_path / "inside.db")
    assert "[redacted:password]" in str(found)
    assert "hunter2" not in str(found)


def test_what_was_remembered_before_is_known_there(served: Any, tmp_path: Path) -> None:
    said = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "call-1", "name": "look_up", "arguments": {}}],
        }
    ]
    chat = span(500, gen_ai__operation__name="chat", gen_ai__output__messages=json.dumps(said))
    post(served, body(chat))
    assert children(served) == []
    post(served, large(1, tool(501, gen_ai__tool__call__id="call-1")))
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        (message,) = ledger.read(event_type="execution.message")
        (call,) = [
            entry
            for entry in ledger.read(event_type="execution.tool_call")
            if entry.payload.get("call_id") == "call-1"
        ]
        assert call.causation_id == message.event_id


def test_when_it_is_killed_the_service_reads_by_itself(served: Any, tmp_path: Path) -> None:
    post(served, large(1))
    (helper,) = children(served)
    os.kill(helper, signal.SIGKILL)
    post(served, large(101))
    post(served, large(201))
    assert len(recorded(tmp_path / "runs.db")) == 360


def test_a_body_that_is_none_is_refused_as_ever(served: Any) -> None:
    post(served, large(1))
    answer = served.client.post(
        "/v1/traces", content=b'{"resourceSpans": 5}', headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:chatsnapshot:problem:otlp")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_service(served: Any, number: int) -> None:
    post(served, large(1))
    (helper,) = children(served)
    served.process.send_signal(number)
    served.process.wait(30)
    deadline = time.monotonic() + 30
    while _lives(helper):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
