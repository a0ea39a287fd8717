"""Attempts to change a ledger behind its back, by kind of store: those it must refuse, and those ``verify`` must find.

A store of one's own adds to :data:`ATTACKS` and :data:`TAMPERINGS` under its ``traits.name``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.base import LEAF, PAYLOAD, Row
from chatsnapshot.testing.attacks_http import HTTP_ATTACKS
from chatsnapshot.testing.attacks_mongodb import MONGODB_ATTACKS, MONGODB_TAMPERINGS
from chatsnapshot.testing.attacks_nats import NATS_ATTACKS, NATS_TAMPERINGS
from chatsnapshot.testing.attacks_postgresql import POSTGRESQL_ATTACKS, POSTGRESQL_TAMPERINGS

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.testing.bench import Bench

__all__ = ["ATTACKS", "TAMPERINGS", "Attack", "Tampering"]

Attack = Callable[["Bench", str], None]
"""Tries to change a closed ledger of six entries at a place by the means of its backend; raises when it is refused."""

Tampering = Callable[["Bench", str, "Ledger"], "Ledger"]
"""Changes position 3 of a ledger of six entries whatever guards it; gives a ledger to verify."""


# --- SQLite ---

_STATEMENTS = {
    "change a type": "UPDATE entry SET event_type = 'execution.forged' WHERE position = 3",
    "change a correlation": "UPDATE entry SET correlation_id = 'other' WHERE position = 3",
    "change a position": "UPDATE entry SET position = 99 WHERE position = 3",
    "change a time": "UPDATE entry SET recorded_at = '2001-01-01T00:00:00.000000Z' WHERE position = 3",
    "change a leaf": "UPDATE entry SET leaf = zeroblob(32) WHERE position = 3",
    "replace a payload": "UPDATE entry SET payload = CAST('{}' AS BLOB) WHERE position = 3",
    "remove an entry": "DELETE FROM entry WHERE position = 3",
    "remove the last entry": "DELETE FROM entry WHERE position = 6",
    "remove all": "DELETE FROM entry",
    "replace an entry": "INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE position = 3",
    "insert a known id": (
        "INSERT INTO entry (position, event_id, correlation_id, sequence, event_type, timestamp, recorded_at, source, "
        "leaf, commitment, payload_bytes) SELECT 7, event_id, 'new', 1, event_type, timestamp, recorded_at, source, "
        "leaf, "
        "commitment, payload_bytes FROM entry WHERE position = 3"
    ),
    "insert before the end": (
        "INSERT INTO entry (position, event_id, correlation_id, sequence, event_type, timestamp, recorded_at, source, "
        "leaf, commitment, payload_bytes) SELECT 0, zeroblob(16), 'new', 1, event_type, timestamp, recorded_at, source, "
        "leaf, commitment, payload_bytes FROM entry WHERE position = 3"
    ),
    "leave a hole": (
        "INSERT INTO entry (position, event_id, correlation_id, sequence, event_type, timestamp, recorded_at, source, "
        "leaf, commitment, payload_bytes) SELECT 9, zeroblob(16), 'new', 1, event_type, timestamp, recorded_at, source, "
        "leaf, commitment, payload_bytes FROM entry WHERE position = 3"
    ),
    "set the head back": "UPDATE head SET size = 5",
    "remove the head": "DELETE FROM head",
}


def _statement(sql: str) -> Attack:
    def attack(bench: Bench, place: str) -> None:
        import apsw

        connection = apsw.Connection(bench.path(place))
        try:
            connection.execute(sql)
        finally:
            connection.close()

    return attack


def _without_triggers(*statements: str) -> Tampering:
    def tamper(bench: Bench, place: str, ledger: Ledger) -> Ledger:
        import apsw

        ledger.close()
        connection = apsw.Connection(bench.path(place))
        try:
            names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for (name,) in names:
                connection.execute(f'DROP TRIGGER "{name}"')
            for statement in statements:
                connection.execute(statement)
        finally:
            connection.close()
        return bench.open(place)

    return tamper


_SQLITE_TAMPERINGS: dict[str, Tampering] = {
    "a type was changed": _without_triggers(_STATEMENTS["change a type"]),
    "a payload was changed": _without_triggers(_STATEMENTS["replace a payload"]),
    "a payload was removed": _without_triggers(
        "UPDATE entry SET payload = NULL, salt = NULL WHERE position = 3"
    ),
    "a leaf was changed": _without_triggers(_STATEMENTS["change a leaf"]),
    "an entry was removed": _without_triggers(_STATEMENTS["remove an entry"]),
    "two entries changed places": _without_triggers(
        "UPDATE entry SET position = 99 WHERE position = 3",
        "UPDATE entry SET position = 3 WHERE position = 4",
        "UPDATE entry SET position = 4 WHERE position = 99",
    ),
}


# --- memory ---


def _in_memory(change: Callable[[list[Row]], None]) -> Tampering:
    def tamper(bench: Bench, place: str, ledger: Ledger) -> Ledger:
        store: Any = ledger._store
        change(store._rows)
        return ledger

    return tamper


def _set(column: int, value: object) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        row: list[Any] = list(rows[2])
        row[column] = value
        rows[2] = tuple(row)

    return change


def _exchange(rows: list[Row]) -> None:
    rows[2], rows[3] = rows[3], rows[2]


_MEMORY_TAMPERINGS: dict[str, Tampering] = {
    "a type was changed": _in_memory(_set(4, "execution.forged")),
    "a payload was changed": _in_memory(_set(PAYLOAD, b"{}")),
    "a payload was removed": _in_memory(_set(PAYLOAD, None)),
    "a leaf was changed": _in_memory(_set(LEAF, b"\x00" * 32)),
    "two entries changed places": _in_memory(_exchange),
}


# --- JSONL ---


def _in_lines(change: Callable[[list[bytes]], list[bytes]]) -> Tampering:
    def tamper(bench: Bench, place: str, ledger: Ledger) -> Ledger:
        ledger.close()
        path = bench.path(place)
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
        first = next(at for at, line in enumerate(lines) if b"number 0" in line)
        with open(path, "r+b") as file:
            file.write(b"\n".join([*lines[:first], *change(lines[first:])]))
            file.truncate()
        # The index beside the lines can be rebuilt: it goes, so that nothing but the lines is examined.
        for name in bench.files(place):
            if name != path and not name.endswith(".lock") and os.path.getsize(name):
                os.remove(name)
        return bench.open(place)

    return tamper


def _word(old: bytes, new: bytes) -> Callable[[list[bytes]], list[bytes]]:
    def change(lines: list[bytes]) -> list[bytes]:
        changed = lines[2].replace(old, new)
        if changed == lines[2]:
            raise LedgerError(f"there is no {old!r} in the line to change")
        return [*lines[:2], changed, *lines[3:]]

    return change


_JSONL_TAMPERINGS: dict[str, Tampering] = {
    "a type was changed": _in_lines(_word(b"execution.message", b"execution.forgery")),
    "a payload was changed": _in_lines(_word(b"number 2", b"number 9")),
    "a line was removed": _in_lines(lambda lines: [*lines[:2], *lines[3:]]),
    "two lines changed places": _in_lines(lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]]),
}


ATTACKS: dict[str, Mapping[str, Attack]] = {
    "sqlite": {name: _statement(sql) for name, sql in _STATEMENTS.items()},
    "postgresql": POSTGRESQL_ATTACKS,
    "nats": NATS_ATTACKS,
    "mongodb": MONGODB_ATTACKS,
    "http": HTTP_ATTACKS,
}

TAMPERINGS: dict[str, Mapping[str, Tampering]] = {
    "sqlite": _SQLITE_TAMPERINGS,
    "memory": _MEMORY_TAMPERINGS,
    "jsonl": _JSONL_TAMPERINGS,
    "postgresql": POSTGRESQL_TAMPERINGS,
    "nats": NATS_TAMPERINGS,
    "mongodb": MONGODB_TAMPERINGS,
}
