"""The views ``ledger_events`` and ``ledger_runs``: what the page says, for any SQLite that reads the file."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import chatsnapshot
from chatsnapshot.backup import backup
from chatsnapshot.fsck import fsck

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def select(path: Path, sql: str, *values: Any) -> list[dict[str, Any]]:
    """Rows by Python's own SQLite; no ledger is open in this process meanwhile."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(sql, values)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def story(path: Path) -> Path:
    """Runs of every outcome, a child, tool calls, a model call, an erased payload."""
    with chatsnapshot.open(path) as ledger:
        with ledger.run("run-1", name="triage") as run:
            run.record("execution.message", {"role": "user", "content": "When is high tide?"})
            call = run.record("execution.tool_call", {"tool_name": "search", "call_id": "c1"})
            run.record("execution.tool_result", {"call_id": "c1", "error": "no answer"}, causation_id=call)
            with ledger.run(name="child"):
                pass
            run.record(
                "execution.model_call", {"model": "m", "usage": {"input_tokens": 7, "output_tokens": 5}},
                source={"origin": "agent", "runtime": "test", "name": "planner"}, attributes={"policy": "p"},
            )  # fmt: skip
        with pytest.raises(ValueError, match="no tide"), ledger.run("run-2", name="failing"):
            raise ValueError("no tide")
        ledger.record("execution.run_started", {"name": {"name": "lost"}}, correlation_id="run-3")
        secret = ledger.record(
            "execution.message", {"role": "user", "content": "é 日"}, correlation_id="run-3"
        )
        ledger.record("system.workflow_started", {"workflow_id": "w", "name": "flow"}, correlation_id="run-4")
        ledger.record("system.workflow_paused", {}, correlation_id="run-4")
        ledger.erase(secret.position, reason="asked for")
    return path


@pytest.mark.parametrize("number", range(10))
def test_the_queries_of_the_page_run_and_find_something(story: Path, number: int) -> None:
    assert len(QUERIES) == 10
    assert select(story, QUERIES[number])


@pytest.mark.parametrize("view", ["ledger_events", "ledger_runs"])
def test_the_page_has_the_columns_in_their_order_and_types(story: Path, view: str) -> None:
    part = PAGE.split(f"## Columns of `{view}`")[1].split("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \| (\w+) \|", part, re.MULTILINE)
    with contextlib.closing(apsw.Connection(str(story), apsw.SQLITE_OPEN_READONLY)) as db:
        found = db.execute(f"SELECT name, type FROM pragma_table_xinfo('{view}')").fetchall()
    assert [(name, {"INT": "integer"}.get(kind, kind.lower())) for name, kind in found] == described


def test_events_hold_what_was_recorded(story: Path) -> None:
    rows = select(story, "SELECT * FROM ledger_events ORDER BY position")
    with chatsnapshot.open(story, read_only=True) as ledger:
        entries = list(ledger.read())
    assert len(rows) == len(entries)
    for row, entry in zip(rows, entries, strict=True):
        event = entry.event
        assert row == {
            "position": entry.position,
            "sequence": entry.sequence,
            "recorded_at": entry.recorded_at,
            "event_id": event.event_id,
            "event_type": event.event_type,
            "timestamp": event.timestamp,
            "origin": event.source.origin,
            "runtime": event.source.runtime,
            "name": event.source.name,
            "correlation_id": event.correlation_id,
            "causation_id": event.causation_id,
            "payload": None if entry.erased else event.payload_json.decode(),
            "schema_version": event.schema_version,
            "attributes": event.attributes_json,
            "payload_bytes": entry.payload_bytes,
            "erased": int(entry.erased),
        }
    assert sum(row["erased"] for row in rows) == 1


def test_runs_agree_with_the_runs_view(story: Path) -> None:
    rows = {row["run_id"]: row for row in select(story, "SELECT * FROM ledger_runs")}
    with chatsnapshot.open(story, read_only=True) as ledger:
        correlations = {row["correlation_id"] for row in rows.values()}
        runs = [run for one in correlations for run in ledger.view("runs", one).runs]
    assert {run.run_id for run in runs} == rows.keys()
    same = ("correlation_id", "kind", "name", "status", "started_at", "ended_at", "error", "first_position")
    for run in runs:
        row = rows[run.run_id]
        assert [row[key] for key in (*same, "events", "last_position")] == [
            getattr(run, key) for key in (*same, "events", "last_position")
        ]
    assert [rows[f"run-{n}"]["status"] for n in (1, 2, 3)] == ["completed", "failed", "unfinished"]
    assert rows["w"]["status"] == "paused"


@pytest.mark.parametrize(
    ("steps", "runs"),
    [
        (["run_started", "run_paused", "run_resumed"], [("r", "unfinished", None, 3)]),
        (["run_started", "run_failed", "run_completed"], [("r", "completed", 3, 3)]),
        (["run_completed"], [("r", "completed", 1, 1)]),
        (["run_started a", "run_completed"], [("a", "completed", 2, 2)]),
        (
            ["run_started a", "run_started b", "run_completed b", "run_completed a"],
            [("a", "completed", 4, 4), ("b", "completed", 3, 2)],
        ),
        (["message", "message"], []),
    ],
)
def test_the_last_start_or_end_decides_on_the_status(path: Path, steps: list[str], runs: list[Any]) -> None:
    with chatsnapshot.open(path) as ledger:
        for number, step in enumerate(steps, 1):
            kind, _, run_id = step.partition(" ")
            payload = {"run_id": run_id} if run_id else {}
            moment = f"2026-11-30T02:26:0{number}Z"
            ledger.record(f"execution.{kind}", payload, correlation_id="r", timestamp=moment)
    rows = select(path, "SELECT * FROM ledger_runs ORDER BY first_position")
    found = [
        (row["run_id"], row["status"], row["ended_at"] and int(row["ended_at"][18]), row["events"])
        for row in rows
    ]
    assert found == runs


