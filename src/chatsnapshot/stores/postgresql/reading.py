"""Reading a PostgreSQL ledger: queries as SQL, pages, rows by id, and what is said of archived payloads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.integrity import canonical_json
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import EVENT_ID, Page, Query, Row
from chatsnapshot.stores.postgresql.arrays import LongArray, TextArray, UuidArray
from chatsnapshot.stores.postgresql.connections import Connection
from chatsnapshot.stores.postgresql.driver import Int8

__all__ = ["archived", "known_of", "read_page", "rows_by_id"]


_COLUMNS = (
    'position, sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, '
    "causation_id, schema_version, attributes, leaf, commitment, payload_bytes"
)
_POSITION, _BYTES = 0, 13
_SPECIAL = re.compile(r"[!-/:-@\[-`{-~]")


def read_page(
    db: Connection,
    ledger: int,
    limits: Limits,
    query: Query,
    top: int,
    after: int,
    until: int,
    limit: int,
    reverse: bool,
    hint: int | None,
) -> Page:
    """One page of matching rows, see ``Store.read``; ``top`` is a head that was committed before this call."""
    last = min(until, top)
    after = max(after, 0)
    if query.scans and last - after > limits.scan_entries_max:
        low, high = (
            (last - limits.scan_entries_max, last) if reverse else (after, after + limits.scan_entries_max)
        )
    else:
        low, high = after, last
    if low >= high:
        return Page([], low if reverse else max(high, after), True)
    where, values = _conditions(query)
    order = "position"
    if query.correlation_id is not None:
        order = "sequence"
        if hint is not None:
            where.append("sequence < %s" if reverse else "sequence > %s")
            values.append(Int8(hint))
    elif query.event_types is not None and len(query.event_types) == 1 and query.type_prefixes is None:
        low, high = after, last  # the index on type leads straight to the matches
    near, far = low, high
    if query.unfiltered:  # positions are dense: only so many are wanted
        near, far = (max(low, high - limit - 1), high) if reverse else (low, min(high, low + limit + 1))
    direction = "DESC" if reverse else "ASC"
    # The ledger's number stands in the text, so that a plan is about this ledger and its partitions only.
    found = _rows(
        db,
        f"SELECT {_COLUMNS} FROM chatsnapshot.entry WHERE ledger = {ledger:d} AND position > %s AND position <= %s"
        f"{''.join(f' AND {one}' for one in where)} ORDER BY {order} {direction} LIMIT %s",
        [Int8(near), Int8(far), *values, Int8(limit + 1)],
    )
    # Payloads are fetched for what fits into a page, so that a page of large ones is never in memory whole.
    fitting = min(_fitting(found, limits.page_bytes_max), limit)
    full = fitting < len(found)
    rows, missing = _with_payloads(db, ledger, found[:fitting] if full else found, query.unfiltered)
    if missing:
        raise archived(missing)
    if full:
        return Page(rows, rows[-1][0] - 1 if reverse else rows[-1][0], False)
    if reverse:
        return Page(rows, low, low <= after)
    return Page(rows, max(high, after), high >= last)


def rows_by_id(db: Connection, ledger: int, event_ids: Sequence[bytes]) -> tuple[dict[bytes, Row], list[int]]:
    """The rows of those ids that are known; those at the positions given beside them are without their payloads."""
    if not event_ids:
        return {}, []
    found = _rows(
        db,
        f"SELECT {_COLUMNS} FROM chatsnapshot.entry WHERE ledger = {ledger:d} AND event_id = ANY (%s) ORDER BY position",
        [UuidArray(event_ids)],
    )
    rows, missing = _with_payloads(db, ledger, found, False)
    return {row[EVENT_ID]: row for row in rows}, missing


def known_of(db: Connection, ledger: int, event_ids: Sequence[bytes]) -> set[bytes]:
    """Those of the ids that the ledger has."""
    found = _rows(
        db,
        f"SELECT event_id FROM chatsnapshot.entry WHERE ledger = {ledger:d} AND event_id = ANY (%s)",
        [UuidArray(event_ids)],
    )
    return {event_id for (event_id,) in found}


def _rows(db: Connection, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = db.cursor(binary=True).execute(sql, values, prepare=True).fetchall()
    return found


def _fitting(found: Sequence[tuple[Any, ...]], bytes_max: int) -> int:
    """How many rows make a page: all, or those up to the one with which the page is full."""
    sizes = [row[_BYTES] for row in found]
    if sum(sizes) < bytes_max:
        return len(sizes)
    total = 0
    for count, size in enumerate(sizes, 1):
        total += size
        if total >= bytes_max:
            return count
    return len(sizes)


def _with_payloads(
    db: Connection, ledger: int, found: Sequence[tuple[Any, ...]], dense: bool
) -> tuple[list[Row], list[int]]:
    """Whole rows, and the positions of those whose payloads are not here: archived. They look erased otherwise."""
    if not found:
        return [], []
    positions = [row[_POSITION] for row in found]
    select = f"FROM chatsnapshot.payload WHERE ledger = {ledger:d} AND position"
    parts: Sequence[tuple[bytes | None, bytes | None]]
    missing: list[int] = []
    if dense:
        down = positions[0] > positions[-1]
        parts = _rows(
            db,
            f"SELECT salt, payload {select} BETWEEN %s AND %s ORDER BY position {'DESC' if down else 'ASC'}",
            [Int8(min(positions)), Int8(max(positions))],
        )
    if not dense or len(parts) != len(found):
        by_position = {
            position: (salt, payload)
            for position, salt, payload in _rows(
                db, f"SELECT position, salt, payload {select} = ANY (%s)", [LongArray(positions)]
            )
        }
        parts = [by_position.get(position, (None, None)) for position in positions]
        missing = sorted(set(positions) - by_position.keys())
    return [
        (
            position, sequence, recorded_at, event_id, event_type, timestamp, source, correlation, cause, payload,
            version, attributes, leaf, salt, commitment, size,
        )
        for (
            position, sequence, recorded_at, event_id, event_type, timestamp, source, correlation, cause,
            version, attributes, leaf, commitment, size,
        ), (salt, payload) in zip(found, parts, strict=True)
    ], missing  # fmt: skip


def archived(positions: Sequence[int]) -> StoreUnavailable:
    """The error for entries whose payloads are in a partition that is detached."""
    more = f" and of {len(positions) - 1} more" if len(positions) > 1 else ""
    return StoreUnavailable(
        f"the payload of position {positions[0]}{more} is archived; attach its partition again (docs/postgresql.md, "
        "Archive), or read from a later position on"
    )


def _conditions(query: Query) -> tuple[list[str], list[Any]]:
    """WHERE clauses with bound values; nothing of the query is ever written into the SQL."""
    where: list[str] = []
    values: list[Any] = []

    def add(clause: str, *bound: Any) -> None:
        where.append(clause)
        values.extend(bound)

    if query.correlation_id is not None:
        add("correlation_id = %s", query.correlation_id)
    if query.event_types is not None or query.type_prefixes is not None:
        parts = []
        if query.event_types:
            parts.append("event_type = ANY (%s)" if len(query.event_types) > 1 else "event_type = %s")
            values.append(
                TextArray(query.event_types) if len(query.event_types) > 1 else query.event_types[0]
            )
        for prefix in query.type_prefixes or ():
            # Event types are ASCII, so that the text after the prefix is below one more than its last character.
            parts.append("(event_type >= %s AND event_type < %s)")
            values += [prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)]
        where.append(f"({' OR '.join(parts) or 'FALSE'})")
    for field in ("origin", "runtime", "name"):
        wanted = getattr(query, field)
        if wanted is not None:
            add("strpos(source, %s) > 0", f'"{field}":{_json(wanted)}')
    for key, wanted in query.attributes:
        # Canonical JSON of a flat object: a quote inside a text is escaped, so that "key": is a key and nothing else.
        # Not the server's JSON functions: they refuse texts with \u0000.
        value = _json(wanted)
        add(
            "(strpos(attributes, %s) > 0 AND attributes ~ %s)",
            value,
            rf'[{{,]"{_quoted(key)}":(\[("([^"\\]|\\.)*",)*)?{_quoted(value)}[],}}]',
        )
    if query.causation_id is not None:
        add("causation_id = ANY (%s)", UuidArray([query.causation_id]))
    if query.start is not None:
        add('"timestamp" >= %s', query.start)
    if query.end is not None:
        add('"timestamp" < %s', query.end)
    return where, values


def _json(value: str | bool | int) -> str:
    return canonical_json(value).decode()


def _quoted(text: str) -> str:
    """A text as a regular expression that matches it alone."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)
