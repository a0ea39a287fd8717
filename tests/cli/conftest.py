"""A ledger with a small story in it, and the command line run in this process."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

import chatsnapshot
from chatsnapshot.cli.main import cli

# Before click 8.2 the two outputs are kept apart only when that is asked for.
APART: dict[str, Any] = (
    {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
)

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No option of the person who runs the tests has a say, and relative paths lead nowhere else."""
    for name in ("NO_COLOR", "COLUMNS", "CHATSNAPSHOT_DEBUG", "PYTHONIOENCODING", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run() -> Run:
    """``run("runs", "--json")``: one command line, in this process."""

    def invoke(*arguments: str, charset: str = "utf-8", **options: object) -> Result:
        return CliRunner(charset=charset, **APART).invoke(cli, list(arguments), **options)

    return invoke


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the story's ledger is."""
    return tmp_path / "runs.db"


@pytest.fixture
def story(path: Path) -> Iterator[Path]:
    """A run that asks a tool twice (it fails once), hands a part to a child run, and completes."""
    with chatsnapshot.open(path) as ledger:
        seconds = itertools.count()

        def record(event_type: str, payload: dict[str, object], **options: Any) -> chatsnapshot.LedgerEntry:
            """One event a second."""
            return ledger.record(
                event_type, payload, timestamp=f"2026-11-30T02:26:{next(seconds):02d}.123456Z", **options
            )

        agent = {"origin": "agent", "runtime": "test", "name": "planner"}
        common = {"correlation_id": "run-1", "source": agent}
        record("execution.run_started", {"name": "triage"}, **common)
        record(
            "execution.message",
            {"role": "user", "content": "When is high tide?"},
            correlation_id="run-1",
            source={"origin": "ui", "runtime": "none", "name": "dana"},
        )
        call = {"tool_name": "search", "arguments": {"q": "tides"}}
        first = record("execution.tool_call", {**call, "call_id": "c1"}, **common)
        record(
            "execution.tool_result",
            {"call_id": "c1", "error": {"type": "TimeoutError", "message": "no answer"}},
            causation_id=first,
            **common,
        )
        second = record("execution.tool_call", {**call, "call_id": "c2"}, causation_id=first, **common)
        child = {"correlation_id": "child-1", "source": {**agent, "name": "reader"}}
        record("execution.run_started", {"name": "read table"}, causation_id=second, **child)
        record("execution.message", {"role": "assistant", "content": "04:12"}, **child)
        record("execution.run_completed", {}, **child)
        record("execution.tool_result", {"call_id": "c2", "result": "04:12"}, causation_id=second, **common)
        record("execution.message", {"role": "assistant", "content": "At 04:12."}, **common)
        record("execution.run_completed", {"output": "At 04:12."}, **common)
    yield path


@pytest.fixture
def damage() -> Callable[..., None]:
    """Change stored bytes as somebody with the file in hand could: the triggers are dropped first."""

    def change(path: Path, *statements: str) -> None:
        connection = apsw.Connection(str(path))
        for (name,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
            connection.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return change
