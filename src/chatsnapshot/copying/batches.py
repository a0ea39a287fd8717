"""Reads whole entries of a ledger in batches, each with the blobs that its entries name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from chatsnapshot.errors import Corrupt
from chatsnapshot.jsonvalue import blob_digests
from chatsnapshot.stores.base import PAYLOAD, POSITION, Query, Row, Store
from chatsnapshot.stores.imports import named_positions

__all__ = ["BATCH_BYTES_MAX", "Batch", "Batches"]

BATCH_BYTES_MAX = 4 * 1024 * 1024
"""A batch ends with the entry that brings payloads and blobs to this size."""

_ENTRY_BYTES = 400
"""What an entry weighs beside its payload, about."""
_BLOBS_KNOWN = 10_000


class Batch(NamedTuple):
    """Entries in order, blobs by digest, and about how many bytes both are."""

    rows: list[Row]
    blobs: dict[bytes, bytes]
    bytes: int


class Batches:
    """Batches of one source for one target.

    Memory: :data:`BATCH_BYTES_MAX` and one entry with its blobs. A blob is sent with the first entry that names it, and
    again where the target may have let go of it since.
    """

    def __init__(self, source: Store, events_max: int) -> None:
        self._source = source
        self._events_max = events_max
        self._sent: OrderedDict[bytes, None] = OrderedDict()

    def forget(self) -> None:
        """A batch was not taken, or others have written to the target: what it has is not known."""
        self._sent.clear()

    def between(self, after: int, until: int) -> Iterator[Batch]:
        """The entries with after < position <= until.

        Raises :class:`Corrupt` for a hole or a blob that is missing or does not hash to its name.
        """
        batch = Batch([], {}, 0)
        for row in self._rows(after, until):
            row, blobs = self._with_blobs(row, batch.blobs)
            if named_positions(row):
                self.forget()
            batch.rows.append(row)
            batch.blobs.update(blobs)
            weight = _ENTRY_BYTES + len(row[PAYLOAD] or b"") + sum(map(len, blobs.values()))
            batch = batch._replace(bytes=batch.bytes + weight)
            if batch.bytes >= BATCH_BYTES_MAX or len(batch.rows) >= self._events_max:
                yield batch
                batch = Batch([], {}, 0)
        if batch.rows:
            yield batch

    def _rows(self, after: int, until: int) -> Iterator[Row]:
        while after < until:
            page = self._source.read(
                Query(), after=after, until=until, limit=self._events_max, reverse=False, hint=None
            )
            if not page.rows or page.rows[0][POSITION] != after + 1:
                raise Corrupt(
                    f"position {after + 1} of {self._source.url} is missing; run chatsnapshot verify",
                    position=after + 1,
                )
            for row in page.rows:
                if row[POSITION] != after + 1:
                    break  # the next page begins with the hole
                after += 1
                yield row

    def _with_blobs(self, row: Row, here: dict[bytes, bytes]) -> tuple[Row, dict[bytes, bytes]]:
        payload = row[PAYLOAD]
        if payload is None or b"$blob" not in payload:
            return row, {}
        blobs: dict[bytes, bytes] = {}
        for digest in blob_digests(payload):
            if digest in here or digest in self._sent:
                continue
            data = self._blob(digest)
            if data is None:
                now = next(self._rows(row[POSITION] - 1, row[POSITION]))
                if now[PAYLOAD] is None:  # erased between the two reads
                    return now, {}
                raise Corrupt(
                    f"the blob sha256:{digest.hex()} of position {row[POSITION]} of {self._source.url} is missing; run "
                    "chatsnapshot verify",
                    position=row[POSITION],
                )
            blobs[digest] = data
        for digest in blobs:
            self._sent[digest] = None
        while len(self._sent) > _BLOBS_KNOWN:
            self._sent.popitem(last=False)
        return row, blobs

    def _blob(self, digest: bytes) -> bytes | None:
        parts = self._source.blob(digest)
        if parts is None:
            return None
        pieces = list(parts)
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if sha256(data).digest() != digest:
            raise Corrupt(
                f"the blob sha256:{digest.hex()} of {self._source.url} does not hash to its name; run chatsnapshot verify"
            )
        return data
