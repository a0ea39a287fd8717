"""Looks for what is wrong in a SQLite ledger beyond its rows: strays, blobs, tables and indexes."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from chatsnapshot.integrity import TILE_HASHES
from chatsnapshot.stores.base import Finding
from chatsnapshot.stores.sqlite_schema import APPLICATION_ID, Names

__all__ = ["examine"]

_DAMAGES_MAX = 100


def examine(db: apsw.Connection, names: Names) -> Iterator[Finding]:
    """Every fault found; the caller holds one snapshot."""
    found = db.execute("PRAGMA application_id").get
    if found != APPLICATION_ID:
        yield Finding(None, "application_id of the file", f"{APPLICATION_ID:#x}", f"{found:#x}")
    yield from _strays(db, names)
    yield from _blobs(db, names)
    for (text,) in db.execute(f"PRAGMA integrity_check({_DAMAGES_MAX})"):
        if text != "ok":
            yield Finding(None, "SQLite finds tables or indexes damaged", "ok", str(text))


def _strays(db: apsw.Connection, names: Names) -> Iterator[Finding]:
    """Rows and tiles that the head does not cover."""
    size = db.execute(f"SELECT size FROM {names['head']}").get
    for (position,) in db.execute(
        f"SELECT position FROM {names['entry']} WHERE position > ? OR position < 1 ORDER BY position LIMIT 10",
        (size,),
    ):
        yield Finding(position, "entry beyond the head", f"positions 1 to {size}", f"position {position}")
    for level, number in db.execute(f"SELECT level, number FROM {names['tile']} ORDER BY level, number"):
        full = size // TILE_HASHES ** (level + 1) if level >= 0 else 0
        if not 0 <= number < full:
            yield Finding(
                None, "tile beyond the head", f"{full} full tiles of level {level}", f"tile {number}"
            )


def _blobs(db: apsw.Connection, names: Names) -> Iterator[Finding]:
    """Lengths of blobs, parts without a blob, uses by entries that are erased or not there."""
    blob, part, use, entry = names["blob"], names["blob_part"], names["blob_use"], names["entry"]
    for digest, size, length, parts, last in db.execute(
        f"SELECT b.digest, b.bytes, total(length(p.data)), count(p.part), coalesce(max(p.part), 0) "
        f"FROM {blob} AS b LEFT JOIN {part} AS p ON p.digest = b.digest GROUP BY b.digest"
    ):
        if int(length) != size or parts != last + 1:
            yield Finding(
                None,
                f"parts of blob {digest.hex()}",
                f"{size} bytes",
                f"{int(length)} bytes in {parts} parts",
            )
    for (digest,) in db.execute(
        f"SELECT DISTINCT digest FROM {part} WHERE digest NOT IN (SELECT digest FROM {blob})"
    ):
        yield Finding(None, "parts of a blob that is not listed", "a row in blob", digest.hex())
    for digest, position in db.execute(
        f"SELECT digest, position FROM {use} AS u WHERE NOT EXISTS "
        f"(SELECT 1 FROM {entry} AS e WHERE e.position = u.position AND e.payload IS NOT NULL)"
    ):
        yield Finding(
            position, "blob used by an entry without payload", "a payload that names it", digest.hex()
        )
