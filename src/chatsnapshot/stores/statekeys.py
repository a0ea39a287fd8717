"""The SQL that lists the keys of a projection's states, for the stores that keep them in SQLite."""

from __future__ import annotations

import apsw

__all__ = ["beyond", "state_keys"]


def state_keys(
    db: apsw.Connection,
    table: str,
    name: str,
    version: int,
    prefix: str,
    after: str,
    limit: int,
    reverse: bool,
) -> list[str]:
    """Keys in order, see ``Store.keys``; ``table`` is a quoted name of our own."""
    where, values = ["name = ? AND version = ?"], [name, version]
    if prefix:
        where.append("key >= ?")
        values.append(prefix)
        end = beyond(prefix)
        if end:
            where.append("key < ?")
            values.append(end)
    if after:
        where.append("key < ?" if reverse else "key > ?")
        values.append(after)
    sql = f"SELECT key FROM {table} WHERE {' AND '.join(where)} ORDER BY key {'DESC' if reverse else 'ASC'} LIMIT ?"
    return [str(key) for (key,) in db.execute(sql, (*values, limit))]


def beyond(prefix: str) -> str:
    """The first text after all that begin with ``prefix``; empty when there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return ""
    last = ord(stem[-1]) + 1
    # What lies between is no character.
    return stem[:-1] + chr(0xE000 if last == 0xD800 else last)
