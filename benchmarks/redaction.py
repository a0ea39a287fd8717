"""What redaction costs: record_many without, with the built-in patterns on clean payloads, and with hits."""

from __future__ import annotations

import time

import msgspec

import chatsnapshot
from benchmarks.measure import interleave, ratio
from benchmarks.workload import PAYLOAD
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.redaction import Redactor

EVENTS = 4_000
BATCH = 100
SOURCE = '{"origin":"agent","runtime":"none"}'

PAYLOADS: dict[str, dict[str, object]] = {
    "clean": PAYLOAD,
    "clean, with an id": {**PAYLOAD, "call_id": "call_" + "aB3dE5" * 4},
    "a hit": {**PAYLOAD, "password": "hunter2"},
}


def run(folder: str, rounds: int) -> None:
    print("Redaction (record_many of 100 on memory:, 300-byte payloads; the time of one event against none)")
    redactor = Redactor()
    contestants = {}
    ledgers = []
    for name, payload in PAYLOADS.items():
        for redact in (None, redactor):
            ledger = chatsnapshot.open("memory:", redact=redact)
            ledgers.append(ledger)

            def record(ledger: chatsnapshot.Ledger = ledger, payload: dict[str, object] = payload) -> int:
                events = [{"event_type": "a.b", "correlation_id": "run-1", "payload": payload}] * BATCH
                for _ in range(EVENTS // BATCH):
                    ledger.record_many(events)
                return EVENTS

            contestants[f"{name}/{redact is not None}"] = record
    found = interleave(contestants, rounds)
    for name, payload in PAYLOADS.items():
        without, with_it = found[f"{name}/False"], found[f"{name}/True"]
        alone = microseconds(redactor, payload)
        print(
            f"  {name:<20} without {without.median:>9,.0f} events/s ±{without.spread:4.0%}   "
            f"with {with_it.median:>9,.0f} ±{with_it.spread:4.0%}   ratio {ratio(with_it, without):5.2f}   "
            f"redaction alone {alone:6.1f} µs"
        )
    for ledger in ledgers:
        ledger.close()


def microseconds(redactor: Redactor, payload: dict[str, object], number: int = 2_000) -> float:
    """The best of five: what one event costs on this machine when nothing else runs."""
    data = msgspec.json.encode(payload)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(number):
            redactor.apply("a.b", "c", data, (), None, SOURCE, DEFAULTS)
        best = min(best, (time.perf_counter() - begin) / number)
    return best * 1e6
