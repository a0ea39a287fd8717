"""A service and a spool for each test: the spool lies in the test's own folder."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.ledger import Ledger
from chatsnapshot.stores.spool import store
from chatsnapshot.stores.spool.forwarder import Backoff
from chatsnapshot.testing.faults.addresses import address_of, through
from chatsnapshot.testing.faults.proxy import Proxy
from chatsnapshot.testing.servers.http import HttpServer


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the spools of a test are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "chatsnapshot" / "spool"


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses after failures are short. A read waits as long as a slow machine needs; a failure ends that at once."""
    monkeypatch.setattr(Backoff, "SECONDS_MAX", 0.05)
    monkeypatch.setattr(store, "READ_SECONDS_MAX", 30.0)


@pytest.fixture
def server(servers: Callable[[str], Any], require: Callable[[object, str], None]) -> Iterator[HttpServer]:
    """A service that is up at the start of a test."""
    found = servers("http")
    require(isinstance(found, HttpServer), f"a service ({found})")
    found.start()
    yield found
    found.start()


@pytest.fixture
def place(server: HttpServer) -> str:
    """The URL of a ledger that is not there yet, by way of a spool."""
    return f"{server.address}?ledger=test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def proxied(place: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy in front of the service, and the place by way of it."""
    with Proxy(address_of(place)) as proxy:
        yield proxy, through(place, proxy.address)


def direct(place: str) -> Ledger:
    """The ledger itself, without a spool."""
    return chatsnapshot.open(f"{place}&mode=direct")


def message(number: int, correlation: str = "run-1") -> dict[str, Any]:
    return {
        "event_type": "execution.message",
        "payload": {"role": "user", "content": f"number {number}"},
        "correlation_id": correlation,
    }


def numbers(ledger: Ledger, correlation: str = "run-1") -> list[int]:
    """The numbers of the messages in a ledger, in its order."""
    return [int(entry.payload["content"].split(" ")[1]) for entry in ledger.read(correlation_id=correlation)]


PROGRAM = """
import sys, os, logging
import chatsnapshot
from chatsnapshot.stores.spool.forwarder import Backoff
logging.disable(logging.CRITICAL)
Backoff.SECONDS_MAX = 0.05
place = sys.argv[1]
snapshot = chatsnapshot.open(place)
def record(first, count, correlation="run-1"):
    for number in range(first, first + count):
        snapshot.record("execution.message", {"role": "user", "content": f"number {number}"},
                        correlation_id=correlation)
"""


class Program:
    """A process that records by way of the spool; it says ``ready`` lines and waits for lines."""

    def __init__(self, place: str, text: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM + text, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """What it says next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.end()

    def end(self, seconds: float = 30) -> int:
        """Its exit code."""
        code = self.process.wait(seconds)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return code


@pytest.fixture
def program() -> Iterator[Callable[[str, str], Program]]:
    started: list[Program] = []

    def start(place: str, text: str) -> Program:
        started.append(Program(place, text))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


class Kit:
    """What the tests of the spool share."""

    direct = staticmethod(direct)
    message = staticmethod(message)
    numbers = staticmethod(numbers)


@pytest.fixture
def kit() -> Kit:
    return Kit()
