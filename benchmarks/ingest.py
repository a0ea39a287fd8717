"""Ingest: lines of JSON from a file, beside record_many of the same events in this process."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec

import chatsnapshot
from benchmarks.measure import interleave, row
from benchmarks.workload import batch

EVENTS = 20_000
BATCH = 1_000


def run(folder: str, rounds: int) -> None:
    print(
        "Ingest of 20,000 lines from a file (limit: record_many of the same events, batches of 1,000 ≥ 0.5)"
    )
    lines = Path(folder, "events.ndjson")
    lines.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in batch(EVENTS)))
    numbers = itertools.count()

    def fresh() -> chatsnapshot.Ledger:
        return chatsnapshot.open(Path(folder, f"{next(numbers)}.db"))

    def many() -> int:
        with fresh() as ledger:
            for _ in range(EVENTS // BATCH):
                ledger.record_many(batch(BATCH))
        return EVENTS

    def as_they_are() -> int:
        with fresh() as ledger:
            return ledger.ingest(lines, redact=None).stored

    def redacted() -> int:
        with fresh() as ledger:
            return ledger.ingest(lines).stored

    known = fresh()
    known.ingest(lines)

    def again() -> int:
        return known.ingest(lines).known

    found = interleave({"many": many, "plain": as_they_are, "redacted": redacted, "again": again}, rounds)
    print(row("  redact=None", found["plain"], found["many"], "limit", 0.5))
    print(row("  secrets taken out", found["redacted"], found["many"], "limit", None))
    print(row("  known already", found["again"], found["many"], "limit", None))
    known.close()
