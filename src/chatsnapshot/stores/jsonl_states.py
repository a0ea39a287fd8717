"""The state of projections, kept in the index of a JSONL ledger."""

from __future__ import annotations

from collections.abc import Mapping

import apsw

from chatsnapshot.stores.base import Checkpoint

__all__ = ["drop_states", "load_checkpoint", "load_state", "save_states"]


def load_checkpoint(db: apsw.Connection, name: str, version: int) -> Checkpoint | None:
    """Where a projection stands."""
    found = db.execute(
        "SELECT position, leaf, digest FROM projection WHERE name = ? AND version = ?", (name, version)
    ).fetchone()
    return None if found is None else Checkpoint(*found)


def load_state(db: apsw.Connection, name: str, version: int, key: str) -> bytes | None:
    """A projection's state for one key."""
    found = db.execute(
        "SELECT state FROM projection_state WHERE name = ? AND version = ? AND key = ?", (name, version, key)
    ).get
    return None if found is None else bytes(found)


def save_states(
    db: apsw.Connection, name: str, version: int, after: Checkpoint, states: Mapping[str, bytes | None]
) -> None:
    """States and checkpoint; the caller has compared the checkpoint in this transaction."""
    for key, state in states.items():
        if state is None:
            db.execute(
                "DELETE FROM projection_state WHERE name = ? AND version = ? AND key = ?",
                (name, version, key),
            )
        else:
            db.execute(
                "INSERT OR REPLACE INTO projection_state VALUES (?, ?, ?, ?)", (name, version, key, state)
            )
    db.execute("INSERT OR REPLACE INTO projection VALUES (?, ?, ?, ?, ?)", (name, version, *after))


def drop_states(db: apsw.Connection, name: str, version: int) -> None:
    """Forget a projection."""
    for table in ("projection_state", "projection"):
        db.execute(f"DELETE FROM {table} WHERE name = ? AND version = ?", (name, version))
