"""The OTLP load of :mod:`benchmarks.otlp` on other receivers beside ours, and kill -9 on each (``make bench-peers``).

``python -m benchmarks.peers_otlp FOLDER``: it holds an environment ``mlflow`` and one ``phoenix``. All use SQLite and
their own defaults; a span counts as readable when another connection to the database sees it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.otlp import Served
from benchmarks.otlpload import BATCH, HEADERS, bodies, send

SPANS = 2_000
ROUNDS = 3
CONNECTIONS = (1, 4)
PATIENCE_SECONDS = 120
START_SECONDS = 300
WANTED = {"mlflow": 20, "phoenix": 50}


class Found(NamedTuple):
    """Spans a second that were answered with 200, and that could be read."""

    accepted: float
    readable: float


class Peer:
    """A receiver in a process group of its own."""

    def __init__(
        self, name: str, command: list[str], url: str, folder: Path, database: str, **settings: str
    ) -> None:
        self.name = name
        self.url = f"{url}/v1/traces"
        self.headers = {**HEADERS, "x-mlflow-experiment-id": "0"}
        self.database = folder / database
        self.log = (folder / "log.txt").open("wb")
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **settings},
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,
        )
        self.page = url

    def wait(self) -> None:
        """Until it answers; a peer makes its tables first."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(self.page, timeout=20):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.5)
        self.end(signal.SIGKILL)
        raise RuntimeError(f"{self.name} did not start; see {self.log.name}")

    def count(self) -> int:
        """Spans that another connection sees."""
        database = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)
        try:
            return int(database.execute("SELECT count(*) FROM spans").fetchone()[0])
        except sqlite3.OperationalError:
            return 0
        finally:
            database.close()

    def end(self, number: int = signal.SIGTERM) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        self.log.close()


class Ours:
    """``chatsnapshot serve``, asked in the same words."""

    name = "chatsnapshot"
    headers = HEADERS

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "runs.db"
        self.served = Served(self.ledger)
        self.url = f"{self.served.url}/v1/traces"

    def wait(self) -> None:
        """It listens before its address is told."""

    def count(self) -> int:
        import chatsnapshot

        with chatsnapshot.open(self.ledger, read_only=True) as ledger:
            return ledger.head // 2

    def end(self, number: int = signal.SIGTERM) -> None:
        self.served.end(number)


def mlflow(environment: Path, folder: Path) -> Peer:
    port = free_port()
    command = [
        str(environment / "bin" / "mlflow"),
        "server",
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
    ]
    command += ["--port", str(port), "--workers", "1"]
    return Peer("mlflow", command, f"http://127.0.0.1:{port}", folder, "mlflow.db")


def phoenix(environment: Path, folder: Path) -> Peer:
    port = free_port()
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [str(environment / "bin" / "phoenix"), "serve"]
    return Peer("phoenix", command, f"http://127.0.0.1:{port}", folder, "phoenix.db", **settings)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def load(peer: Peer | Ours, connections: int) -> Found:
    """Send the load over so many connections, and wait until all of it can be read."""
    requests, before = bodies(SPANS), peer.count()
    began = time.perf_counter()
    sent = send(peer.url, requests, connections, peer.headers)
    while peer.count() < before + SPANS:
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise RuntimeError(
                f"{peer.name}: {peer.count() - before} of {SPANS} readable after {PATIENCE_SECONDS} s"
            )
        time.sleep(0.02)
    return Found(SPANS / sent.seconds, SPANS / (time.perf_counter() - began))


def main() -> None:
    environments = Path(sys.argv[1]).resolve()
    starts: dict[str, Callable[[Path], Peer | Ours]] = {"chatsnapshot": Ours}
    for name, start in (("mlflow", mlflow), ("phoenix", phoenix)):
        if (environments / name / "bin" / name).exists():
            starts[name] = lambda folder, start=start, name=name: start(environments / name, folder)  # type: ignore[misc]
        else:
            print(f"{name} is not installed in {environments / name}; left out")
    print(
        f"{SPANS:,} spans of 1 KB in batches of {BATCH}, SQLite; medians of {ROUNDS} rounds in turn, after one to warm up"
    )
    with tempfile.TemporaryDirectory(prefix="cs-peers-") as temporary:
        folders = {name: Path(temporary) / name for name in starts}
        for folder in folders.values():
            folder.mkdir()
        _side_by_side(starts, folders)


def _side_by_side(starts: dict[str, Callable[[Path], Peer | Ours]], folders: dict[str, Path]) -> None:
    running: dict[str, Peer | Ours] = {}
    try:
        for name, start in starts.items():
            running[name] = start(folders[name])
        for peer in running.values():
            peer.wait()
        for connections in CONNECTIONS:
            found: dict[str, list[Found]] = {name: [] for name in running}
            for number in range(ROUNDS + 1):
                for name, peer in running.items():
                    one = load(peer, connections)
                    if number:  # the first round warms up
                        found[name].append(one)
            _report(found, connections)
        for name, peer in running.items():
            before = peer.count()
            send(peer.url, bodies(SPANS), 1, peer.headers)
            peer.end(signal.SIGKILL)
            lost = before + SPANS - peer.count()
            print(f"  {name:<13} kill -9 after the last 200: {lost:,} of {SPANS:,} spans lost")
    finally:
        for peer in running.values():
            with contextlib.suppress(ValueError):
                peer.end(signal.SIGKILL)


def _report(found: dict[str, list[Found]], connections: int) -> None:
    print(f"on {connections} connection{'s' if connections > 1 else ''}")
    ours = [one.readable for one in found["chatsnapshot"]]
    for name, rounds in found.items():
        accepted = statistics.median(one.accepted for one in rounds)
        readable = statistics.median(one.readable for one in rounds)
        ratio = statistics.median(mine / one.readable for mine, one in zip(ours, rounds, strict=True))
        verdict = ""
        if wanted := WANTED.get(name):
            verdict = f"  ours {ratio:,.1f} times as many" + (
                "  ok" if ratio >= wanted else f"  MISSES {wanted}"
            )
        print(
            f"  {name:<13} accepted {accepted:>7,.0f} spans/s   readable {readable:>7,.0f} spans/s{verdict}"
        )


if __name__ == "__main__":
    main()
