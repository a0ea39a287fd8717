"""The calls that write a PostgreSQL ledger: each one function of the schema, each inside a transaction of the store."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import HASH_BYTES, Tile, Tree
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Draft, Head, Row
from chatsnapshot.stores.postgresql.arrays import (
    BytesArray,
    IntArray,
    LongArray,
    TextArray,
    UuidArray,
)
from chatsnapshot.stores.postgresql.connections import Connection

__all__ = ["Answer", "HeadOnly", "Writer"]

_APPEND = f"SELECT chatsnapshot.append({', '.join(['%s'] * 15 + ['%b'] * 2 + ['%s'] * 2)})"
_STORED = struct.Struct(">q27s")  # in front of the answer: the head before, and recorded_at
_IMPORT = f"SELECT chatsnapshot.import({', '.join(['%s'] * 17)})"


class Answer(NamedTuple):
    """What ``chatsnapshot.append`` says: 'stored', 'known' or 'behind', the recorded_at, and the rows it has stored."""

    outcome: str
    recorded_at: str
    rows: list[Row]


class HeadOnly(Tree):
    """A tree of which only the size is known: enough to plan with where the server grows the tree."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def copy(self) -> Tree:
        """Itself: it does not change."""
        return self

    def extend(self, leaves: Sequence[bytes]) -> list[Tile]:
        """Left to the server."""
        return []


