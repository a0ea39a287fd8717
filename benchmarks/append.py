"""Durable append on SQLite, 300-byte payloads, batches of 1, 10, 100 and 1000."""

from __future__ import annotations

import os

import chatsnapshot
from benchmarks.measure import interleave, row
from benchmarks.peers import EventSourcing
from benchmarks.straight import StraightLine
from benchmarks.workload import PAYLOAD, batch

EVENTS = {1: 400, 10: 4_000, 100: 10_000, 1000: 20_000}


def run(folder: str, rounds: int) -> None:
    print("Durable append on SQLite (limit: straight-line loop ≥ 0.85, peer: eventsourcing recorder ≥ 1.0)")
    for size, total in EVENTS.items():
        straight = StraightLine(os.path.join(folder, f"limit-{size}.db"))
        peer = EventSourcing(os.path.join(folder, f"peer-{size}.db"))
        ledger = chatsnapshot.open(os.path.join(folder, f"us-{size}.db"))

        def limit(straight: StraightLine = straight, size: int = size, total: int = total) -> int:
            for _ in range(total // size):
                straight.append([PAYLOAD] * size)
            return total

        def theirs(peer: EventSourcing = peer, size: int = size, total: int = total) -> int:
            for _ in range(total // size):
                peer.append([PAYLOAD] * size)
            return total

        def ours(ledger: chatsnapshot.Ledger = ledger, size: int = size, total: int = total) -> int:
            if size == 1:
                for _ in range(total):
                    ledger.record("execution.message", PAYLOAD, correlation_id="run-1")
            else:
                for _ in range(total // size):
                    ledger.record_many(batch(size))
            return total

        found = interleave({"limit": limit, "us": ours, "peer": theirs}, rounds)
        print(row(f"  batch {size}", found["us"], found["limit"], "limit", 0.85))
        print(row(f"  batch {size}", found["us"], found["peer"], "peer ", 1.0))
        ledger.close()
        straight.db.close()
        peer.close()
