"""Reading a MongoDB ledger: queries as filters, pages, rows by id, last sequences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import canonical_json
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import EVENT_ID, PAYLOAD, Head, Page, Query, Row
from chatsnapshot.stores.matching import matcher
from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.documents import entry_id, row_of
from chatsnapshot.stores.mongodb.driver import ClientSession
from chatsnapshot.stores.mongodb.parts import payload_name, read_parts

__all__ = ["children_of", "head_of", "last_sequences", "read_page", "rows_by_id"]

_IDS_AT_ONCE = 1_000
_SEEKS_MAX = 8
_FIRST_REPLY = 101


def head_of(document: Document | None, url: str) -> Head:
    """The head that a document holds; raises :class:`Corrupt`."""
    if document is None:
        raise Corrupt(f"the head of {url} is missing in cs_head; restore a backup of the database")
    size, frontier, recorded_at = (document.get(key) for key in ("size", "frontier", "recorded_at"))
    if not (isinstance(size, int) and isinstance(frontier, bytes) and isinstance(recorded_at, str)):
        raise Corrupt(f"the head of {url} in cs_head is damaged; restore a backup of the database")
    return Head(int(size), frontier, recorded_at)


def rows_by_id(
    on: Collections, ledger: str, event_ids: Sequence[bytes], session: ClientSession | None = None
) -> dict[bytes, Row]:
    """The rows of those ids that are known."""
    found: dict[bytes, Row] = {}
    wanted = [entry_id(ledger, event_id) for event_id in dict.fromkeys(event_ids)]
    for first in range(0, len(wanted), _IDS_AT_ONCE):
        part = wanted[first : first + _IDS_AT_ONCE]
        for document in on.entry.find({"_id": {"$in": part}}, session=session, batch_size=_IDS_AT_ONCE):
            row = whole_row(on, ledger, document, session)
            found[row[EVENT_ID]] = row
    return found


def whole_row(on: Collections, ledger: str, document: Document, session: ClientSession | None = None) -> Row:
    """The row of a document, its payload put together where it is kept in parts."""
    if not document.get("parted"):
        return row_of(document)
    return row_of(document, b"".join(read_parts(on, ledger, payload_name(document.get("position")), session)))


def last_sequences(
    on: Collections, ledger: str, correlations: Sequence[str], session: ClientSession | None = None
) -> dict[str, int]:
    """The last sequence of each correlation; 0 of a new one."""
    found = dict.fromkeys(correlations, 0)
    if len(correlations) <= _SEEKS_MAX:
        for correlation in correlations:
            last = on.entry.find_one(
                {"ledger": ledger, "correlation_id": correlation},
                {"sequence": 1},
                sort=[("sequence", -1)],
                session=session,
            )
            if last is not None:
                found[correlation] = int(last["sequence"])
        return found
    # One seek in the index for each correlation, and one answer for all.
    for first in range(0, len(correlations), _IDS_AT_ONCE):
        part = list(correlations[first : first + _IDS_AT_ONCE])
        steps: list[dict[str, Any]] = [
            {"$match": {"ledger": ledger, "correlation_id": {"$in": part}}},
            {"$sort": {"ledger": -1, "correlation_id": -1, "sequence": -1}},
            {"$group": {"_id": "$correlation_id", "last": {"$first": "$sequence"}}},
        ]
        for group in on.entry.aggregate(steps, session=session, batchSize=_IDS_AT_ONCE):
            found[group["_id"]] = int(group["last"])
    return found


def children_of(on: Collections, ledger: str, correlation_id: str) -> list[str]:
    """Correlations whose first event was caused by an event of this one, by their first position."""
    causes = [
        bytes.fromhex(document["_id"][-36:].replace("-", ""))
        for document in on.entry.find({"ledger": ledger, "correlation_id": correlation_id}, {"_id": 1})
    ]
    found: dict[int, str] = {}
    for first in range(0, len(causes), _IDS_AT_ONCE):
        wanted = {
            "ledger": ledger,
            "sequence": 1,
            "causation_id": {"$in": causes[first : first + _IDS_AT_ONCE], "$exists": True},
        }
        for document in on.entry.find(wanted, {"position": 1, "correlation_id": 1}):
            if document["correlation_id"] != correlation_id:
                found[document["position"]] = document["correlation_id"]
    return [found[position] for position in sorted(found)]


def read_page(
    on: Collections,
    ledger: str,
    limits: Limits,
    query: Query,
    after: int,
    until: int,
    limit: int,
    reverse: bool,
    hint: int | None,
    top: int,
) -> Page:
    """One page of matching rows, see ``Store.read``; ``top`` is a head that was seen."""
    last = min(until, top)
    after = max(after, 0)
    low, high = after, last
    one_type = query.event_types is not None and len(query.event_types) == 1 and query.type_prefixes is None
    if query.scans and not one_type and last - after > limits.scan_entries_max:
        low, high = (
            (last - limits.scan_entries_max, last) if reverse else (after, after + limits.scan_entries_max)
        )
    if high <= low:
        return Page([], low if reverse else max(high, after), low <= after if reverse else high >= last)
    wanted = _filter(ledger, query, low, high)
    order = "position"
    if query.correlation_id is not None:
        order = "sequence"
        if hint is not None:
            wanted["sequence"] = {"$lt" if reverse else "$gt": hint}
    matches = matcher(query)
    rows: list[Row] = []
    size = 0
    full = False
    with on.entry.find(
        wanted,
        sort=[(order, -1 if reverse else 1)],
        batch_size=max(min(limit, limits.page_entries_max), 1) + 1,
    ) as cursor:
        for document in cursor:
            if len(rows) >= limit or size >= limits.page_bytes_max:
                full = True
                break
            row = whole_row(on, ledger, document)
            if matches(row):
                rows.append(row)
                size += len(row[PAYLOAD] or b"")
    if full:
        return Page(rows, rows[-1][0] - 1 if reverse else rows[-1][0], False)
    if reverse:
        return Page(rows, low, low <= after)
    return Page(rows, max(high, after), high >= last)


def _filter(ledger: str, query: Query, low: int, high: int) -> Document:
    """What the server leaves out; it may let through more than matches, which is looked at again here."""
    wanted: Document = {"ledger": ledger, "position": {"$gt": low, "$lte": high}}
    every: list[Document] = []
    if query.correlation_id is not None:
        wanted["correlation_id"] = query.correlation_id
    types = _types(query)
    if len(types) == 1:
        wanted.update(types[0])
    elif query.event_types is not None or query.type_prefixes is not None:
        every.append({"$or": types} if types else {"_id": None})
    for field in ("origin", "runtime", "name"):
        value = getattr(query, field)
        if value is not None:
            every.append({"source": _containing(f'"{field}":{_json(value)}')})
    for key, value in query.attributes:
        every.append({"attributes": _containing(f'"{key}":')})
        every.append({"attributes": _containing(_json(value))})
    if query.causation_id is not None:
        wanted["causation_id"] = query.causation_id
    bounds = {"$gte": query.start, "$lt": query.end}
    if query.start is not None or query.end is not None:
        wanted["timestamp"] = {sign: text for sign, text in bounds.items() if text is not None}
    if every:
        wanted["$and"] = every
    return wanted


def _types(query: Query) -> list[Document]:
    found: list[Document] = []
    if query.event_types:
        kinds: Iterable[str] = query.event_types
        found.append(
            {"event_type": {"$in": list(kinds)} if len(query.event_types) > 1 else query.event_types[0]}
        )
    for prefix in query.type_prefixes or ():
        # Event types are ASCII, so that the text after the prefix is below one more than its last character.
        found.append({"event_type": {"$gte": prefix, "$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)}})
    return found


def _json(value: object) -> str:
    return canonical_json(value).decode()


def _containing(text: str) -> Document:
    """In canonical JSON quotes inside of strings are escaped, so that a member is found as it is written."""
    return {"$regex": re.escape(text)}
