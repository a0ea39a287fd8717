"""Attempts to change a PostgreSQL ledger behind its back, as the role of the URL: mostly the owner, or a superuser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chatsnapshot.stores.open import locate

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.testing.bench import Bench

__all__ = ["POSTGRESQL_ATTACKS", "POSTGRESQL_TAMPERINGS"]

_OF = "ledger = (SELECT number FROM chatsnapshot.ledger WHERE name = %(name)s)"
_COPY = (
    "INSERT INTO chatsnapshot.entry (ledger, sequence, position, event_id, payload_bytes, recorded_at, event_type, "
    '"timestamp", source, correlation_id, leaf, commitment) SELECT ledger, 1, {position}, {event_id}, payload_bytes, '
    f"recorded_at, event_type, \"timestamp\", source, 'new', leaf, commitment FROM chatsnapshot.entry WHERE {_OF} "
    "AND position = 3"
)

_STATEMENTS = {
    "change a type": f"UPDATE chatsnapshot.entry SET event_type = 'execution.forged' WHERE {_OF} AND position = 3",
    "change a correlation": f"UPDATE chatsnapshot.entry SET correlation_id = 'other' WHERE {_OF} AND position = 3",
    "change a position": f"UPDATE chatsnapshot.entry SET position = 99 WHERE {_OF} AND position = 3",
    "change a time": (
        f"UPDATE chatsnapshot.entry SET recorded_at = '2001-01-01T00:00:00.000000Z' WHERE {_OF} AND position = 3"
    ),
    "change a leaf": f"UPDATE chatsnapshot.entry SET leaf = '\\x00' WHERE {_OF} AND position = 3",
    "replace a payload": (
        f"UPDATE chatsnapshot.payload SET payload = convert_to('{{}}', 'UTF8') WHERE {_OF} AND position = 3"
    ),
    "move a payload": f"UPDATE chatsnapshot.payload SET position = 99 WHERE {_OF} AND position = 3",
    "remove the row of a payload": f"DELETE FROM chatsnapshot.payload WHERE {_OF} AND position = 3",
    "remove all payloads": "TRUNCATE chatsnapshot.payload",
    "remove an entry": f"DELETE FROM chatsnapshot.entry WHERE {_OF} AND position = 3",
    "remove the last entry": f"DELETE FROM chatsnapshot.entry WHERE {_OF} AND position = 6",
    "remove all of a ledger": f"DELETE FROM chatsnapshot.entry WHERE {_OF}",
    "empty the table": "TRUNCATE chatsnapshot.entry",
    "replace an entry": (
        f"INSERT INTO chatsnapshot.entry SELECT * FROM chatsnapshot.entry WHERE {_OF} AND position = 3 "
        "ON CONFLICT (ledger, position) DO UPDATE SET event_type = 'execution.forged'"
    ),
    "insert a known id": _COPY.format(position="7", event_id="event_id"),
    "insert before the end": _COPY.format(position="0", event_id="gen_random_uuid()"),
    "leave a hole": _COPY.format(position="9", event_id="gen_random_uuid()"),
    "set the head back": f"UPDATE chatsnapshot.head SET size = 5 WHERE {_OF}",
    "set the head forward": f"UPDATE chatsnapshot.head SET size = 7 WHERE {_OF}",
    "remove the head": f"DELETE FROM chatsnapshot.head WHERE {_OF}",
    "change the id of the ledger": (
        "UPDATE chatsnapshot.ledger SET ledger_id = gen_random_uuid()::text WHERE name = %(name)s"
    ),
    "make a tile": f"INSERT INTO chatsnapshot.tile SELECT ledger, 0, 0, '' FROM chatsnapshot.head WHERE {_OF}",
    "remove the tiles": f"DELETE FROM chatsnapshot.tile WHERE {_OF}",
}


@contextmanager
def _connected(place: str) -> Iterator[Any]:
    from chatsnapshot.stores.postgresql.driver import psycopg

    with psycopg.connect(locate(place).target, autocommit=True) as connection:
        yield connection


def _attempt(sql: str) -> Callable[[Bench, str], None]:
    def attack(bench: Bench, place: str) -> None:
        with _connected(place) as connection:
            connection.execute(sql, {"name": locate(place).ledger})

    return attack


def _without_triggers(statements: Sequence[str]) -> Callable[[Bench, str, Ledger], Ledger]:
    def tamper(bench: Bench, place: str, ledger: Ledger) -> Ledger:
        ledger.close()
        with _connected(place) as connection:
            connection.execute("SET session_replication_role = replica")
            for statement in statements:
                connection.execute(statement, {"name": locate(place).ledger})
        return bench.open(place)

    return tamper


_EXCHANGE = [
    f"UPDATE chatsnapshot.{table} SET position = {new} WHERE {_OF} AND position = {old}"
    for old, new in ((3, 99), (4, 3), (99, 4))
    for table in ("entry", "payload")
]

POSTGRESQL_ATTACKS = {name: _attempt(sql) for name, sql in _STATEMENTS.items()}

POSTGRESQL_TAMPERINGS = {
    "a type was changed": _without_triggers([_STATEMENTS["change a type"]]),
    "a payload was changed": _without_triggers([_STATEMENTS["replace a payload"]]),
    "a payload was removed": _without_triggers(
        [f"UPDATE chatsnapshot.payload SET payload = NULL, salt = NULL WHERE {_OF} AND position = 3"]
    ),
    "a leaf was changed": _without_triggers(
        [f"UPDATE chatsnapshot.entry SET leaf = sha256('\\x00') WHERE {_OF} AND position = 3"]
    ),
    "an entry was removed": _without_triggers([_STATEMENTS["remove an entry"]]),
    "two entries changed places": _without_triggers(_EXCHANGE),
}
