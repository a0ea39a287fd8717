"""Recording over HTTP: direct mode beside a raw loop of requests to the same service, the spool beside local SQLite."""

from __future__ import annotations

import http.client
import os

import msgspec

import chatsnapshot
from benchmarks.measure import interleave, row
from benchmarks.workload import PAYLOAD, batch
from chatsnapshot.testing.servers.http import HttpServer

EVENTS = {1: 200, 10: 1_000, 100: 4_000, 1000: 8_000}
SPOOLED = {1: 200, 10: 2_000, 100: 5_000, 1000: 10_000}


class RawLoop:
    """``POST /v1/events`` with JSON over one connection, and nothing else: no ids, no retries, no entries made."""

    def __init__(self, server: HttpServer, name: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port)
        self._path = f"/v1/ledgers/{name}/events"

    def post(self, events: list[dict[str, object]]) -> None:
        """One batch, and its answer."""
        self._connection.request(
            "POST", self._path, msgspec.json.encode(events), {"Content-Type": "application/json"}
        )
        answer = self._connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data


def run(folder: str, rounds: int) -> None:
    os.environ["XDG_STATE_HOME"] = os.path.join(folder, "state")
    with HttpServer("--redact", "none") as server:
        print("Recording over HTTP, mode=direct (limit: a raw loop of POST /v1/events on the same service)")
        for size, total in EVENTS.items():
            _direct(server, size, total, rounds)
        print("Recording by way of a spool while a service takes it (beside: a local SQLite ledger)")
        for size, total in SPOOLED.items():
            _spooled(server, folder, size, total, rounds)
        _drained(server)


def _direct(server: HttpServer, size: int, total: int, rounds: int) -> None:
    with chatsnapshot.open(f"{server.address}?mode=direct&ledger=us-{size}") as ledger:
        chatsnapshot.open(f"{server.address}?mode=direct&ledger=raw-{size}").close()
        raw = RawLoop(server, f"raw-{size}")

        def limit() -> int:
            for _ in range(total // size):
                raw.post(batch(size))
            return total

        def ours() -> int:
            return _record(ledger, size, total)

        found = interleave({"us": ours, "raw": limit}, rounds)
        print(row(f"  batch {size}", found["us"], found["raw"], "raw", None))


def _spooled(server: HttpServer, folder: str, size: int, total: int, rounds: int) -> None:
    local = chatsnapshot.open(os.path.join(folder, f"local-{size}.db"))
    with local, chatsnapshot.open(f"{server.address}?ledger=spool-{size}") as ledger:

        def ours() -> int:
            return _record(ledger, size, total)

        def sqlite() -> int:
            return _record(local, size, total)

        found = interleave({"us": ours, "sqlite": sqlite}, rounds, before=lambda: ledger.flush(120))
        print(row(f"  batch {size}", found["us"], found["sqlite"], "sqlite", None))
        ledger.flush(120)


def _drained(server: HttpServer) -> None:
    """How fast a spool that has filled is sent."""
    import time

    count = 10_000
    name = f"{server.address}?ledger=drain"
    with chatsnapshot.open(name) as ledger:
        ledger.flush(120)
        server.stop()
        _record(ledger, 100, count)
        server.start()
        begin = time.perf_counter()
        ledger.flush(120)
        print(f"  sent after an outage: {count / (time.perf_counter() - begin):,.0f} events/s")


def _record(ledger: chatsnapshot.Ledger, size: int, total: int) -> int:
    if size == 1:
        for _ in range(total):
            ledger.record("execution.message", PAYLOAD, correlation_id="run-1")
    else:
        for _ in range(total // size):
            ledger.record_many(batch(size))
    return total
