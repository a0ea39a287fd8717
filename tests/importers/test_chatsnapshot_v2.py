"""Events that version 2.0.0 wrote are taken as they are: ids, order, causes, sources, payloads."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chatsnapshot.importers import guess

EVENT: dict[str, Any] = {
    "event_id": "55bcfdc1-c492-4c81-a720-ea307d3b0a79", "event_type": "execution.message",
    "timestamp": "2026-11-30T03:35:36.446303", "source": {"origin": "agent", "runtime": "ag2", "agent_name": "ada"},
    "correlation_id": "wf", "payload": {"role": "user", "content": "Hello"}, "causation_id": None,
}  # fmt: skip


def from_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def from_rows(path: Path) -> list[dict[str, Any]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute("SELECT * FROM events ORDER BY id")]
    connection.close()
    return [
        {**row, "source": json.loads(row["source"]), "payload": json.loads(row["payload"])} for row in rows
    ]


def lines(*events: Any) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@pytest.mark.parametrize(
    ("name", "read"), [("v2_events/events.jsonl", from_lines), ("v2_events.db", from_rows)]
)
def test_real_events_are_what_an_independent_reader_finds(
    take: Any, strict: Any, shared_data: Path, name: str, read: Callable[[Path], list[dict[str, Any]]]
) -> None:
    path = shared_data / "chatsnapshot" / name
    events = read(path)
    before = {one: one.stat().st_mtime_ns for one in path.parent.iterdir()}
    report, entries = take(path, redact=None)
    assert (report.kind, report.stored, report.problems) == ("chatsnapshot-v2", len(events), ())
    for entry, event in zip(entries, events, strict=True):
        assert (
            entry.event_id,
            entry.event_type,
            entry.correlation_id,
            entry.causation_id,
            entry.payload,
        ) == (
            *(event["event_id"], event["event_type"], event["correlation_id"]),
            *(event["causation_id"], event["payload"]),
        )
        assert entry.timestamp == event["timestamp"] + "Z"
        assert (entry.source.origin, entry.source.runtime, entry.source.name) == (
            *(event["source"]["origin"], event["source"]["runtime"]),
            event["source"]["agent_name"],
        )
        assert entry.event.attributes == {"timestamp.zone": "unknown"}
    (run,) = strict.view("runs", "wf_1").runs
    assert (run.kind, run.status, run.tool_calls, run.messages) == ("workflow", "completed", 1, 1)
    assert {one: one.stat().st_mtime_ns for one in path.parent.iterdir()} == before


def test_the_same_events_as_lines_and_as_rows_are_the_same(take: Any, tmp_path: Path, write: Any) -> None:
    connection = sqlite3.connect(tmp_path / "events.db")
    connection.execute(
        "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT UNIQUE NOT NULL, event_type TEXT,"
        " timestamp TEXT, correlation_id TEXT, causation_id TEXT, source TEXT, payload TEXT)"
    )
    columns = "event_id, event_type, timestamp, correlation_id, causation_id, source, payload"
    row = [EVENT[name.strip()] for name in columns.split(",")]
    row = [json.dumps(value) if isinstance(value, dict) else value for value in row]
    connection.execute(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute(
        f"INSERT INTO events ({columns}) VALUES ('x', 'a.b', 'never', 'c', NULL, '{{}}', '{{}}')"
    )
    connection.execute(
        f"INSERT INTO events ({columns}) VALUES ('y', 'a.b', '2026-01-01', 'c', NULL, '{{', '5')"
    )
    connection.commit()
    connection.close()
    first, _ = take(tmp_path / "events.db")
    told = [one.reason for one in first.problems]
    assert len(told) == 2
    assert any("the timestamp is no time: 'never'" in one for one in told)
    assert any("source of event 'y'" in one for one in told)
    again, _ = take(write(lines(EVENT), "events.jsonl"))
    assert (first.stored, again.stored, again.known) == (1, 0, 1)


def test_other_ids_become_the_ids_that_they_always_become(take: Any, write: Any) -> None:
    first = {**EVENT, "event_id": "evt-1"}
    second = {**EVENT, "event_id": "evt-2", "causation_id": "evt-1"}
    _, (one, other) = take(write(lines(first, second), "events.jsonl"))
    assert UUID(one.event_id).version == 5
    assert other.causation_id == one.event_id


def test_what_is_no_event_is_named_by_its_byte_and_the_others_are_taken(take: Any, write: Any) -> None:
    strange = {
        **EVENT, "event_id": "6" * 8 + EVENT["event_id"][8:], "unknown": [1], "source": {"origin": "?"},
        "payload": {"\ud800": 1, "$type": "x"}, "timestamp": "2026-11-30T03:35:36+01:00",
    }  # fmt: skip
    bad = [
        {**EVENT, "event_id": None},
        {**EVENT, "event_type": "Not A Type", "event_id": "b"},
        [1],
        5,
        {**EVENT, "event_id": 7},
        {**EVENT, "event_id": "d", "correlation_id": {}},
    ]
    data = lines(EVENT, strange, *bad) + b"\r\n{oops\n" + lines({**EVENT, "event_id": "c"})[:-20]
    report, entries = take(write(data, "events.jsonl"))
    assert report.problem_count == 8
    assert all(data[one.offset - 1 : one.offset] == b"\n" for one in report.problems)
    assert [entry.payload for entry in entries] == [EVENT["payload"], entries[1].payload]
    assert entries[1].timestamp == "2026-11-30T02:35:36.000000Z"
    assert not entries[1].event.attributes


def test_events_of_today_are_left_to_ingest(write: Any) -> None:
    today = {
        **EVENT,
        "timestamp": "2026-11-30T03:35:36.446303Z",
        "source": {"origin": "agent", "runtime": "ag2"},
    }
    with pytest.raises(Exception, match="events, one a line, for 'chatsnapshot ingest'"):
        guess(write(lines(today), "events.jsonl"))
    assert (
        guess(write(lines({**today, "timestamp": today["timestamp"][:-1]}), "old.jsonl")).kind
        == "chatsnapshot-v2"
    )
