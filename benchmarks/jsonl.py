"""Durable append to a JSONL ledger beside a bare loop that encodes, writes once and syncs."""

from __future__ import annotations

import os

import msgspec

import chatsnapshot
from benchmarks.append import EVENTS
from benchmarks.measure import interleave, row
from benchmarks.workload import PAYLOAD, batch


def run(folder: str, rounds: int) -> None:
    print("Durable append to JSONL (limit: encode, one write, fdatasync; no order, no ids known, no tree)")
    for size, total in EVENTS.items():
        ledger = chatsnapshot.open(os.path.join(folder, f"us-{size}.jsonl"))
        descriptor = os.open(
            os.path.join(folder, f"bare-{size}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        envelope = {
            "event_id": "0199c2f4-6c1e-7a52-8a37-0c7c1f0b9d11",
            "event_type": "execution.message",
            "timestamp": "2026-11-30T02:26:03.123456Z",
            "source": {"origin": "agent", "runtime": "none"},
            "correlation_id": "run-1",
            "causation_id": None,
            "payload": PAYLOAD,
        }

        def limit(
            descriptor: int = descriptor, size: int = size, total: int = total, event: object = envelope
        ) -> int:
            encode = msgspec.json.encode
            for _ in range(total // size):
                os.write(descriptor, b"".join([encode(event) + b"\n" for _ in range(size)]))
                os.fdatasync(descriptor)
            return total

        def ours(ledger: chatsnapshot.Ledger = ledger, size: int = size, total: int = total) -> int:
            for _ in range(total // size):
                ledger.record_many(batch(size))
            return total

        found = interleave({"limit": limit, "us": ours}, rounds)
        print(row(f"  batch {size}", found["us"], found["limit"], "limit", None))
        ledger.close()
        os.close(descriptor)
