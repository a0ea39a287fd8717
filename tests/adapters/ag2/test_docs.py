"""The page for AG2 users says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot.adapters.ag2 import classic, network, streamed
from chatsnapshot.adapters.patience import HoldUp

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "ag2.md").read_text(encoding="utf-8")


def table(heading: str) -> dict[str, str]:
    """The rows of the table with this first heading: what stands in code marks in its two columns."""
    rows = PAGE.split(f"| {heading} | event type |", 1)[1].split("\n\n", 1)[0].splitlines()
    return dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)`", row)[0] for row in rows if row.startswith("| `"))


def test_every_classic_event_stands_in_the_table_with_its_type() -> None:
    assert table("classic event") == {name: place[0] for name, place in classic._PLACES.items()}


def test_every_event_of_the_1_x_line_stands_in_the_table_with_its_type() -> None:
    told = table("AG2 1.x event")
    assert told.pop("UsageEvent") == "execution.model_call"
    inherited = {"ToolErrorEvent", "ToolNotFoundEvent", "ToolApprovalRequest"}
    places = {name: place[0] for name, place in streamed._PLACES.items()}
    assert {name: told[name] for name in told if name not in inherited} == places


def test_every_envelope_of_the_network_stands_in_the_table() -> None:
    told = re.findall(r"^\| `(ag2\.[\w.]+)` \|", PAGE, re.MULTILINE)
    assert sorted(told) == sorted([*network._KINDS, "ag2.channel.opened"])


def test_the_numbers_on_the_page_are_the_defaults() -> None:
    from chatsnapshot.adapters.ag2 import AG2Recorder

    with chatsnapshot.open("memory:") as ledger:
        safe = AG2Recorder(ledger).safe
    assert f"{safe.kept_events_max:,} events or {safe.kept_bytes_max // 2**20} MiB" in PAGE
    assert f"over {safe.wait_seconds_max:g} seconds" in PAGE
    assert f"up to {HoldUp.seconds_max * 1000:g} ms" in PAGE


@pytest.mark.parametrize("example", ["minimal.py"])
def test_the_example_is_short_and_runs(example: str, tmp_path: Path) -> None:
    path = ROOT / "examples" / example
    assert len(path.read_text().splitlines()) < 30
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "execution.tool_result 3" in done.stdout
    assert done.stdout.splitlines()[-1] == "True"
