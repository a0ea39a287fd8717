"""A MongoDB server for these tests: SecantusDB in a process of its own, or the one that the environment names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chatsnapshot.testing.servers.mongodb import MongodbServer

_numbers = itertools.count()


@pytest.fixture
def server(servers: Callable[[str], Any], require: Callable[[object, str], None]) -> MongodbServer:
    """The server of this test process, running."""
    found = servers("mongodb")
    require(not isinstance(found, Exception), f"a MongoDB server ({found})")
    assert isinstance(found, MongodbServer)
    found.start()
    return found


@pytest.fixture
def url(server: MongodbServer) -> str:
    """A database of its own."""
    return server.database(f"cs-{os.getpid()}-{next(_numbers)}")


@pytest.fixture
def database(url: str) -> Iterator[Any]:
    """The same database by the driver alone."""
    import pymongo

    with pymongo.MongoClient(url) as client:
        yield client.get_default_database()
