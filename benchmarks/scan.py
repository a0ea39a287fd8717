"""Full scan: every entry read in order, its payload decoded."""

from __future__ import annotations

import os

import apsw
import msgspec

import chatsnapshot
from benchmarks.measure import interleave, row
from benchmarks.peers import EventSourcing
from benchmarks.workload import PAYLOAD, batch
from chatsnapshot.stores.sqlite_read import COLUMNS

EVENTS = 50_000


def run(folder: str, rounds: int) -> None:
    print(
        "Full scan, payloads decoded (limit: bare apsw and msgspec ≥ 0.8, peer: eventsourcing on its own file ≥ 3)"
    )
    path = os.path.join(folder, "scan.db")
    ledger = chatsnapshot.open(path)
    peer = EventSourcing(os.path.join(folder, "scan-peer.db"))
    for _ in range(EVENTS // 1000):
        ledger.record_many(batch(1000))
        peer.append([PAYLOAD] * 1000)
    bare_db = apsw.Connection(path, apsw.SQLITE_OPEN_READONLY)

    def limit() -> int:
        count = 0
        decode = msgspec.json.decode
        for found in bare_db.execute(f"SELECT {COLUMNS} FROM entry ORDER BY position"):
            decode(found[9])
            count += 1
        return count

    def ours() -> int:
        count = 0
        for entry in ledger.read():
            entry.payload  # noqa: B018  # decoding is what is measured
            count += 1
        return count

    def envelopes() -> int:
        count = 0
        for entry in ledger.read():
            entry.event.payload  # noqa: B018  # decoding is what is measured
            count += 1
        return count

    found = interleave({"limit": limit, "us": ours, "envelopes": envelopes, "peer": peer.read_all}, rounds)
    print(row("  entries", found["us"], found["limit"], "limit", 0.8))
    print(row("  entries", found["us"], found["peer"], "peer ", 3.0))
    print(row("  entries and envelopes", found["envelopes"], found["limit"], "limit", None))
    ledger.close()
    peer.close()
