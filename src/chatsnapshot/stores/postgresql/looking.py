"""The smaller questions to a PostgreSQL ledger: children, tiles, blobs."""

from __future__ import annotations

from chatsnapshot.stores.hanging import RUN_STARTED
from chatsnapshot.stores.postgresql.connections import Connection

__all__ = ["blob", "blobs", "children", "tile"]

_CHILDREN = f"""
SELECT child.correlation_id, child.position
FROM chatsnapshot.entry AS parent JOIN chatsnapshot.entry AS child
  ON child.ledger = parent.ledger AND child.causation_id = parent.event_id AND child.sequence = 1
WHERE parent.ledger = %(ledger)s AND parent.correlation_id = %(of)s AND child.correlation_id <> %(of)s
UNION
SELECT first.correlation_id, first.position
FROM chatsnapshot.entry AS parent JOIN chatsnapshot.entry AS child
  ON child.ledger = parent.ledger AND child.causation_id = parent.event_id
  AND child.event_type = '{RUN_STARTED}' AND child.sequence > 1
JOIN chatsnapshot.entry AS first
  ON first.ledger = child.ledger AND first.correlation_id = child.correlation_id AND first.sequence = 1
WHERE parent.ledger = %(ledger)s AND parent.correlation_id = %(of)s AND child.correlation_id <> %(of)s
  AND EXISTS (
    SELECT 1 FROM chatsnapshot.entry AS inside
    WHERE inside.ledger = first.ledger AND inside.event_id = first.causation_id
      AND inside.correlation_id = first.correlation_id)
  AND NOT EXISTS (
    SELECT 1 FROM chatsnapshot.entry AS before
    WHERE before.ledger = child.ledger AND before.correlation_id = child.correlation_id
      AND before.sequence > 1 AND before.sequence < child.sequence
      AND before.event_type = '{RUN_STARTED}' AND before.causation_id IS NOT NULL)
ORDER BY 2"""


def children(db: Connection, ledger: int, correlation_id: str) -> list[str]:
    """Correlations that hang under this one."""
    found = db.execute(_CHILDREN, {"ledger": ledger, "of": correlation_id})
    return [correlation for correlation, _ in found]


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
