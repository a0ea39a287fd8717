"""OTLP over HTTP into ``chatsnapshot serve``: spans accepted and readable, CPU of both ends, memory, and kill -9."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import chatsnapshot
from benchmarks.otlpload import BATCH, bodies, children_of, cpu_of, rss_of, send

SPANS = 20_000
WANTED = 10_000
RSS_MB_WANTED = 150


class Served:
    """A service in a process of its own, over a new SQLite ledger."""

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chatsnapshot", "serve", "--port", "0", "--ledger", str(ledger)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split(" ")[0]

    def head(self) -> int:
        """The last position, asked over HTTP."""
        with urllib.request.urlopen(f"{self.url}/v1/head") as answer:
            return int(json.load(answer)["position"])

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


def run(folder: str, rounds: int, spans: int = SPANS) -> None:
    size = sum(map(len, bodies(1_000))) / 1_000
    print(
        f"OTLP/HTTP protobuf, {spans:,} spans of {size:,.0f} bytes in batches of {BATCH}, a commit before each 200"
    )
    for connections in (1, 4):
        _measure(Path(folder) / f"{connections}.db", rounds, spans, connections)
    _kill(Path(folder) / "kill.db", 2_000)


def _measure(ledger: Path, rounds: int, spans: int, connections: int) -> None:
    served = Served(ledger)
    try:
        send(f"{served.url}/v1/traces", bodies(2_000), connections)  # warms up
        pid = served.process.pid
        rates: list[float] = []
        cpus: list[float] = []
        beside: list[float] = []
        clients: list[float] = []
        for _ in range(rounds):
            requests = bodies(spans)
            before, cpu, helped = served.head(), cpu_of(pid), sum(map(cpu_of, children_of(pid)))
            began = time.perf_counter()
            sent = send(f"{served.url}/v1/traces", requests, connections)
            stored = served.head() - before
            took = time.perf_counter() - began
            if stored != 2 * spans:
                raise RuntimeError(f"{stored} events are readable after the last 200, not {2 * spans}")
            rates.append(spans / took)
            cpus.append((cpu_of(pid) - cpu) / spans * 1_000)
            beside.append((sum(map(cpu_of, children_of(pid))) - helped) / spans * 1_000)
            clients.append(sent.cpu / spans * 1_000)
        rss, most = rss_of(pid) / 2**20, rss_of(pid, "VmHWM") / 2**20
    finally:
        served.end()
    rate = statistics.median(rates)
    own = statistics.median(cpus) - statistics.median(beside)
    limit = 1_000 / max(own, statistics.median(beside))
    print(
        f"  {connections} connection{'s' if connections > 1 else ' '} accepted and readable {rate:>8,.0f} spans/s "
        f"({min(rates):,.0f} to {max(rates):,.0f}){_verdict(rate >= WANTED, f'{WANTED:,}')}"
    )
    print(
        f"    CPU a 1,000 spans: server {own:.3f} s and {statistics.median(beside):.3f} s in its second process "
        f"(a core for each: {limit:,.0f} spans/s), "
        f"client {statistics.median(clients):.3f} s"
    )
    print(
        f"    memory of the server {rss:.0f} MB, at most {most:.0f} MB{_verdict(most < RSS_MB_WANTED, RSS_MB_WANTED)}"
    )


def _verdict(good: bool, wanted: object) -> str:
    return "  ok" if good else f"  MISSES {wanted}"


def _kill(ledger: Path, spans: int) -> None:
    """kill -9 straight after the last 200: everything acknowledged is there."""
    served = Served(ledger)
    send(f"{served.url}/v1/traces", bodies(spans), 1)
    served.end(signal.SIGKILL)
    with chatsnapshot.open(ledger, read_only=True) as found:
        lost = 2 * spans - found.head
        sound = found.verify().ok
    print(f"  kill -9 after the last 200: {lost} of {2 * spans:,} events lost, ledger sound: {sound}")