class Writer:
    """Calls for one ledger; holds no connection and no state."""

    def __init__(self, ledger: int, limits: Limits) -> None:
        self._ledger = ledger
        self._part_bytes = limits.blob_part_bytes

    def append(
        self, db: Connection, drafts: Sequence[Draft], clock: str, noted: bool, unknown: bool = False
    ) -> Answer:
        """Append in one call. With ``unknown`` the caller has made sure, under the lock, that no id is known."""
        count = len(drafts)
        ids, types, times, sources, correlations, causes, payloads, versions, attributes = zip(
            *[draft.columns for draft in drafts], strict=True
        )
        which: list[int] = []
        nth: list[int] = []
        numbers = {correlations[0]: 1}
        if correlations.count(correlations[0]) < count:
            counts = [0]
            for correlation in correlations:
                number = numbers.setdefault(correlation, len(numbers) + 1)
                if number > len(counts):
                    counts.append(0)
                counts[number - 1] += 1
                which.append(number)
                nth.append(counts[number - 1])
        check = [] if unknown else [draft.columns[0] for draft in drafts if not draft.fresh]
        found = (
            db.cursor(binary=True)
            .execute(
                _APPEND,
                (
                    self._ledger,
                    clock,
                    noted,
                    UuidArray(check) if check else UuidArray.nothing(),
                    TextArray.few(list(numbers)),
                    IntArray(which) if which else IntArray.nothing(),
                    IntArray(nth) if nth else IntArray.nothing(),
                    UuidArray(ids),
                    TextArray.few(types),
                    TextArray.shortest(times),
                    TextArray.few(sources),
                    UuidArray.shortest(causes),
                    LongArray.shortest(versions),
                    TextArray.shortest(attributes),
                    BytesArray(payloads),
                    b"".join([draft.salt for draft in drafts]),
                    b"".join([draft.commitment for draft in drafts]),
                    BytesArray([b"\x00" + draft.head for draft in drafts]),
                    BytesArray.shortest([draft.tail for draft in drafts]),
                ),
                prepare=True,
            )
            .fetchone()
        )
        assert found is not None, "a function gives one row"
        answer: bytes = found[0]
        if len(answer) < _STORED.size:
            return Answer(answer.decode(), "", [])
        size, stamp = _STORED.unpack_from(answer)
        recorded_at = stamp.decode()
        lasts = struct.unpack_from(f">{len(numbers)}q", answer, _STORED.size)
        end = _STORED.size + 8 * len(numbers)
        position = size
        rows: list[Row] = []
        for draft, number, place in zip(drafts, which or repeat(1), nth or range(1, count + 1), strict=False):
            position += 1
            start, end = end, end + HASH_BYTES
            rows.append(
                (
                    position, lasts[number - 1] + place, recorded_at, *draft.columns,
                    answer[start:end], draft.salt, draft.commitment, draft.payload_bytes,
                )
            )  # fmt: skip
        return Answer("stored", recorded_at, rows)

    def lock(self, db: Connection) -> None:
        """Keep other writers of this ledger out until the transaction ends."""
        db.execute("SELECT chatsnapshot.lock(%s)", (self._ledger,), prepare=True)

    def head(self, db: Connection) -> Head:
        """The head as the next statement would see it."""
        found = (
            db.cursor(binary=True)
            .execute(
                f"SELECT size, frontier, recorded_at FROM chatsnapshot.head WHERE ledger = {self._ledger:d}",
                prepare=True,
            )
            .fetchone()
        )
        if found is None:
            raise Corrupt("the head of the ledger is missing; keep a copy and run chatsnapshot doctor")
        return Head(*found)

    def last_sequence(self, db: Connection, correlation_id: str) -> int:
        """The last sequence of a correlation; 0 when it is new."""
        found = db.execute(
            f"SELECT sequence FROM chatsnapshot.entry WHERE ledger = {self._ledger:d} AND correlation_id = %s "
            "ORDER BY sequence DESC LIMIT 1",
            (correlation_id,),
            prepare=True,
        ).fetchone()
        return 0 if found is None else int(found[0])

    def import_rows(self, db: Connection, rows: Sequence[Row]) -> None:
        """Rows that were checked, right after the head."""
        column = list(zip(*rows, strict=True))
        db.execute(
            _IMPORT,
            (
                self._ledger,
                rows[0][0],
                LongArray(column[1]),
                TextArray(column[2]),
                UuidArray(column[3]),
                TextArray(column[4]),
                TextArray(column[5]),
                TextArray(column[6]),
                TextArray(column[7]),
                UuidArray(column[8]),
                BytesArray(column[9]),
                LongArray(column[10]),
                TextArray(column[11]),
                BytesArray(column[12]),
                BytesArray(column[13]),
                BytesArray(column[14]),
                IntArray(column[15]),
            ),
            prepare=True,
        )

    def put_blobs(self, db: Connection, blobs: Mapping[bytes, bytes]) -> None:
        """Blobs that are not there yet, in parts."""
        if not blobs:
            return
        known = {
            bytes(digest)
            for (digest,) in db.execute(
                f"SELECT digest FROM chatsnapshot.blob WHERE ledger = {self._ledger:d} AND digest = ANY (%s)",
                (BytesArray(list(blobs)),),
            )
        }
        step = self._part_bytes
        for digest, data in blobs.items():
            if digest not in known:
                for start in range(0, max(len(data), 1), step):
                    db.execute(
                        "SELECT chatsnapshot.put_blob(%s, %s, %s, %s, %b)",
                        (self._ledger, digest, len(data), start // step, data[start : start + step]),
                    )

    def use_blobs(self, db: Connection, users: Mapping[int, Sequence[bytes]]) -> None:
        """Note which positions name which blobs."""
        pairs = [(digest, position) for position, digests in users.items() for digest in digests]
        if pairs:
            db.execute(
                "SELECT chatsnapshot.use_blobs(%s, %s, %s)",
                (
                    self._ledger,
                    BytesArray([digest for digest, _ in pairs]),
                    LongArray([position for _, position in pairs]),
                ),
            )

    def erase(self, db: Connection, positions: Sequence[int]) -> list[int]:
        """Remove payloads and salts; gives the positions that are archived, and removes nothing if there are any."""
        found = db.execute(
            "SELECT chatsnapshot.erase(%s, %s)", (self._ledger, LongArray(positions))
        ).fetchone()
        assert found is not None, "a function gives one row"
        return list(found[0])
