"""The smaller questions to a PostgreSQL ledger: children, tiles, blobs."""

from __future__ import annotations

from chatsnapshot.stores.postgresql.connections import Connection

__all__ = ["blob", "blobs", "children", "tile"]


def children(db: Connection, ledger: int, correlation_id: str) -> list[str]:
    """Correlations whose first event was caused by an event of this one."""
    found = db.execute(
        "SELECT child.correlation_id FROM chatsnapshot.entry AS parent JOIN chatsnapshot.entry AS child "
        "ON child.ledger = parent.ledger AND child.causation_id = parent.event_id AND child.sequence = 1 "
        "WHERE parent.ledger = %s AND parent.correlation_id = %s AND child.correlation_id <> %s "
        "ORDER BY child.position",
        (ledger, correlation_id, correlation_id),
    )
    return [correlation for (correlation,) in found]


def tile(db: Connection, ledger: int, level: int, index: int) -> bytes | None:
    """A full tile."""
    found = db.execute(
        "SELECT hashes FROM chatsnapshot.tile WHERE ledger = %s AND level = %s AND number = %s",
        (ledger, level, index),
        binary=True,
    ).fetchone()
    return None if found is None else bytes(found[0])


def blob(db: Connection, ledger: int, digest: bytes) -> list[bytes] | None:
    """The parts of a blob."""
    found = db.execute(
        "SELECT p.data FROM chatsnapshot.blob AS b JOIN chatsnapshot.blob_part AS p USING (ledger, digest) "
        "WHERE b.ledger = %s AND b.digest = %s ORDER BY p.part",
        (ledger, digest),
        binary=True,
    )
    return [bytes(data) for (data,) in found] or None


def blobs(db: Connection, ledger: int) -> list[tuple[bytes, int, int]]:
    """Every blob: digest, bytes, number of unerased entries that name it."""
    found = db.execute(
        "SELECT b.digest, b.bytes, (SELECT count(*) FROM chatsnapshot.blob_use AS u "
        "WHERE u.ledger = b.ledger AND u.digest = b.digest) "
        "FROM chatsnapshot.blob AS b WHERE b.ledger = %s ORDER BY b.digest",
        (ledger,),
    )
    return [(bytes(digest), size, users) for digest, size, users in found]
