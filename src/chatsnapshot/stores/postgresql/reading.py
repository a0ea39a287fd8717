"""Reading a PostgreSQL ledger: queries as SQL, pages, rows by id, and what is said of archived payloads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.integrity import canonical_json
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import PAYLOAD, PAYLOAD_BYTES, POSITION, SALT, Page, Query, Row
from chatsnapshot.stores.postgresql.arrays import LongArray, TextArray, UuidArray
from chatsnapshot.stores.postgresql.connections import Connection
from chatsnapshot.stores.postgresql.driver import Int8

__all__ = ["archived", "missing_payloads", "read_page", "rows_by_id"]


_COLUMNS = (
    'e.position, e.sequence, e.recorded_at, uuid_send(e.event_id), e.event_type, e."timestamp", e.source, '
    "e.correlation_id, uuid_send(e.causation_id), p.payload, e.schema_version, e.attributes, e.leaf, p.salt, "
    "e.commitment, e.payload_bytes"
)
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
            where.append("e.sequence < %s" if reverse else "e.sequence > %s")
            values.append(Int8(hint))
    elif query.event_types is not None and len(query.event_types) == 1 and query.type_prefixes is None:
        low, high = after, last  # the index on type leads straight to the matches
    near, far = low, high
    if query.unfiltered:  # positions are dense: only so many are wanted
        near, far = (max(low, high - limit - 1), high) if reverse else (low, min(high, low + limit + 1))
    direction = "DESC" if reverse else "ASC"
    # The ledger's number stands in the text, so that the plan holds the partitions of this ledger only.
    sql = (
        f"SELECT {_COLUMNS} FROM (SELECT e.*, sum(e.payload_bytes) OVER (ORDER BY e.{order} {direction} "
        f"ROWS UNBOUNDED PRECEDING) - e.payload_bytes AS before FROM chatsnapshot.entry AS e WHERE e.ledger = {ledger:d} "
        f"AND e.position > %s AND e.position <= %s {''.join(f' AND {one}' for one in where)} "
        f"ORDER BY e.{order} {direction} LIMIT %s) AS e LEFT JOIN chatsnapshot.payload AS p "
        f"ON p.ledger = {ledger:d} AND p.position = e.position AND p.position > %s AND p.position <= %s "
        f"WHERE e.before < %s ORDER BY e.{order} {direction}"
    )
    bounds = [Int8(near), Int8(far)]
    rows: list[Row] = (
        db.cursor(binary=True)
        .execute(sql, [*bounds, *values, Int8(limit + 1), *bounds, Int8(limits.page_bytes_max)], prepare=True)
        .fetchall()
    )
    full = False
    if len(rows) > limit:
        del rows[limit:]
        full = True
    elif sum(row[PAYLOAD_BYTES] for row in rows) >= limits.page_bytes_max:
        full = True
    _expect_payloads(db, ledger, rows)
    if full:
        return Page(rows, rows[-1][0] - 1 if reverse else rows[-1][0], False)
    if reverse:
        return Page(rows, low, low <= after)
    return Page(rows, max(high, after), high >= last)


def rows_by_id(db: Connection, ledger: int, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
    """The rows of those ids that are known; those whose payload is archived are without one, as if it were erased."""
    if not event_ids:
        return {}
    found = db.cursor(binary=True).execute(
        f"SELECT {_COLUMNS} FROM chatsnapshot.entry AS e LEFT JOIN chatsnapshot.payload AS p "
        f"ON p.ledger = {ledger:d} AND p.position = e.position "
        f"WHERE e.ledger = {ledger:d} AND e.event_id = ANY (%s)",
        (UuidArray(event_ids),),
        prepare=True,
    )
    return {row[3]: row for row in found}


def missing_payloads(db: Connection, ledger: int, rows: Sequence[Row]) -> list[int]:
    """The positions of rows whose payload is neither here nor erased: it was archived."""
    bare = [row[POSITION] for row in rows if row[PAYLOAD] is None and row[SALT] is None]
    if not bare:
        return []
    found = db.execute(
        "SELECT w.position FROM unnest(%s) AS w(position) WHERE NOT EXISTS (SELECT FROM chatsnapshot.payload AS p "
        f"WHERE p.ledger = {ledger:d} AND p.position = w.position) ORDER BY 1",
        (LongArray(bare),),
    )
    return [position for (position,) in found]


def archived(positions: Sequence[int]) -> StoreUnavailable:
    """The error for entries whose payloads are in a partition that is detached."""
    more = f" and of {len(positions) - 1} more" if len(positions) > 1 else ""
    return StoreUnavailable(
        f"the payload of position {positions[0]}{more} is archived; attach its partition again (docs/postgresql.md, "
        "Archive), or read from a later position on"
    )


def _expect_payloads(db: Connection, ledger: int, rows: Sequence[Row]) -> None:
    missing = missing_payloads(db, ledger, rows)
    if missing:
        raise archived(missing)


def _conditions(query: Query) -> tuple[list[str], list[Any]]:
    """WHERE clauses with bound values; nothing of the query is ever written into the SQL."""
    where: list[str] = []
    values: list[Any] = []

    def add(clause: str, *bound: Any) -> None:
        where.append(clause)
        values.extend(bound)

    if query.correlation_id is not None:
        add("e.correlation_id = %s", query.correlation_id)
    if query.event_types is not None or query.type_prefixes is not None:
        parts = []
        if query.event_types:
            parts.append("e.event_type = ANY (%s)" if len(query.event_types) > 1 else "e.event_type = %s")
            values.append(
                TextArray(query.event_types) if len(query.event_types) > 1 else query.event_types[0]
            )
        for prefix in query.type_prefixes or ():
            # Event types are ASCII, so that the text after the prefix is below one more than its last character.
            parts.append("(e.event_type >= %s AND e.event_type < %s)")
            values += [prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)]
        where.append(f"({' OR '.join(parts) or 'FALSE'})")
    for field in ("origin", "runtime", "name"):
        wanted = getattr(query, field)
        if wanted is not None:
            add("strpos(e.source, %s) > 0", f'"{field}":{_json(wanted)}')
    for key, wanted in query.attributes:
        # Canonical JSON of a flat object: a quote inside a text is escaped, so that "key": is a key and nothing else.
        # Not the server's JSON functions: they refuse texts with \u0000.
        value = _json(wanted)
        add(
            "(strpos(e.attributes, %s) > 0 AND e.attributes ~ %s)",
            value,
            rf'[{{,]"{_quoted(key)}":(\[("([^"\\]|\\.)*",)*)?{_quoted(value)}[],}}]',
        )
    if query.causation_id is not None:
        add("e.causation_id = ANY (%s)", UuidArray([query.causation_id]))
    if query.start is not None:
        add('e."timestamp" >= %s', query.start)
    if query.end is not None:
        add('e."timestamp" < %s', query.end)
    return where, values


def _json(value: str | bool | int) -> str:
    return canonical_json(value).decode()


def _quoted(text: str) -> str:
    """A text as a regular expression that matches it alone."""
    return _SPECIAL.sub(lambda found: "\\" + found.group(), text)
