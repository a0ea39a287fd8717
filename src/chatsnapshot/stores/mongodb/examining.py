"""Looks for what is wrong in a MongoDB ledger beyond its rows: strays, blobs and their parts, missing indexes."""

from __future__ import annotations

from collections.abc import Iterator

from chatsnapshot.integrity import TILE_HASHES
from chatsnapshot.stores.base import Finding
from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.schema import missing_indexes

__all__ = ["blobs_of", "examine"]

_STRAYS_MAX = 10


def examine(on: Collections, ledger: str, size: int) -> Iterator[Finding]:
    """Every fault found; ``size`` is a head that was read before."""
    for name in missing_indexes(on):
        yield Finding(None, "index of the ledger format is missing or another", name, "not there")
    yield from _strays(on, ledger, size)
    yield from _blobs(on, ledger)


def blobs_of(on: Collections, ledger: str) -> list[tuple[bytes, int, int]]:
    """Every blob: digest, bytes, number of unerased entries that name it."""
    users = {
        bytes(group["_id"]): int(group["users"])
        for group in on.entry.aggregate(
            [
                {"$match": {"ledger": ledger, "blobs": {"$exists": True}}},
                {"$unwind": "$blobs"},
                {"$group": {"_id": "$blobs", "users": {"$sum": 1}}},
            ]
        )
    }
    listed: list[tuple[bytes, int, int]] = []
    for document in on.blob.find({"ledger": ledger}):
        digest = bytes.fromhex(document["_id"].rpartition("/")[2])
        count = users.get(digest, 0)
        if not count:  # it may have come, or gone, since the entries were looked at
            count = on.entry.count_documents({"ledger": ledger, "blobs": digest})
            if not count and on.blob.find_one({"_id": document["_id"]}) is None:
                continue
        if "pending" not in document or count:
            listed.append((digest, int(document["bytes"]), count))
    return sorted(listed)


def _strays(on: Collections, ledger: str, size: int) -> Iterator[Finding]:
    """Entries and tiles that no head can cover."""
    top = on.head.find_one({"_id": ledger})
    size = max(size, int(top["size"]) if top is not None else 0)
    wanted = {"ledger": ledger, "$or": [{"position": {"$gt": size}}, {"position": {"$lt": 1}}]}
    for document in on.entry.find(wanted, {"position": 1}, sort=[("position", 1)], limit=_STRAYS_MAX):
        position = int(document["position"])
        if not _covered(on, ledger, position):
            yield Finding(position, "entry beyond the head", f"positions 1 to {size}", f"position {position}")
    for tile in on.tile.find(
        {"ledger": ledger}, {"level": 1, "number": 1}, sort=[("level", 1), ("number", 1)]
    ):
        level, number = int(tile["level"]), int(tile["number"])
        last = (number + 1) * TILE_HASHES ** (level + 1)
        if level < 0 or number < 0 or (last > size and not _covered(on, ledger, last)):
            yield Finding(
                None, "tile beyond the head", f"full tiles of {size} entries", f"tile {number} of {level}"
            )


def _covered(on: Collections, ledger: str, position: int) -> bool:
    """Whether the head as it is now covers a position: others may have committed since."""
    top = on.head.find_one({"_id": ledger})
    return top is not None and 1 <= position <= int(top["size"])


def _blobs(on: Collections, ledger: str) -> Iterator[Finding]:
    """Lengths of blobs, parts without a blob, blobs of entries that are erased."""
    steps: list[Document] = [
        {"$match": {"ledger": ledger, "of": {"$gte": "blob/", "$lt": "blob0"}}},
        {
            "$group": {
                "_id": "$of",
                "bytes": {"$sum": {"$binarySize": "$data"}},
                "parts": {"$sum": 1},
                "last": {"$max": "$number"},
            }
        },
    ]
    parts = {group["_id"].partition("/")[2]: _Parts(group) for group in on.part.aggregate(steps)}
    listed = {document["_id"].rpartition("/")[2]: document for document in on.blob.find({"ledger": ledger})}
    for digest in listed.keys() | parts.keys():
        fault = _fault(digest, listed.get(digest), parts.get(digest))
        if fault is not None:  # looked at once more by itself: others may store or erase it meanwhile
            steps[0]["$match"]["of"] = f"blob/{digest}"
            now = next(iter(on.part.aggregate(steps)), None)
            document = on.blob.find_one({"_id": f"{ledger}/{digest}"})
            fault = _fault(digest, document, None if now is None else _Parts(now))
        if fault is not None:
            yield fault
    erased = {"ledger": ledger, "blobs": {"$exists": True}, "salt": {"$exists": False}}
    for document in on.entry.find(erased, {"position": 1, "blobs": 1}):
        for named in document["blobs"]:
            yield Finding(
                int(document["position"]),
                "blob used by an entry without payload",
                "a payload that names it",
                bytes(named).hex(),
            )


class _Parts:
    """What the parts of one blob come to."""

    def __init__(self, group: Document) -> None:
        self.bytes = int(group["bytes"])
        self.count = int(group["parts"])
        self.whole = self.count == int(group["last"]) + 1


def _fault(digest: str, document: Document | None, parts: _Parts | None) -> Finding | None:
    """What is wrong with a blob."""
    if document is None:
        if parts is None:
            return None
        return Finding(None, "parts of a blob that is not listed", "a document in cs_blob", digest)
    if "pending" in document or (parts is not None and parts.whole and parts.bytes == document["bytes"]):
        return None
    found = "no parts" if parts is None else f"{parts.bytes} bytes in {parts.count} parts"
    return Finding(None, f"parts of blob {digest}", f"{document['bytes']} bytes", found)
