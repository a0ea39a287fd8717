"""Times that come out wrong: a writer and a reader in other time zones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot.cli.main import cli

ZONES = ("America/Los_Angeles", "Asia/Kathmandu")


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """``in_zone("Asia/Kathmandu")``: this process is in that time zone until the test ends."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def test_a_reader_in_another_zone_sees_the_same_times_and_durations(
    path: str, in_zone: Callable[[str], None]
) -> None:
    with chatsnapshot.open(path) as ledger:
        for event_type, at in (("run_started", "02:26:00"), ("run_completed", "03:26:07.5")):
            ledger.record(f"execution.{event_type}", correlation_id="c", timestamp=f"2026-11-30T{at}Z")
    for arguments in (("runs",), ("timeline", "c"), ("show", "c"), ("runs", "--json")):
        found = set()
        for zone in ZONES:
            in_zone(zone)
            done = CliRunner().invoke(cli, [*arguments, "--ledger", path])
            assert done.exit_code == 0
            found.add(done.output)
        (output,) = found
        assert "02:26" in output
        assert "1 h 00 m" in output or "3607500000000" in output


def test_a_writer_in_another_zone_records_the_same_moment(python: Any, path: str) -> None:
    program = """
import sys
from datetime import datetime, timezone
import chatsnapshot
with chatsnapshot.open(sys.argv[1]) as ledger:
    ledger.record("a.b", correlation_id="c")
    ledger.record("a.b", correlation_id="c", timestamp=datetime.now().astimezone())
"""
    before = datetime.now(timezone.utc)
    for zone in ZONES:
        python(program, path, env={**os.environ, "TZ": zone})
    after = datetime.now(timezone.utc)
    with chatsnapshot.open(path, read_only=True) as ledger:
        for entry in ledger.read():
            for text in (entry.timestamp, entry.recorded_at):
                moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
                assert before - timedelta(seconds=5) <= moment <= after + timedelta(seconds=5), text
