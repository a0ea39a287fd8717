"""The HTTP service: lines and single events beside the same in this process, and 200 live streams at 500 events/s."""

from __future__ import annotations

import http.client
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

import chatsnapshot
from benchmarks.measure import interleave, row
from benchmarks.workload import batch

EVENTS = 20_000
SINGLES = 300
STREAMS = 200
A_SECOND = 500
SECONDS = 10


class Serving:
    """A service in a process of its own, over a new SQLite file."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "chatsnapshot", "serve", "--port", "0", "--ledger", str(path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split(" ")[0].rpartition(":")[2])

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def cpu_seconds(self) -> float:
        """CPU seconds of the service so far, user and system, as it tells them."""
        connection = self.connect()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return float(text.split("\nprocess_cpu_seconds_total ")[1].split("\n")[0])


@contextmanager
def serving(path: Path) -> Iterator[Serving]:
    service = Serving(path)
    try:
        yield service
    finally:
        service.process.terminate()
        service.process.communicate(timeout=30)


def run(folder: str, rounds: int) -> None:
    print("HTTP: lines (limit: ingest of the same file in this process ≥ 0.5), streams (limit: p99 ≤ 250 ms)")
    lines = Path(folder, "events.ndjson")
    lines.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in batch(EVENTS)))
    with serving(Path(folder, "served.db")) as service:
        _lines(folder, rounds, service, lines)
        _singles(folder, rounds, service)
    with serving(Path(folder, "streams.db")) as service:
        _streams(service)


def _lines(folder: str, rounds: int, service: Serving, lines: Path) -> None:
    numbers = itertools.count()

    def inside() -> int:
        with chatsnapshot.open(Path(folder, f"in-{next(numbers)}.db")) as ledger:
            return ledger.ingest(lines).stored

    def over_http() -> int:
        connection = service.connect()
        headers = {"Content-Type": "application/x-ndjson"}
        connection.request("POST", f"/v1/events?name={next(numbers)}", lines.read_bytes(), headers)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status == 200, told
        connection.close()
        return int(told["stored"])

    before, stored = service.cpu_seconds(), 0

    def counted() -> int:
        nonlocal stored
        stored += (found := over_http())
        return found

    found = interleave({"http": counted, "inside": inside}, rounds)
    print(row("  20,000 lines in one upload", found["http"], found["inside"], "in process", 0.5))
    spent = (service.cpu_seconds() - before) / stored * 1_000
    print(f"  CPU of the service: {spent * 1_000:.0f} ms for 1,000 lines")


def _singles(folder: str, rounds: int, service: Serving) -> None:
    """One event after another on one connection, and the same with record()."""
    connection = service.connect()
    events = [msgspec.json.encode(event) for event in batch(SINGLES)]
    ledger = chatsnapshot.open(Path(folder, "singles.db"))
    took: dict[str, list[float]] = {"post": [], "record": [], "read": []}
    before, posted = service.cpu_seconds(), 0
    for _ in range(max(1, rounds // 2)):
        for data, event in zip(events, batch(SINGLES), strict=True):
            begin = time.perf_counter()
            connection.request("POST", "/v1/events", data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            took["post"].append(time.perf_counter() - begin)
            assert answer.status == 200
            posted += 1
            begin = time.perf_counter()
            ledger.record(**event)
            took["record"].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            took["read"].append(time.perf_counter() - begin)
    ledger.close()
    names = {"post": "POST of one event", "record": "record() in this process", "read": "GET /healthz"}
    for name, seconds in took.items():
        seconds.sort()
        print(
            f"  {names[name]:<42} p50 {statistics.median(seconds) * 1_000:6.2f} ms   "
            f"p99 {seconds[len(seconds) * 99 // 100] * 1_000:6.2f} ms"
        )
    print(
        f"  CPU of the service: {(service.cpu_seconds() - before) / posted * 1e6:.0f} µs for a POST and a GET"
    )


def _streams(service: Serving) -> None:
    """The generator of the load is a process of its own; it tells what came and how late."""
    before = service.cpu_seconds()
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.streams", *map(str, (service.port, STREAMS, A_SECOND, SECONDS))],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(told.stdout)
    spent = service.cpu_seconds() - before
    items = found["delivered"]
    print(
        f"  {STREAMS} live streams, {found['posted']:,} events posted in {found['posting']:.1f} s: "
        f"{items:,} of {found['posted'] * STREAMS:,} delivered"
    )
    verdict = "ok" if found["p99"] <= 0.25 else "ABOVE 0.25"
    print(
        f"  from before the POST to the client, oldest of each piece: p50 {found['p50'] * 1_000:.0f} ms  "
        f"p99 {found['p99'] * 1_000:.0f} ms  {verdict}"
    )
    print(
        f"  the POST itself: p50 {found['post_p50'] * 1_000:.0f} ms  p99 {found['post_p99'] * 1_000:.0f} ms"
    )
    print(
        f"  CPU for 1,000 deliveries: service {spent / items * 1e6:.2f} ms, clients "
        f"{found['cpu'] / items * 1e6:.2f} ms"
    )
