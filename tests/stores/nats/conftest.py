"""A NATS server for the tests, one for each session; indexes go into a folder of the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chatsnapshot.testing.servers.nats import NatsServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def _server() -> Iterator[NatsServer | None]:
    if NatsServer.missing():
        yield None
        return
    with NatsServer(own=True) as server:
        yield server


@pytest.fixture
def server(_server: NatsServer | None, require: Callable[[object, str], None]) -> NatsServer:
    require(_server is not None, NatsServer.missing())
    assert _server is not None
    return _server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the indexes of a test are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "chatsnapshot" / "nats"


@pytest.fixture
def place(server: NatsServer) -> str:
    """The URL of a ledger that is not there yet."""
    return f"{server.url}?ledger=test-{next(_numbers)}"
