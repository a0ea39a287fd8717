"""Checks whole entries that come from another ledger before a store takes them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import commit, header_bytes, is_canonical_object, leaf_hash
from chatsnapshot.jsonvalue import blob_digests
from chatsnapshot.stores.base import Row

__all__ = ["check_rows", "named_positions", "row_header"]


def row_header(row: Row) -> bytes:
    """The canonical header of a stored row: what its leaf is the hash of."""
    return header_bytes(
        uuid_text(row[3]),
        row[4],
        row[5],
        row[6],
        row[7],
        None if row[8] is None else uuid_text(row[8]),
        row[10],
        row[11],
        row[14],
        row[15],
        row[2],
    )


def check_rows(
    rows: Sequence[Row],
    recorded_at: str,
    last_sequence: Callable[[str], int],
    known: Callable[[list[bytes]], Container[bytes]],
) -> dict[int, tuple[bytes, ...]]:
    """Make sure that rows follow each other and their own leaves; gives the blobs that each position names.

    ``recorded_at`` and ``last_sequence`` are of the ledger that takes them; ``known`` says which ids it has already.

    Raises :class:`Corrupt` naming the first bad position.
    """
    sequences: dict[str, int] = {}
    blobs: dict[int, tuple[bytes, ...]] = {}
    position = rows[0][0] if rows else 0
    taken = known([row[3] for row in rows])
    here: set[bytes] = set()
    for row in rows:
        where = f"the entry at position {row[0]}"
        if row[0] != position:
            raise Corrupt(
                f"after position {position - 1} comes {row[0]}: entries are missing", position=position
            )
        position += 1
        if row[3] in taken or row[3] in here:
            raise Corrupt(f"event {uuid_text(row[3])} of {where} is in this ledger already", position=row[0])
        here.add(row[3])
        if not all(text is None or is_canonical_object(text) for text in (row[6], row[11])):
            raise Corrupt(f"source or attributes of {where} are not in their canonical form", position=row[0])
        if leaf_hash(row_header(row)) != row[12]:
            raise Corrupt(f"{where} does not hash to its leaf: a column was changed", position=row[0])
        payload, salt = row[9], row[13]
        if payload is not None:
            if salt is None or len(payload) != row[15] or commit(salt, payload) != row[14]:
                raise Corrupt(f"the payload of {where} is not the one it committed to", position=row[0])
            if b"$blob" in payload:
                blobs[row[0]] = blob_digests(payload)
        if row[2] < recorded_at:
            raise Corrupt(f"{where} was recorded before the one in front of it", position=row[0])
        recorded_at = row[2]
        before = sequences.get(row[7])
        if before is None:
            before = last_sequence(row[7])
        if row[1] != before + 1:
            raise Corrupt(f"{where} has sequence {row[1]}, and {before + 1} is next", position=row[0])
        sequences[row[7]] = row[1]
    return blobs


def named_positions(row: Row) -> list[int]:
    """The positions that a record of erasure names; none for any other entry."""
    if row[4] != "ledger.payload_erased" or row[7] != "ledger" or row[9] is None:
        return []
    try:
        positions = msgspec.json.decode(row[9]).get("positions", ())
        return [one for one in positions if type(one) is int and 0 < one < row[0]]
    except (msgspec.DecodeError, AttributeError, TypeError):
        return []
