"""Locks: errors under several writers, waits that are none, failures that nobody sees, places without shared memory."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot.cli.main import cli
from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.stores import sqlite_schema
from chatsnapshot.stores.filelock import file_lock

Start = Callable[..., "subprocess.Popen[str]"]
Numbers = Callable[[str], list[int]]

HOLD = """
import sys
from chatsnapshot.stores.filelock import file_lock
with file_lock(sys.argv[1] + ".lock").held():
    print("held", flush=True)
    sys.stdin.readline()
"""


def record_command(path: str, number: int) -> list[str]:
    return [
        "-m", "chatsnapshot", "record", "a.b", f'{{"n": {number}}}',
        "--correlation", "c", "--ledger", path,
    ]  # fmt: skip


def test_commands_that_run_at_once_all_store(path: str, start: Start, numbers: Numbers) -> None:
    """Eight programs open a new ledger, record one event each and end."""
    running = [start(*record_command(path, n)) for n in range(8)]
    for one in running:
        _, err = one.communicate(timeout=60)
        assert (one.returncode, err) == (0, "")
    assert sorted(numbers(path)) == list(range(8))


def test_a_writer_waits_for_one_that_takes_long(path: str, start: Start, numbers: Numbers) -> None:
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"n": 0}, correlation_id="c")
    holder = start("-c", HOLD, path)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    waiting = start(*record_command(path, 1))
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(1)
    if path.endswith(".db"):  # of lines, a reader learns under the lock how far they are whole
        assert numbers(path) == [0]
    holder.communicate("\n", timeout=30)
    _, err = waiting.communicate(timeout=30)
    assert (waiting.returncode, err) == (0, "")
    assert numbers(path) == [0, 1]


def test_a_database_that_stays_locked_is_an_error_that_is_seen(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program, which knows nothing of our lock, keeps the database for itself."""
    path = str(tmp_path / "runs.db")
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT_MS", 50)
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"n": 0}, correlation_id="c")
        other = apsw.Connection(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked by another program"):
            ledger.record("a.b", {"n": 1}, correlation_id="c")
        assert [type(one.error) for one in _failures(ledger)] == [StoreUnavailable]
        done = CliRunner().invoke(cli, record_command(path, 1)[2:])
        assert done.exit_code == 1
        assert "nothing was stored" in done.output
        other.execute("ROLLBACK")
        other.close()
        assert ledger.record("a.b", {"n": 2}, correlation_id="c").position == 2


def _failures(ledger: chatsnapshot.Ledger) -> Any:
    ledger.record("a.b", {"n": 1}, correlation_id="c", wait=False)
    return ledger.flush(30).failures


def test_a_lock_belongs_to_the_file_and_not_to_the_call(path: str) -> None:
    """Every use of one path in a process shares one lock, however often it is asked for."""
    with chatsnapshot.open(path):
        first, second = file_lock(path + ".lock"), file_lock(path + ".lock")
        assert first is second
        first.close()
        second.close()


def test_where_memory_cannot_be_shared_another_journal_keeps_the_promises(python: Any, tmp_path: Any) -> None:
    program = """
import sys
import apsw
apsw.set_default_vfs("unix-none")   # as a file system without shared memory: no write-ahead log is possible
import chatsnapshot
with chatsnapshot.open(sys.argv[1]) as ledger:
    for n in range(20):
        ledger.record("a.b", {"n": n}, correlation_id="c", wait=n % 2 == 0)
    assert ledger.flush(30).ok
    print(*(ledger._store._db.execute(f"PRAGMA {name}").get for name in ("journal_mode", "synchronous")))
with chatsnapshot.open(sys.argv[1]) as ledger:
    assert [entry.payload["n"] for entry in ledger.read()] == list(range(20))
    assert ledger.verify().ok
"""
    assert python(program, tmp_path / "runs.db").stdout == "delete 2\n"
