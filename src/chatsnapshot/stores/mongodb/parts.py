"""Bytes beyond the size of a document, in numbered parts of ``cs_part``: payloads, and blobs, listed in ``cs_blob``.

A blob is stored in the transaction of the entry that names it. Many bytes go ahead of it, since a transaction must fit
into the server's cache: the blob is then listed with ``pending``, which the transaction takes away after counting the
parts. What stays pending belongs to no entry and is swept when payloads are erased.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chatsnapshot.clock import time_text
from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.driver import ClientSession, pymongo

__all__ = [
    "Unplaced",
    "blob_name",
    "erase_blobs",
    "payload_name",
    "put_ahead",
    "read_blob",
    "read_parts",
    "stale_blobs",
    "take_blobs",
    "write_parts",
]

PART_BYTES_MAX = 8 * 2**20
AHEAD_BYTES = 4 * 2**20
"""New blobs of one commit that have more bytes together are stored ahead of it."""

_AHEAD_AT_ONCE_BYTES = 8 * 2**20
_STALE_NS = 24 * 3600 * 10**9
_KNOWN = 11000


class Unplaced(Exception):
    """Raised inside a transaction: these blobs must be stored ahead of it."""

    def __init__(self, blobs: Mapping[bytes, bytes]) -> None:
        super().__init__(f"{len(blobs)} blobs")
        self.blobs = blobs


def payload_name(position: object) -> str:
    """What the parts of a payload are of."""
    return f"payload/{position}"


def blob_name(digest: bytes) -> str:
    """What the parts of a blob are of."""
    return f"blob/{digest.hex()}"


def read_parts(
    on: Collections, ledger: str, name: str, session: ClientSession | None = None
) -> Iterator[bytes]:
    """The parts in order."""
    for document in on.part.find({"ledger": ledger, "of": name}, sort=[("number", 1)], session=session):
        yield bytes(document["data"])


def write_parts(
    on: Collections, ledger: str, name: str, data: bytes, step: int, session: ClientSession | None
) -> None:
    """Store bytes in parts of ``step``; one empty part where there are none."""
    on.part.insert_many(list(_parts(ledger, name, data, step)), session=session)


def _parts(ledger: str, name: str, data: bytes, step: int) -> Iterator[Document]:
    step = min(step, PART_BYTES_MAX)
    for number in range(_count(len(data), step)):
        yield {
            "_id": f"{ledger}/{name}/{number:06d}",
            "ledger": ledger,
            "of": name,
            "number": number,
            "data": data[number * step : (number + 1) * step],
        }


def _count(size: int, step: int) -> int:
    return max(-(-size // step), 1)


def _blob_id(ledger: str, digest: bytes) -> str:
    return f"{ledger}/{digest.hex()}"


def take_blobs(
    on: Collections, ledger: str, blobs: Mapping[bytes, bytes], step: int, session: ClientSession
) -> None:
    """Make blobs part of a transaction: store those that are not there. Raises :class:`Unplaced`."""
    if not blobs:
        return
    names = {_blob_id(ledger, digest): digest for digest in blobs}
    there = {
        names[document["_id"]]: document
        for document in on.blob.find({"_id": {"$in": list(names)}}, session=session)
    }
    pending = [digest for digest, document in there.items() if "pending" in document]
    new = {digest: data for digest, data in blobs.items() if digest not in there}
    if sum(map(len, new.values())) > AHEAD_BYTES:
        raise Unplaced({**new, **{digest: blobs[digest] for digest in pending}})
    for digest in pending:
        parts = on.part.count_documents({"ledger": ledger, "of": blob_name(digest)}, session=session)
        if parts != _count(len(blobs[digest]), there[digest]["step"]):
            raise Unplaced({digest: blobs[digest]})
        on.blob.update_one(
            {"_id": _blob_id(ledger, digest)}, {"$unset": {"pending": "", "step": ""}}, session=session
        )
    if new:
        on.blob.insert_many(
            [
                {"_id": _blob_id(ledger, digest), "ledger": ledger, "bytes": len(data)}
                for digest, data in new.items()
            ],
            session=session,
        )
        on.part.insert_many(
            [part for digest, data in new.items() for part in _parts(ledger, blob_name(digest), data, step)],
            session=session,
        )


def put_ahead(on: Collections, ledger: str, blobs: Mapping[bytes, bytes], step: int) -> None:
    """Store blobs durably as pending; what another try has stored of them is completed."""
    for digest, data in blobs.items():
        found = on.blob.find_one_and_update(
            {"_id": _blob_id(ledger, digest)},
            {
                "$setOnInsert": {
                    "ledger": ledger,
                    "bytes": len(data),
                    "pending": time_text(time.time_ns()),
                    "step": min(step, PART_BYTES_MAX),
                }
            },
            upsert=True,
            return_document=pymongo.ReturnDocument.AFTER,
        )
        if found is None or "pending" not in found:
            continue  # an entry names it already
        waiting: list[Document] = []
        size = 0
        for part in _parts(ledger, blob_name(digest), data, found["step"]):
            waiting.append(part)
            size += len(part["data"])
            if size >= _AHEAD_AT_ONCE_BYTES:
                _insert_missing(on, waiting)
                waiting, size = [], 0
        _insert_missing(on, waiting)


def _insert_missing(on: Collections, documents: Sequence[Document]) -> None:
    if not documents:
        return
    try:
        on.part.insert_many(documents, ordered=False)
    except pymongo.errors.BulkWriteError as error:
        faults = error.details.get("writeErrors", []) if error.details else []
        if error.details.get("writeConcernErrors") or any(fault.get("code") != _KNOWN for fault in faults):
            raise


def read_blob(on: Collections, ledger: str, digest: bytes) -> list[bytes] | None:
    """The parts of a blob that an entry names or named, or ``None``."""
    found = on.blob.find_one({"_id": _blob_id(ledger, digest)})
    if found is None or "pending" in found:
        return None
    return list(read_parts(on, ledger, blob_name(digest)))


def erase_blobs(on: Collections, ledger: str, digests: Iterable[bytes], session: ClientSession) -> None:
    """Remove those of these blobs that no entry names any more."""
    for digest in digests:
        if on.entry.find_one({"ledger": ledger, "blobs": digest}, {"_id": 1}, session=session) is None:
            on.blob.delete_one({"_id": _blob_id(ledger, digest)}, session=session)
            on.part.delete_many({"ledger": ledger, "of": blob_name(digest)}, session=session)


def stale_blobs(on: Collections, ledger: str) -> list[bytes]:
    """Blobs that have been pending for a day: whoever stored them ahead did not come back."""
    before = time_text(time.time_ns() - _STALE_NS)
    found = on.blob.find({"ledger": ledger, "pending": {"$lt": before}}, {"_id": 1})
    return [bytes.fromhex(document["_id"].rpartition("/")[2]) for document in found]