def test_a_payload_is_queried_as_json_also_with_arrows(story: Path, require) -> None:
    require(sqlite3.sqlite_version_info >= (3, 38), "SQLite 3.38 for ->>")
    sql = "SELECT payload ->> '$.role' AS role FROM ledger_events WHERE event_type = 'execution.message'"
    assert [row["role"] for row in select(story, sql)] == ["user", None]


def test_a_data_frame_is_read_from_a_view(story: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with contextlib.closing(sqlite3.connect(f"file:{story}?mode=ro", uri=True)) as db:
        frame = pandas.read_sql("SELECT * FROM ledger_events WHERE correlation_id = ?", db, params=["run-1"])
    assert list(frame["sequence"]) == list(range(1, len(frame) + 1))
    assert json.loads(frame["payload"][1])["role"] == "user"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM ledger_events",
        "UPDATE ledger_events SET payload = '{}'",
        "INSERT INTO ledger_events (position) VALUES (99)",
        "DELETE FROM ledger_runs",
    ],
)
def test_a_view_cannot_be_written_to(story: Path, sql: str) -> None:
    with (
        contextlib.closing(sqlite3.connect(story)) as db,
        pytest.raises(sqlite3.OperationalError, match="view"),
    ):
        db.execute(sql)


def test_every_ledger_of_a_file_has_its_views(story: Path) -> None:
    with chatsnapshot.open(f"{story}?ledger=other") as ledger:
        ledger.record("execution.run_started", {}, correlation_id="o")
    assert [row["correlation_id"] for row in select(story, 'SELECT * FROM "ledger_events@other"')] == ["o"]
    assert [row["run_id"] for row in select(story, 'SELECT * FROM "ledger_runs@other"')] == ["o"]
    assert not select(story, "SELECT * FROM ledger_events WHERE correlation_id = 'o'")


@pytest.fixture
def old(story: Path) -> Iterator[Path]:
    """A ledger as it was before there were views."""
    with contextlib.closing(apsw.Connection(str(story))) as db:
        db.execute("DROP VIEW ledger_events; DROP VIEW ledger_runs")
    yield story


@pytest.mark.parametrize("create", [True, False])
def test_an_older_ledger_gets_its_views_when_it_is_opened_for_writing(old: Path, create: bool) -> None:
    with chatsnapshot.open(old, create=create) as ledger:
        head = ledger.head
    assert select(old, "SELECT count(*) AS n FROM ledger_events") == [{"n": head}]
    assert select(old, "PRAGMA user_version") == [{"user_version": 1}]


def test_an_older_ledger_opened_read_only_works_without_them(old: Path) -> None:
    before = old.read_bytes()
    with chatsnapshot.open(old, read_only=True) as ledger:
        assert ledger.verify().ok
    assert old.read_bytes() == before


def test_another_process_that_has_it_open_goes_on_when_the_views_come(old: Path) -> None:
    child = (
        "import sys, chatsnapshot\n"
        "with chatsnapshot.open(sys.argv[1], read_only=True) as ledger:\n"
        "    first = ledger.head\n"
        "    print(first, flush=True)\n"
        "    sys.stdin.readline()\n"
        "    print(len(list(ledger.read())), flush=True)\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", child, str(old)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    first = int(reader.stdout.readline())
    with chatsnapshot.open(old) as ledger:
        ledger.record("a.b", {}, correlation_id="r")
        assert reader.communicate("\n")[0].strip() == str(first + 1)
    assert reader.returncode == 0


def test_they_come_through_backup_and_do_not_trouble_verify_or_fsck(story: Path, tmp_path: Path) -> None:
    backup(str(story), str(tmp_path / "copy.db"))
    assert select(tmp_path / "copy.db", "SELECT * FROM ledger_runs") == select(
        story, "SELECT * FROM ledger_runs"
    )
    with chatsnapshot.open(tmp_path / "copy.db") as ledger:
        assert ledger.verify().ok
    assert fsck(str(tmp_path / "copy.db")).sound


def test_a_damaged_payload_spoils_no_query_about_runs(story: Path) -> None:
    with contextlib.closing(apsw.Connection(str(story))) as db:
        db.execute("DROP TRIGGER entry_erase")
        db.execute("UPDATE entry SET payload = x'7b' WHERE event_type = 'execution.run_failed'")
    (row,) = select(story, "SELECT status, error FROM ledger_runs WHERE run_id = 'run-2'")
    assert row == {"status": "failed", "error": None}


def test_a_correlation_is_found_through_its_index(story: Path) -> None:
    sql = "EXPLAIN QUERY PLAN SELECT * FROM ledger_events WHERE correlation_id = 'run-1' ORDER BY sequence"
    (step,) = select(story, sql)
    assert "USING INDEX entry_correlation" in step["detail"]
