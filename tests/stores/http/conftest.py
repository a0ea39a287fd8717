"""A service for the tests of the HTTP store, one a test process; each test has a ledger of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot.testing.servers.http import HttpServer


@pytest.fixture
def server(servers: Callable[[str], Any], require: Callable[[object, str], None]) -> HttpServer:
    found = servers("http")
    require(isinstance(found, HttpServer), f"a service ({found})")
    found.start()
    return found


@pytest.fixture
def place(server: HttpServer) -> str:
    """The URL of a ledger that is not there yet, in direct mode."""
    return f"{server.address}?mode=direct&ledger=test-{uuid.uuid4().hex[:12]}"
