"""Reading a SQLite ledger: queries as SQL, pages, and a small pool of reading connections."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from operator import itemgetter

import apsw

from chatsnapshot.errors import Corrupt
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import PAYLOAD_BYTES, Page, Query, Row
from chatsnapshot.stores.sqlite_schema import Names, is_immutable

__all__ = ["COLUMNS", "ReaderPool", "read_page", "rows_by_id"]

COLUMNS = (
    "position, sequence, recorded_at, event_id, event_type, timestamp, source, correlation_id, causation_id, "
    "payload, schema_version, attributes, leaf, salt, commitment, payload_bytes"
)
_IDLE_MAX = 4
_FEW_IDS = 4
_IDS_AT_ONCE = 50


_FIRST_ROWS = 4
_MANY_ROWS = 250
_SMALL_BYTES = 8 * 1024
_payload_bytes = itemgetter(PAYLOAD_BYTES)


class ReaderPool:
    """Connections that are handed from thread to thread; each is used by one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = False

    def take(self) -> apsw.Connection | None:
        """An idle connection, if there is one."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give(self, db: apsw.Connection) -> None:
        """Hand a connection back; it is closed when enough are idle, or when it takes the file for unchanging."""
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_MAX and not is_immutable(db):
                self._idle.append(db)
                return
        db.close()

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def leave(self) -> list[apsw.Connection]:
        """Give up the idle connections without closing them (a forked child must not)."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        return idle


@contextmanager
def one_snapshot(db: apsw.Connection) -> Iterator[None]:
    """Statements inside see one state of the ledger."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("COMMIT")


def rows_by_id(db: apsw.Connection, names: Names, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
    """The rows of those ids that are known."""
    if len(event_ids) > _FEW_IDS:
        event_ids = _known_of(db, names, event_ids)
    sql = _by_id(names["entry"])
    found: dict[bytes, Row] = {}
    for event_id in event_ids:
        row = db.execute(sql, (event_id,)).fetchone()
        if row is not None:
            found[event_id] = row
    return found


@lru_cache(64)
def _by_id(entry: str) -> str:
    """The same text each time: making and hashing it took longer than the look-up."""
    return f"SELECT {COLUMNS} FROM {entry} WHERE event_id = ?"


def _known_of(db: apsw.Connection, names: Names, event_ids: Sequence[bytes]) -> list[bytes]:
    """Those ids that are known, in their order: most batches hold none, and one statement asks for many."""
    sql = f"SELECT event_id FROM {names['entry']} WHERE event_id IN ({','.join('?' * _IDS_AT_ONCE)})"
    known: set[bytes] = set()
    for start in range(0, len(event_ids), _IDS_AT_ONCE):
        asked = list(event_ids[start : start + _IDS_AT_ONCE])
        asked += asked[-1:] * (_IDS_AT_ONCE - len(asked))  # the same text, so the statement is prepared once
        known.update(event_id for (event_id,) in db.execute(sql, asked))
    return [event_id for event_id in event_ids if event_id in known] if known else []


def read_page(
    db: apsw.Connection,
    names: Names,
    limits: Limits,
    query: Query,
    after: int,
    until: int,
    limit: int,
    reverse: bool,
    hint: int | None,
) -> Page:
    """One page of matching rows, see ``Store.read``."""
    top = db.execute(f"SELECT size FROM {names['head']}").get
    last = min(until, top)
    after = max(after, 0)
    if query.scans and last - after > limits.scan_entries_max:
        low, high = (
            (last - limits.scan_entries_max, last) if reverse else (after, after + limits.scan_entries_max)
        )
    else:
        low, high = after, last
    where, values = _conditions(query)
    where.append("position > ? AND position <= ?")
    values += [low, high]
    order = "position"
    if query.correlation_id is not None:
        order = "sequence"
        if hint is not None:
            where.append("sequence < ?" if reverse else "sequence > ?")
            values.append(hint)
    elif query.event_types is not None and len(query.event_types) == 1 and query.type_prefixes is None:
        low, high = after, last  # the index on type leads straight to the matches
        values[-2:] = [low, high]
    direction = "DESC" if reverse else "ASC"
    sql = (
        f"SELECT {COLUMNS} FROM {names['entry']} WHERE {' AND '.join(where)} "
        f"ORDER BY {order} {direction} LIMIT {limit + 1:d}"
    )
    cursor = db.execute(sql, values)
    rows: list[Row] = []
    size = 0
    full = False
    step = _FIRST_ROWS
    while chunk := list(islice(cursor, step)):
        rows += chunk
        try:
            added = sum(map(_payload_bytes, chunk))
        except TypeError:
            raise Corrupt(
                f"an entry after position {rows[0][0] - 1} has a length that is no number; run chatsnapshot verify"
            ) from None
        size += added
        if size >= limits.page_bytes_max:
            full = True
            break
        # Small rows are fetched many at a time; large ones few, so that a page stays near its limit.
        step = _MANY_ROWS if added < _SMALL_BYTES * len(chunk) else _FIRST_ROWS
    cursor.close()
    if len(rows) > limit:
        del rows[limit:]
        full = True
    if full:
        return Page(rows, rows[-1][0] - 1 if reverse else rows[-1][0], False)
    if reverse:
        return Page(rows, low, low <= after)
    return Page(rows, max(high, after), high >= last)


def _conditions(query: Query) -> tuple[list[str], list[object]]:
    """WHERE clauses with bound values; nothing of the query is ever written into the SQL."""
    where: list[str] = []
    values: list[object] = []

    def add(clause: str, *bound: object) -> None:
        where.append(clause)
        values.extend(bound)

    if query.correlation_id is not None:
        add("correlation_id = ?", query.correlation_id)
    if query.event_types is not None or query.type_prefixes is not None:
        parts = ["event_type = ?"] * len(query.event_types or ())
        bound: list[object] = list(query.event_types or ())
        for prefix in query.type_prefixes or ():
            # Event types are ASCII, so that the text after the prefix is below one more than its last character.
            parts.append("(event_type >= ? AND event_type < ?)")
            bound += [prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)]
        add(f"({' OR '.join(parts) or 'FALSE'})", *bound)
    for field in ("origin", "runtime", "name"):
        wanted = getattr(query, field)
        if wanted is not None:
            add("json_extract(source, ?) = ?", f"$.{field}", wanted)
    for key, wanted in query.attributes:
        kind = ("true" if wanted else "false") if isinstance(wanted, bool) else None
        if kind is not None:
            add("EXISTS (SELECT 1 FROM json_each(attributes, ?) WHERE type = ?)", f'$."{key}"', kind)
        else:
            add(
                "EXISTS (SELECT 1 FROM json_each(attributes, ?) WHERE type = ? AND atom = ?)",
                f'$."{key}"',
                "integer" if isinstance(wanted, int) else "text",
                wanted,
            )
    if query.causation_id is not None:
        add("causation_id = ?", query.causation_id)
    if query.start is not None:
        add("timestamp >= ?", query.start)
    if query.end is not None:
        add("timestamp < ?", query.end)
    return where, values
