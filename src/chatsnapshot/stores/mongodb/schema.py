"""The collections and indexes of ledger format 1 in MongoDB, and the documents that say that a ledger is there.

``cs_ledger`` holds ``{_id: "@format", application, format, ready}`` and one document a ledger; ``@`` is in no ledger's
name. Everything is made before ``ready`` is set, so who finds it makes nothing.
"""

from __future__ import annotations

import time

from chatsnapshot.clock import time_text
from chatsnapshot.errors import Corrupt, FormatTooNew, NotFound
from chatsnapshot.stores.identity import new_identity
from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.driver import bson, pymongo

__all__ = ["FORMAT", "INDEXES", "find_ledger", "make_ledger", "missing_indexes"]

FORMAT = 1
_MARK = "@format"
_APPLICATION = "chatsnapshot"

_Key = list[tuple[str, int]]

INDEXES: dict[str, dict[str, tuple[_Key, Document]]] = {
    "entry": {
        "position": ([("ledger", 1), ("position", 1)], {"unique": True}),
        "correlation": ([("ledger", 1), ("correlation_id", 1), ("sequence", 1)], {"unique": True}),
        "type": ([("ledger", 1), ("event_type", 1), ("position", 1)], {}),
        "child": (
            [("ledger", 1), ("causation_id", 1)],
            {"partialFilterExpression": {"sequence": 1, "causation_id": {"$exists": True}}},
        ),
        "late": (
            [("ledger", 1), ("causation_id", 1), ("event_type", 1)],
            {
                "partialFilterExpression": {
                    "event_type": "execution.run_started",
                    "causation_id": {"$exists": True},
                }
            },
        ),
        "blob": (
            [("ledger", 1), ("blobs", 1)],
            {"partialFilterExpression": {"blobs": {"$exists": True}}},
        ),
    },
    "tile": {"ledger": ([("ledger", 1), ("level", 1), ("number", 1)], {"unique": True})},
    "blob": {"ledger": ([("ledger", 1)], {})},
    "part": {"part": ([("ledger", 1), ("of", 1), ("number", 1)], {"unique": True})},
    "projection": {"ledger": ([("ledger", 1), ("name", 1), ("version", 1)], {"unique": True})},
    "state": {
        "key": (
            [("ledger", 1), ("name", 1), ("version", 1), ("key", 1), ("part", 1)],
            {"unique": True},
        )
    },
}
"""By collection and name. An entry's ``_id`` is ``ledger/event_id``, so that an id is known once in a ledger."""


def find_ledger(on: Collections, ledger: str, url: str) -> str:
    """The id of an existing ledger. Raises :class:`NotFound`, :class:`FormatTooNew`, :class:`Corrupt`."""
    found = {document["_id"]: document for document in on.ledger.find({"_id": {"$in": [_MARK, ledger]}})}
    if _MARK in found:
        _check_mark(found[_MARK], url)
        if ledger in found:
            return _ledger_id(found[ledger], url)
    raise NotFound(f"no ledger at {url}; record something there first, or check database and ledger")


def make_ledger(on: Collections, ledger: str, url: str, identity: str = "") -> str:
    """The id of a ledger, which is made, and the collections with it, when it is not there.

    ``identity`` is what one that is made is made with.
    """
    mark = on.ledger.find_one({"_id": _MARK})
    if mark is not None and mark.get("ready"):
        try:
            return find_ledger(on, ledger, url)
        except NotFound:
            pass
    if mark is not None:
        _check_mark(mark, url)
    else:
        _refuse_strangers(on, url)
        _insert(on, {"_id": _MARK, "application": _APPLICATION, "format": FORMAT, "ready": False})
    if mark is None or not mark.get("ready"):
        _make_collections(on)
        on.ledger.update_one({"_id": _MARK}, {"$set": {"ready": True}})
    on.head.update_one(
        {"_id": ledger},
        {"$setOnInsert": {"size": 0, "frontier": b"", "recorded_at": ""}},
        upsert=True,
    )
    _insert(
        on,
        {
            "_id": ledger,
            "ledger_id": new_identity(identity),
            "format": FORMAT,
            "created_at": time_text(time.time_ns()),
        },
    )
    return find_ledger(on, ledger, url)


def missing_indexes(on: Collections) -> list[str]:
    """The indexes of the format that are not there, as ``collection.index``."""
    missing: list[str] = []
    for name, indexes in INDEXES.items():
        there = getattr(on, name).index_information()
        for index, (keys, options) in indexes.items():
            found = there.get(index, {})
            if list(found.get("key", [])) != keys or bool(found.get("unique")) != bool(options.get("unique")):
                missing.append(f"cs_{name}.{index}")
    return missing


def _check_mark(mark: Document, url: str) -> None:
    if mark.get("application") != _APPLICATION or not isinstance(mark.get("format"), int):
        raise _strange(url, "cs_ledger")
    if mark["format"] > FORMAT:
        raise FormatTooNew(
            f"{url} has ledger format {mark['format']}, and this version reads up to {FORMAT}; upgrade chatsnapshot"
        )


def _ledger_id(document: Document, url: str) -> str:
    known, version = document.get("ledger_id"), document.get("format")
    if not isinstance(known, str) or not isinstance(version, int):
        raise Corrupt(f"the ledger document of {url} in cs_ledger is damaged; restore a backup")
    if version > FORMAT:
        raise FormatTooNew(
            f"{url} has ledger format {version}, and this version reads up to {FORMAT}; upgrade chatsnapshot"
        )
    return known


def _refuse_strangers(on: Collections, url: str) -> None:
    """Raise :class:`Corrupt` when one of our names is that of a collection somebody else has filled."""
    names = set(on.database.list_collection_names())
    for collection in on:
        if collection.name in names and collection.find_one() is not None:
            if on.ledger.find_one({"_id": _MARK}) is not None:
                return  # another process is making them right now
            raise _strange(url, collection.name)


def _strange(url: str, name: str) -> Corrupt:
    return Corrupt(
        f"the database of {url} has a collection {name} that is not of ChatSnapshot; give another database in the URL"
    )


def _make_collections(on: Collections) -> None:
    """Make collections and indexes; what is there already stays as it is."""
    names = set(on.database.list_collection_names())
    for collection in on:
        if collection.name not in names:
            try:
                on.database.create_collection(collection.name, check_exists=False)
            except pymongo.errors.OperationFailure as error:
                if error.code != _EXISTS:
                    raise
    for name, indexes in INDEXES.items():
        getattr(on, name).create_indexes(
            [
                pymongo.IndexModel(bson.SON(keys), name=index, **options)
                for index, (keys, options) in indexes.items()
            ]
        )


_EXISTS = 48


def _insert(on: Collections, document: Document) -> None:
    try:
        on.ledger.insert_one(document)
    except pymongo.errors.DuplicateKeyError:
        pass  # another process was faster
