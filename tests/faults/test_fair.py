"""Four writer processes on one ledger: none starves."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import chatsnapshot

pytestmark = [pytest.mark.timeout(120)]

WRITER = """
import sys
import chatsnapshot
ledger = chatsnapshot.open(sys.argv[1])
ledger.record("execution.message", {}, correlation_id=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
while ledger.record("execution.message", {"text": "x" * 300}, correlation_id=sys.argv[2]).position < 4_000:
    pass
"""


def test_each_of_four_writer_processes_gets_a_quarter_of_its_fair_share_at_least(
    path: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    names = ["a", "b", "c", "d"]
    writers = [program(WRITER, path, name) for name in names]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        _, err = writer.communicate(timeout=100)
        assert writer.returncode == 0, err
    with chatsnapshot.open(path) as ledger:
        entries = list(ledger.read(after=4, until=4_000))
        assert ledger.verify().ok
    # Counted from where all four had begun: until then a slow start is not the lock's doing.
    begun = max(next(entry.position for entry in entries if entry.correlation_id == name) for name in names)
    shares = Counter(entry.correlation_id for entry in entries if entry.position >= begun)
    total = sum(shares.values())
    print({name: round(shares[name] / total, 3) for name in names}, f"of {total}")
    assert total > 2_000
    assert min(shares[name] for name in names) >= total / 4 / 4
