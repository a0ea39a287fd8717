"""What size changes: append rate, reading one run, verifying, bytes an event.

To 10^6 events by default (about 0.6 GB); ``--large`` goes on to 10^7 (about 6 GB).
"""

from __future__ import annotations

import os
import statistics
import time
import uuid
from hashlib import sha256

import apsw

import chatsnapshot
from benchmarks.workload import PAYLOAD

RUN_EVENTS = 1_000
ACTIVE = 50
"""Runs that are under way at once, each of RUN_EVENTS events; their ids are spread like random UUIDs."""


def run(folder: str, rounds: int, large: bool = False) -> None:
    path = os.path.join(folder, "growth.db")
    sizes = [10**4, 10**5, 10**6] + ([10**7] if large else [])
    print("Growth on SQLite: one run of 1,000 events read, and the rate of appending batches of 1,000")
    rates: dict[int, float] = {}
    reads: dict[int, float] = {}
    with chatsnapshot.open(path) as ledger:
        number = 0
        for size in sizes:
            recent: list[float] = []
            while ledger.head < size - RUN_EVENTS:
                batch = [
                    {
                        "event_type": "execution.message",
                        "correlation_id": _run_of(number + index),
                        "payload": PAYLOAD,
                    }
                    for index in range(1000)
                ]
                number += 1000
                begin = time.perf_counter()
                ledger.record_many(batch)
                recent.append(1000 / (time.perf_counter() - begin))
            probe = f"probe-{size}"
            ledger.record_many(
                [
                    {"event_type": "execution.message", "correlation_id": probe, "payload": PAYLOAD}
                    for _ in range(RUN_EVENTS)
                ]
            )
            rates[size] = statistics.median(recent[-100:])
            times = []
            for _ in range(rounds * 4):
                begin = time.perf_counter()
                count = sum(1 for entry in ledger.replay(probe) if entry.payload)
                times.append(time.perf_counter() - begin)
                assert count == RUN_EVENTS
            reads[size] = statistics.median(times)
            print(
                f"  {size:>10,} events: append {rates[size]:>9,.0f} events/s, one run {reads[size] * 1e3:6.2f} ms"
            )
        spread = max(reads.values()) / min(reads.values())
        print(f"  one run of 1,000 events, slowest / fastest over sizes: {spread:.2f} (constant: near 1)")
        kept = rates[10**6] / rates[10**5]
        print(f"  append at 10^6 / at 10^5: {kept:.2f}{'  ok' if kept >= 0.9 else '  BELOW 0.9'}")
        _verify(ledger, path, large)
    _bytes(path)


def _run_of(number: int) -> str:
    """The run that an event belongs to: ACTIVE runs take turns until each has its events, then the next ones come."""
    generation, slot = number // (ACTIVE * RUN_EVENTS), number % ACTIVE
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{generation}/{slot}"))


def _verify(ledger: chatsnapshot.Ledger, path: str, large: bool) -> None:
    """Verification beside the hashing alone of the same bytes."""
    print("verify beside bare hashing of the same bytes (≥ 0.5)")
    if large:
        print("  (at 10^7 both take minutes: one round)")
    ratios = []
    for _ in range(1 if large else 3):
        begin = time.perf_counter()
        report = ledger.verify()
        ours = time.perf_counter() - begin
        assert report.ok
        begin = time.perf_counter()
        _bare_hashing(path)
        bare = time.perf_counter() - begin
        ratios.append(bare / ours)
    found = statistics.median(ratios)
    print(
        f"  {report.entries / ours:,.0f} entries/s, bare {report.entries / bare:,.0f}: ratio {found:.2f}"
        f"{'  ok' if found >= 0.5 else '  BELOW 0.5'}"
    )


def _bare_hashing(path: str) -> None:
    """Read the rows, hash commitment, leaf and nodes; no header is built, nothing is compared."""
    db = apsw.Connection(path, apsw.SQLITE_OPEN_READONLY)
    sql = (
        "SELECT salt, payload, CAST(event_id || correlation_id || event_type || timestamp || recorded_at || source "
        "|| commitment || 'the names of the keys of a header' AS BLOB) FROM entry ORDER BY position"
    )
    level: list[bytes] = []
    for salt, payload, columns in db.execute(sql):
        sha256(b"\x02" + salt + payload).digest()
        level.append(sha256(b"\x00" + columns).digest())
        if len(level) == 256:
            while len(level) > 1:
                level = [sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level), 2)]
            level = []
    db.close()


def _bytes(path: str) -> None:
    """Where the bytes are: pages of each table and index, by SQLite's own account."""
    db = apsw.Connection(path, apsw.SQLITE_OPEN_READONLY)
    events = db.execute("SELECT size FROM head").get
    total = os.path.getsize(path)
    print(f"Bytes an event: {total / events:.0f} in the file, of which payload {len_of_payload(db):.0f}")
    try:
        shares = db.execute(
            "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 6"
        ).fetchall()
    except apsw.SQLError:
        shares = []
    for name, size in shares:
        print(f"  {name:<28} {size / events:7.1f}")
    db.close()


def len_of_payload(db: apsw.Connection) -> float:
    """Mean stored payload bytes."""
    return float(db.execute("SELECT avg(payload_bytes) FROM entry WHERE position > 1000").get)
