"""A service with keys, and raw sockets to attack it with."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from chatsnapshot.server.keys import Keys


class Raw:
    """A connection on which anything can be sent."""

    def __init__(self, url: str) -> None:
        host, port = url.partition("://")[2].split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> bytes:
        """Everything until the service closes the connection."""
        found = b""
        try:
            while piece := self.socket.recv(65_536):
                found += piece
        except ConnectionResetError:
            pass
        return found

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Keys]:
    """A file of keys, ``keys.db`` in the test's folder."""
    found = Keys(str(tmp_path / "keys.db"), create=True)
    yield found
    found.close()


@pytest.fixture
def key(keys: Keys) -> Callable[..., str]:
    """``key("read", ledgers=["a"])``: the text of a new key."""
    return lambda *scopes, **more: keys.create(scopes, **more)[1]


@pytest.fixture
def keyed(serve: Callable[..., Any], keys: Keys, tmp_path: Path) -> Any:
    """A service with keys over a new ledger, ``runs.db``."""
    return serve("--ledger", tmp_path / "runs.db", "--keys", keys.path)


@pytest.fixture
def two(serve: Callable[..., Any], keys: Keys, tmp_path: Path) -> Any:
    """A service with keys over the ledgers ``a`` and ``b``."""
    return serve(
        "--ledger-named", f"a={tmp_path / 'a.db'}", "--ledger-named", f"b={tmp_path / 'b.db'}", "--keys", keys.path
    )  # fmt: skip


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``command("keys", "list")``: the command line, its outcome."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "chatsnapshot", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


class Kit:
    """What every test of this folder uses."""

    LINES: ClassVar = {"content-type": "application/x-ndjson"}
    JSON: ClassVar = {"content-type": "application/json"}

    @staticmethod
    def bearer(text: str) -> dict[str, str]:
        """The header that a key goes in."""
        return {"Authorization": f"Bearer {text}"}

    @staticmethod
    def event(**more: Any) -> dict[str, Any]:
        """An event to record."""
        return {"event_type": "execution.message", "correlation_id": "run-1", "payload": {"n": 1}, **more}

    @staticmethod
    def kind(answer: httpx.Response) -> str:
        """The word for the problem that an answer is."""
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        found: str = answer.json()["type"]
        return found.removeprefix("urn:chatsnapshot:problem:")

    @staticmethod
    def raw(url: str) -> Raw:
        """A connection on which anything can be sent."""
        return Raw(url)

    @staticmethod
    def until(what: Callable[[], Any], seconds: float = 20.0) -> Any:
        """What it gives once that is true."""
        end = time.monotonic() + seconds
        while not (found := what()):
            assert time.monotonic() < end, "it did not come"
            time.sleep(0.02)
        return found


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    """The parts above."""
    return Kit


@pytest.fixture(scope="module")
def open_service(module_served: Any) -> Any:
    """A service without keys that the tests of a module share; its ledger is ``open_service.path``."""
    return module_served


_PROGRAM = """
import sys, msgspec
from chatsnapshot.server.access import KeyGate
from chatsnapshot.server.keys import Keys
from chatsnapshot.server.service import Service
from chatsnapshot.server.serving import listen, serve
from chatsnapshot.server.settings import Settings
path, keys, limits = sys.argv[1:]
settings = Settings(ledgers={"main": path}, **msgspec.json.decode(limits))
sock = listen("127.0.0.1", 0)
print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
sys.exit(serve(Service(settings, KeyGate(Keys(keys)) if keys else None), sock))
"""


class Limited:
    """A service in a process of its own, with limits that the command line does not set."""

    def __init__(self, path: Path, keys: str, limits: dict[str, Any]) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(path), keys, json.dumps(limits)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.client = httpx.Client(base_url=self.url, timeout=30)

    def end(self) -> str:
        """SIGTERM; what it wrote to standard error."""
        self.client.close()
        self.process.terminate()
        return self.process.communicate(timeout=30)[1]


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Callable[..., Limited]]:
    """``limited(head_seconds_max=1)``: a service with these settings over ``runs.db``; ``keys=path`` asks for keys."""
    running: list[Limited] = []

    def start(*, keys: str = "", **limits: Any) -> Limited:
        running.append(Limited(tmp_path / "runs.db", keys, limits))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.end()
