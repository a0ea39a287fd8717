"""Looks for what is wrong in a PostgreSQL ledger beyond its rows: strays beyond the head, payloads, tiles, blobs."""

from __future__ import annotations

from collections.abc import Iterator

from chatsnapshot.integrity import TILE_HASHES
from chatsnapshot.stores.base import Finding
from chatsnapshot.stores.postgresql.connections import Connection

__all__ = ["examine"]


def examine(db: Connection, ledger: int, size: int) -> Iterator[Finding]:
    """Every fault found; the caller holds one snapshot, of which ``size`` is the head."""
    number = {"ledger": ledger, "size": size}
    for table in ("entry", "payload"):
        for (position,) in db.execute(
            f"SELECT position FROM chatsnapshot.{table} WHERE ledger = %(ledger)s "
            "AND (position > %(size)s OR position < 1) ORDER BY position LIMIT 10",
            number,
        ):
            yield Finding(
                position, f"{table} beyond the head", f"positions 1 to {size}", f"position {position}"
            )
    for level, index in db.execute(
        "SELECT level, number FROM chatsnapshot.tile WHERE ledger = %(ledger)s ORDER BY level, number", number
    ):
        full = size // TILE_HASHES ** (level + 1) if level >= 0 else 0
        if not 0 <= index < full:
            yield Finding(
                None, "tile beyond the head", f"{full} full tiles of level {level}", f"tile {index}"
            )
    yield from _blobs(db, number)


def _blobs(db: Connection, number: dict[str, int]) -> Iterator[Finding]:
    """Lengths of blobs, parts without a blob, uses by entries that are erased or not there."""
    for digest, size, length, parts, last in db.execute(
        "SELECT b.digest, b.bytes, coalesce(sum(length(p.data)), 0), count(p.part), coalesce(max(p.part), 0) "
        "FROM chatsnapshot.blob AS b LEFT JOIN chatsnapshot.blob_part AS p USING (ledger, digest) "
        "WHERE b.ledger = %(ledger)s GROUP BY b.digest, b.bytes",
        number,
    ):
        if int(length) != size or parts != last + 1:
            yield Finding(
                None, f"parts of blob {digest.hex()}", f"{size} bytes", f"{length} bytes in {parts} parts"
            )
    for (digest,) in db.execute(
        "SELECT DISTINCT p.digest FROM chatsnapshot.blob_part AS p WHERE p.ledger = %(ledger)s AND NOT EXISTS "
        "(SELECT FROM chatsnapshot.blob AS b WHERE b.ledger = p.ledger AND b.digest = p.digest)",
        number,
    ):
        yield Finding(None, "parts of a blob that is not listed", "a row in blob", digest.hex())
    for digest, position in db.execute(
        "SELECT u.digest, u.position FROM chatsnapshot.blob_use AS u "
        "LEFT JOIN chatsnapshot.entry AS e ON e.ledger = u.ledger AND e.position = u.position "
        "LEFT JOIN chatsnapshot.payload AS p ON p.ledger = u.ledger AND p.position = u.position "
        "WHERE u.ledger = %(ledger)s AND (e.position IS NULL OR (p.position IS NOT NULL AND p.payload IS NULL))",
        number,
    ):
        yield Finding(
            position, "blob used by an entry without payload", "a payload that names it", digest.hex()
        )
