"""Reading a MongoDB ledger: queries as filters, pages, rows by id, last sequences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import canonical_json
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import EVENT_ID, PAYLOAD, POSITION, Head, Page, Query, Row
from chatsnapshot.stores.hanging import RUN_STARTED
from chatsnapshot.stores.matching import matcher
from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.documents import entry_id, row_of
from chatsnapshot.stores.mongodb.driver import ClientSession, CommandCursor, Cursor
from chatsnapshot.stores.mongodb.parts import payload_name, read_parts

__all__ = ["children_of", "head_of", "last_sequences", "read_page", "rows_by_id"]

_IDS_AT_ONCE = 1_000
_SEEKS_MAX = 8
_FIRST_REPLY_MAX = 1_001


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
    """Correlations that hang under this one, by their first position."""
    causes = [
        bytes.fromhex(document["_id"][-36:].replace("-", ""))
        for document in on.entry.find({"ledger": ledger, "correlation_id": correlation_id}, {"_id": 1})
    ]
    found: dict[int, str] = {}
    late: dict[str, int] = {}
    for first in range(0, len(causes), _IDS_AT_ONCE):
        caused = {"causation_id": {"$in": causes[first : first + _IDS_AT_ONCE], "$exists": True}}
        begun = {"ledger": ledger, "sequence": 1, **caused}
        for document in on.entry.find(begun, {"position": 1, "correlation_id": 1}):
            found[document["position"]] = document["correlation_id"]
        started = {"ledger": ledger, "event_type": RUN_STARTED, "sequence": {"$gt": 1}, **caused}
        for document in on.entry.find(started, {"correlation_id": 1, "sequence": 1}):
            child, sequence = document["correlation_id"], document["sequence"]
            late[child] = min(sequence, late.get(child, sequence))
    for child, sequence in late.items():
        position = _hangs_late(on, ledger, child, sequence)
        if position is not None:
            found[position] = child
    return [found[position] for position in sorted(found) if found[position] != correlation_id]


def _hangs_late(on: Collections, ledger: str, correlation_id: str, sequence: int) -> int | None:
    """The first position of a correlation whose start at ``sequence`` tells where it hangs, and nothing before it."""
    of = {"ledger": ledger, "correlation_id": correlation_id}
    first = on.entry.find_one({**of, "sequence": 1}, {"position": 1, "causation_id": 1})
    if first is None or first.get("causation_id") is None:
        return None
    cause = on.entry.find_one({"_id": entry_id(ledger, bytes(first["causation_id"]))}, {"correlation_id": 1})
    if cause is None or cause["correlation_id"] != correlation_id:
        return None
    before = {
        **of,
        "event_type": RUN_STARTED,
        "sequence": {"$gt": 1, "$lt": sequence},
        "causation_id": {"$exists": True},
    }
    return None if on.entry.find_one(before, {"_id": 1}) else int(first["position"])


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
    indexed, others = _filters(ledger, query, low, high, hint, reverse, whole=high >= top)
    order = "position" if query.correlation_id is None else "sequence"
    matches = matcher(query)
    rows: list[Row] = []
    size = 0
    full = False
    # Read down, a correlation may begin with entries beyond the head that is read to: they do not count.
    exact = not others and not (reverse and query.correlation_id is not None)
    with _cursor(on, indexed, others, order, reverse, limit + 1, exact) as cursor:
        for document in cursor:
            row = whole_row(on, ledger, document)
            if not low < row[POSITION] <= high:
                if (row[POSITION] > high) != reverse:
                    break
                continue
            if not matches(row):
                continue
            if len(rows) >= limit or size >= limits.page_bytes_max:
                full = True
                break
            rows.append(row)
            size += len(row[PAYLOAD] or b"")
    if full:
        return Page(rows, rows[-1][0] - 1 if reverse else rows[-1][0], False)
    if reverse:
        return Page(rows, low, low <= after)
    return Page(rows, max(high, after), high >= last)


def _cursor(
    on: Collections, indexed: Document, others: Document, order: str, reverse: bool, count: int, exact: bool
) -> CommandCursor[Document] | Cursor[Document]:
    """Documents in order; what an index leads to is named first, what must be looked at after it.

    ``count`` are wanted; where the filter is ``exact`` there are no more to come, and no cursor stays to be closed.
    """
    direction = -1 if reverse else 1
    first = min(count, _FIRST_REPLY_MAX)
    if not others:
        return on.entry.find(
            indexed, sort=[(order, direction)], batch_size=max(first, 2), limit=count if exact else 0
        )
    steps: list[Document] = [{"$match": indexed}, {"$match": others}, {"$sort": {order: direction}}]
    return on.entry.aggregate(steps, batchSize=max(first, 2))


def _filters(
    ledger: str, query: Query, low: int, high: int, hint: int | None, reverse: bool, whole: bool
) -> tuple[Document, Document]:
    """What an index leads to, and what the server leaves out of that.

    It may let through more than matches, which is looked at again here. ``whole``: the page may go up to the head.
    """
    indexed: Document = {"ledger": ledger}
    others: Document = {}
    bounds = {"$gt": low, "$lte": high}
    types = _types(query)
    if query.correlation_id is not None:
        indexed["correlation_id"] = query.correlation_id
        if hint is not None:
            indexed["sequence"] = {"$lt" if reverse else "$gt": hint}
        # Positions rise with sequences: who reads up from the beginning of a correlation stops at the end by himself.
        if low > 0 or (reverse and not whole):
            others["position"] = bounds
        others.update(types)
    elif isinstance(types.get("event_type"), str):
        indexed["event_type"] = types["event_type"]
        indexed["position"] = bounds
    else:
        indexed["position"] = bounds
        others.update(types)
    source = [
        f'"{field}":{_json(value)}'
        for field in ("name", "origin", "runtime")
        if (value := getattr(query, field)) is not None
    ]
    if source:
        others["source"] = _containing(source)
    if query.attributes:
        # Keys of canonical JSON are in order; the value may be an item of a list.
        others["attributes"] = _containing(
            [f'"{key}":' for key in sorted({key for key, _ in query.attributes})]
        )
    if query.causation_id is not None:
        others["causation_id"] = query.causation_id
    if query.start is not None or query.end is not None:
        times = {"$gte": query.start, "$lt": query.end}
        others["timestamp"] = {sign: text for sign, text in times.items() if text is not None}
    return indexed, others


def _types(query: Query) -> Document:
    """The condition on event types, if there is one."""
    if query.event_types is None and query.type_prefixes is None:
        return {}
    names, prefixes = query.event_types or (), query.type_prefixes or ()
    if len(names) == 1 and not prefixes:
        return {"event_type": names[0]}
    if not prefixes:
        return {"event_type": {"$in": list(names)}}
    # Event types are ASCII, so that the text after the prefix is below one more than its last character.
    ranges: list[Document] = [
        {"event_type": {"$gte": prefix, "$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)}} for prefix in prefixes
    ]
    if len(ranges) == 1 and not names:
        return ranges[0]
    return {"$or": [*ranges, {"event_type": {"$in": list(names)}}]}


def _json(value: object) -> str:
    return canonical_json(value).decode()


def _containing(texts: Sequence[str]) -> Document:
    """In canonical JSON quotes inside of strings are escaped, so that a member is found as it is written."""
    return {"$regex": ".*".join(map(re.escape, texts))}
