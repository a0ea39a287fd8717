"""Any payload and any text can be exported in every format, and parses back to what was recorded."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.events.catalogue import TYPES
from chatsnapshot.exporters import export
from chatsnapshot.exporters.spreadsheet import RISKY, harmless, original

TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["=1+1", '"]\n', "a\r\nb", "\x1b[31m", "\u2028", "'=", "@x"])
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "role",
        "content",
        "name",
        "tool_name",
        "call_id",
        "arguments",
        "result",
        "error",
        "run_id",
        "task_id",
        "model",
    ]
)
PAYLOADS = st.dictionaries(KEYS | TEXTS, VALUES, max_size=5)
OWN = [event_type for event_type in TYPES if not event_type.startswith("ledger.")]
EVENTS = st.lists(st.tuples(st.sampled_from([*OWN, "custom.thing"]), PAYLOADS), min_size=1, max_size=6)


def recorded(events: list[tuple[str, Any]]) -> Any:
    ledger = chatsnapshot.open("memory:", validation="off")
    ledger.record_many(
        [{"event_type": kind, "payload": load, "correlation_id": "r"} for kind, load in events]
    )
    return ledger


def exported(ledger: Any, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    export(ledger, out, format, **options)
    return out.getvalue()


@settings(max_examples=60)
@given(EVENTS)
def test_every_payload_is_read_back_from_every_format_of_events(events: list[tuple[str, Any]]) -> None:
    with recorded(events) as ledger:
        stored = [entry.payload for entry in ledger.read()]
        lines = exported(ledger, "jsonl").split(b"\n")[:-1]
        assert [json.loads(line)["payload"] for line in lines] == stored
        elements = json.loads(exported(ledger, "cloudevents"))
        assert [element["data"] for element in elements] == stored
        rows = list(csv.DictReader(io.StringIO(exported(ledger, "csv").decode(), newline="")))
        assert [json.loads(original(row["payload"])) for row in rows] == stored
        assert not [cell for row in rows for cell in row.values() if cell.startswith(RISKY[:-1])]
        log = json.loads(exported(ledger, "ocel"))
        assert [event["type"] for event in log["events"]] == [kind for kind, _ in events]


@settings(max_examples=60)
@given(EVENTS)
def test_no_payload_breaks_a_format_of_runs(events: list[tuple[str, Any]]) -> None:
    with recorded(events) as ledger:
        for line in exported(ledger, "otlp").split(b"\n")[:-1]:
            (resource,) = json.loads(line)["resourceSpans"]
            spans = resource["scopeSpans"][0]["spans"]
            assert len({span["spanId"] for span in spans}) == len(spans)
        for line in exported(ledger, "chat").split(b"\n")[:-1]:
            pairs_are_whole(json.loads(line)["messages"])
        for format in ("mermaid", "dot"):
            made = exported(ledger, format, runs="r").decode()
            assert len(re.findall(r"^    n\d+ ?\[", made, re.MULTILINE)) == len(events)


def pairs_are_whole(messages: list[dict[str, Any]]) -> None:
    """Each call is answered by the messages directly behind it, in order, and nothing else is answered."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting and message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting)
    assert waiting == []


@given(TEXTS)
def test_a_cell_never_begins_like_a_formula_and_gives_its_text_back(text: str) -> None:
    assert not harmless(text).startswith(RISKY[:-1])
    assert original(harmless(text)) == text


@pytest.mark.parametrize("sign", RISKY)
def test_each_risky_sign_is_neutralised(
    sign: str, ledger: Any, tell: Any, exported: Callable[..., bytes]
) -> None:
    tell(
        "custom.thing",
        {},
        f"{sign}cmd" if sign not in "\t\r\n" else "run-1",
        source={"origin": "agent", "name": "a"},
    )
    assert harmless(f"{sign}x") == f"'{sign}x"
    (row,) = csv.DictReader(io.StringIO(exported(ledger, "csv").decode(), newline=""))
    assert not row["correlation_id"].startswith(RISKY[:-1])


def test_an_unknown_time_is_nowhere_invented(
    ledger: Any, timeless: Any, exported: Callable[..., bytes]
) -> None:
    (row,) = csv.DictReader(io.StringIO(exported(ledger, "csv").decode(), newline=""))
    assert row["timestamp"] == ""
    (element,) = json.loads(exported(ledger, "cloudevents"))
    assert "time" not in element
    for format in ("ocel", "otlp"):
        out = io.BytesIO()
        report = export(ledger, out, format)
        assert report.written == 0
        assert sum(report.left_out.values()) == 1
        assert timeless.timestamp.encode() not in out.getvalue()


def test_damaged_payload_bytes_break_no_format(tmp_path: Any, exported: Callable[..., bytes]) -> None:
    import apsw

    path = tmp_path / "runs.db"
    with chatsnapshot.open(path) as ledger:
        ledger.record("execution.message", {"role": "assistant", "content": "hi"}, correlation_id="run-1")
    connection = apsw.Connection(str(path))
    for (name,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
        connection.execute(f'DROP TRIGGER "{name}"')
    (table,) = next(
        connection.execute(
            "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "
            "WHERE m.type = 'table' AND c.name = 'payload'"
        )
    )
    connection.execute(f"UPDATE {table} SET payload = CAST('{{\"a\nb' AS BLOB)")
    connection.close()
    with chatsnapshot.open(path, read_only=True) as ledger:
        (line,) = exported(ledger, "jsonl").splitlines()
        assert json.loads(line)["payload"] == {"value": '{"a\nb'}
        assert json.loads(exported(ledger, "cloudevents"))[0]["data"] == {"value": '{"a\nb'}
        assert json.loads(exported(ledger, "ocel"))["events"]
        for format in ("csv", "otlp", "chat"):
            exported(ledger, format)
