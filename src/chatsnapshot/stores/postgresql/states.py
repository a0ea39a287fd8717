"""State of projections in the database: read by key, advanced by compare-and-set in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.stores.base import Checkpoint
from chatsnapshot.stores.postgresql.arrays import BytesArray, TextArray
from chatsnapshot.stores.postgresql.connections import Connection
from chatsnapshot.stores.statekeys import beyond

__all__ = ["checkpoint", "drop_states", "load_state", "save_states", "state_keys"]

_OF = "WHERE ledger = %s AND name = %s AND version = %s"


def checkpoint(db: Connection, ledger: int, name: str, version: int) -> Checkpoint | None:
    """Where a projection stands."""
    found = (
        db.cursor(binary=True)
        .execute(
            f"SELECT position, leaf, digest FROM chatsnapshot.projection {_OF}",
            (ledger, name, version),
            prepare=True,
        )
        .fetchone()
    )
    return None if found is None else Checkpoint(*found)


def load_state(db: Connection, ledger: int, name: str, version: int, key: str) -> bytes | None:
    """A projection's state for one key."""
    found = (
        db.cursor(binary=True)
        .execute(
            f"SELECT state FROM chatsnapshot.projection_state {_OF} AND key = %s",
            (ledger, name, version, key),
            prepare=True,
        )
        .fetchone()
    )
    return None if found is None else bytes(found[0])


def state_keys(
    db: Connection,
    ledger: int,
    name: str,
    version: int,
    prefix: str,
    after: str,
    limit: int,
    reverse: bool,
) -> list[str]:
    """Keys in order, see ``Store.keys``; the column is sorted by code point."""
    where: list[str] = []
    values: list[Any] = [ledger, name, version]
    if prefix:
        where.append("key >= %s")
        values.append(prefix)
        if end := beyond(prefix):
            where.append("key < %s")
            values.append(end)
    if after:
        where.append("key < %s" if reverse else "key > %s")
        values.append(after)
    found = db.execute(
        f"SELECT key FROM chatsnapshot.projection_state {_OF} {''.join(f' AND {one}' for one in where)} "
        f"ORDER BY key {'DESC' if reverse else 'ASC'} LIMIT %s",
        (*values, limit),
    )
    return [key for (key,) in found]


def save_states(
    db: Connection,
    ledger: int,
    name: str,
    version: int,
    before: Checkpoint | None,
    after: Checkpoint,
    states: Mapping[str, bytes | None],
) -> bool:
    """Move the checkpoint if it is still ``before``, then the states; inside a transaction of the caller."""
    if before is None:
        moved = db.execute(
            "INSERT INTO chatsnapshot.projection (ledger, name, version, position, leaf, digest) "
            "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (ledger, name, version, *after),
            prepare=True,
        )
    else:
        moved = db.execute(
            f"UPDATE chatsnapshot.projection SET position = %s, leaf = %s, digest = %s {_OF} "
            "AND position = %s AND leaf = %s AND digest = %s",
            (*after, ledger, name, version, *before),
            prepare=True,
        )
    if moved.rowcount != 1:
        return False
    kept = {key: state for key, state in states.items() if state is not None}
    gone = [key for key, state in states.items() if state is None]
    if gone:
        db.execute(
            f"DELETE FROM chatsnapshot.projection_state {_OF} AND key = ANY (%s)",
            (ledger, name, version, TextArray(gone)),
            prepare=True,
        )
    if kept:
        db.execute(
            "INSERT INTO chatsnapshot.projection_state (ledger, name, version, key, state) "
            "SELECT %s, %s, %s, s.key, s.state FROM unnest(%s, %s) AS s(key, state) "
            "ON CONFLICT (ledger, name, version, key) DO UPDATE SET state = excluded.state",
            (ledger, name, version, TextArray(list(kept)), BytesArray(list(kept.values()))),
            prepare=True,
        )
    return True


def drop_states(db: Connection, ledger: int, name: str, version: int) -> None:
    """Forget a projection; inside a transaction of the caller."""
    # In the order of saving, so that nobody waits in a circle.
    for table in ("projection", "projection_state"):
        db.execute(f"DELETE FROM chatsnapshot.{table} {_OF}", (ledger, name, version))
