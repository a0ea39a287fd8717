"""Entries as documents: field by field the columns of a row, and back; what does not fit is damage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import Corrupt
from chatsnapshot.stores.base import Row
from chatsnapshot.stores.mongodb.connecting import Document

__all__ = ["PARTED_BYTES", "document_of", "entry_id", "row_of"]

PARTED_BYTES = 8 * 2**20
"""A payload above this is kept in parts beside its entry: a document has 16 MB at most."""

_OPTIONAL = {"causation_id": 8, "schema_version": 10, "attributes": 11}
_TYPES: tuple[tuple[type, ...], ...] = (
    (int,), (int,), (str,), (bytes,), (str,), (str,), (str,), (str,), (bytes, type(None)), (bytes, type(None)),
    (int, type(None)), (str, type(None)), (bytes,), (bytes, type(None)), (bytes,), (int,),
)  # fmt: skip


def entry_id(ledger: str, event_id: bytes) -> str:
    """The ``_id`` of an entry."""
    return f"{ledger}/{uuid_text(event_id)}"


def document_of(ledger: str, row: Row, blobs: Sequence[bytes]) -> Document:
    """The document of a row; ``blobs`` are the digests that its payload names. Absent columns are left out."""
    document: Document = {
        "_id": entry_id(ledger, row[3]),
        "ledger": ledger,
        "position": row[0],
        "sequence": row[1],
        "recorded_at": row[2],
        "event_type": row[4],
        "timestamp": row[5],
        "source": row[6],
        "correlation_id": row[7],
        "leaf": row[12],
        "commitment": row[14],
        "payload_bytes": row[15],
    }
    for field, column in _OPTIONAL.items():
        if row[column] is not None:
            document[field] = row[column]
    payload = row[9]
    if payload is not None:
        document["salt"] = row[13]
        if len(payload) > PARTED_BYTES:
            document["parted"] = True
        else:
            document["payload"] = payload
    if blobs:
        document["blobs"] = list(dict.fromkeys(blobs))
    return document


def row_of(document: Document, payload: bytes | None = None) -> Row:
    """The row of a document; ``payload`` is that of a parted one. Raises :class:`Corrupt`."""
    get = document.get
    try:
        row: Any = (
            document["position"],
            document["sequence"],
            document["recorded_at"],
            bytes.fromhex(document["_id"][-36:].replace("-", "")),
            document["event_type"],
            document["timestamp"],
            document["source"],
            document["correlation_id"],
            get("causation_id"),
            get("payload") if payload is None else payload,
            get("schema_version"),
            get("attributes"),
            document["leaf"],
            get("salt"),
            document["commitment"],
            document["payload_bytes"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(document, f"{type(error).__name__} {error}") from None
    for at, value in enumerate(row):
        if type(value) not in _TYPES[at]:
            return _plain(document, row)
    made: Row = row
    return made


def _plain(document: Document, row: Sequence[Any]) -> Row:
    """The row with the driver's own kind of integer made plain."""
    plain: Any = tuple(
        int(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in row
    )
    for value, types in zip(plain, _TYPES, strict=True):
        if type(value) not in types:
            raise _damaged(document, f"a field of the type {type(value).__name__}")
    made: Row = plain
    return made


def _damaged(document: Document, what: str) -> Corrupt:
    position = document.get("position")
    known = position if isinstance(position, int) and not isinstance(position, bool) else None
    return Corrupt(
        f"the document {document.get('_id')!r} at position {position} is no entry ({what}); run chatsnapshot verify",
        position=None if known is None else int(known),
    )
