"""The writes of one transaction: rows, tiles and head of a plan, and the removal of payloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from chatsnapshot.errors import Corrupt
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import PAYLOAD, Head
from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.documents import PARTED_BYTES, document_of
from chatsnapshot.stores.mongodb.driver import ClientSession, pymongo
from chatsnapshot.stores.mongodb.parts import (
    PART_BYTES_MAX,
    erase_blobs,
    payload_name,
    take_blobs,
    write_parts,
)
from chatsnapshot.stores.mongodb.transactions import Again
from chatsnapshot.stores.planning import Plan

__all__ = ["erase_payloads", "move_head", "write_plan"]

_DUPLICATE = 11000
_DOCUMENTS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 8 * 2**20


def move_head(on: Collections, ledger: str, before: Head, made: Plan, session: ClientSession) -> None:
    """Take the head and set it; a head that is not ``before`` any more raises :class:`Again`.

    Every commit of a ledger changes this one document, so of two at once the server lets one go on.
    """
    size, frontier = made.tree.head()
    found = on.head.find_one_and_update(
        {"_id": ledger, "size": before.size, "frontier": before.frontier},
        {"$set": {"size": size, "frontier": frontier, "recorded_at": made.recorded_at}},
        {"_id": 1},
        session=session,
    )
    if found is None:
        raise Again


def write_plan(
    on: Collections,
    ledger: str,
    limits: Limits,
    made: Plan,
    users: Mapping[int, Sequence[bytes]],
    blobs: Mapping[bytes, bytes],
    session: ClientSession,
) -> None:
    """Rows, blobs and tiles of a plan; ``users`` are the digests that the row of each position names.

    Raises :class:`Corrupt` when a position, sequence or id is taken by what the head does not cover.
    """
    take_blobs(on, ledger, blobs, limits.blob_part_bytes, session)
    try:
        for documents in _slices(document_of(ledger, row, users.get(row[0], ())) for row in made.rows):
            on.entry.insert_many(documents, session=session)
        for row in made.rows:
            payload = row[PAYLOAD]
            if payload is not None and len(payload) > PARTED_BYTES:
                write_parts(on, ledger, payload_name(row[0]), payload, PART_BYTES_MAX, session)
        if made.tiles:
            on.tile.insert_many(
                [
                    {
                        "_id": f"{ledger}/{tile.level}/{tile.index}",
                        "ledger": ledger,
                        "level": tile.level,
                        "number": tile.index,
                        "hashes": tile.data,
                    }
                    for tile in made.tiles
                ],
                session=session,
            )
    except pymongo.errors.BulkWriteError as error:
        faults = error.details.get("writeErrors", []) if error.details else []
        if error.has_error_label("TransientTransactionError") or not faults:
            raise
        if faults[0].get("code") == _DUPLICATE:
            raise Corrupt(
                f"a document beyond the head of the ledger {ledger!r} takes the place of the next entry "
                f"({faults[0].get('keyValue') or faults[0].get('errmsg', '')}); run chatsnapshot verify",
                position=made.rows[0][0],
            ) from error
        raise


def _slices(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """So many documents at a time that the server answers soon."""
    waiting: list[Document] = []
    size = 0
    for document in documents:
        waiting.append(document)
        size += len(document.get("payload", b""))
        if len(waiting) >= _DOCUMENTS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def erase_payloads(on: Collections, ledger: str, positions: Sequence[int], session: ClientSession) -> None:
    """Remove payload and salt of these positions, and blobs that nobody names any more."""
    wanted = {"ledger": ledger, "position": {"$in": list(positions)}}
    digests: dict[bytes, None] = {}
    for document in on.entry.find(wanted, {"blobs": 1, "parted": 1, "position": 1}, session=session):
        digests.update(dict.fromkeys(map(bytes, document.get("blobs", ()))))
        if document.get("parted"):
            on.part.delete_many({"ledger": ledger, "of": payload_name(document["position"])}, session=session)
    on.entry.update_many(
        wanted, {"$unset": {"payload": "", "salt": "", "blobs": "", "parted": ""}}, session=session
    )
    erase_blobs(on, ledger, digests, session)
