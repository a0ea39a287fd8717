"""Looks for what is wrong in the files of a JSONL ledger beyond its rows: reads every line, compares with the index."""

from __future__ import annotations

from collections.abc import Iterator

from chatsnapshot.errors import FormatTooNew
from chatsnapshot.integrity import Tree
from chatsnapshot.stores.base import Finding
from chatsnapshot.stores.jsonl_blobs import BlobFolder
from chatsnapshot.stores.jsonl_index import IndexHead, JsonlIndex
from chatsnapshot.stores.jsonl_lines import BadLine, Header, read_header
from chatsnapshot.stores.jsonl_scan import Damage, TornTail, scan
from chatsnapshot.stores.jsonl_segments import Place, Segments

__all__ = ["examine"]

_STEP = 1_000


def examine(index: JsonlIndex, segments: Segments, blobs: BlobFolder) -> list[Finding]:
    """Every fault found; the caller holds one snapshot of the index."""
    head = index.head()
    if head is None:
        return [Finding(None, "index", "a head", "none")]
    return [*_lines(index, head, segments), *_segments(head, segments), *_blobs(index, blobs)]


def _segments(head: IndexHead, segments: Segments) -> Iterator[Finding]:
    found = segments.count()
    if found != head.segment:
        yield Finding(None, "number of segments", str(head.segment), str(found))


def _lines(index: JsonlIndex, head: IndexHead, segments: Segments) -> Iterator[Finding]:
    """All lines that are committed, in order."""
    tree = Tree()
    expected = 1
    for number in range(1, head.segment + 1):
        stamp = segments.stamp(number)
        path = segments.path(number)
        if stamp is None:
            yield Finding(expected, "segment", path, "no such file")
            return
        last = number == head.segment
        # Beyond the size that the index knows a commit may be under way.
        end = min(head.bytes, stamp.bytes) if last else stamp.bytes
        lines = segments.lines(number, 0, end)
        first = next(lines, (0, b"", False))
        wanted = (head.ledger_id, number, expected, tree.root().hex())
        try:
            header: Header | None = read_header(first[1], path)
            assert header is not None
            found = (header.ledger_id, header.segment, header.first, header.root)
            if found != wanted:
                yield Finding(None, f"header of {path}", str(wanted), str(found))
        except (BadLine, FormatTooNew) as error:
            yield Finding(None, f"header of {path}", "a sound header", str(error))
        known: dict[int, Place] = {}
        edge = expected - 1
        leaves: list[bytes] = []
        for one in scan(lines, expected, last=last, deep=False):
            if isinstance(one, TornTail):
                yield Finding(None, f"end of {path}", "whole batches", f"byte {one.offset}: {one.reason}")
            elif isinstance(one, Damage):
                yield Finding(
                    one.position, f"line at byte {one.offset} of {path}", "a sound line", one.reason
                )
                if one.until >= one.position:
                    leaves += [bytes(32)] * (one.until - one.position + 1)
                    expected = one.until + 1
            else:
                position = one.row[0]
                if position > edge:
                    places = index.places(position - 1, position - 1 + _STEP, _STEP)
                    known = {place.position: place for place in places}
                    edge = position - 1 + _STEP
                place = Place(position, number, one.offset, one.length)
                if known.pop(position, None) != place:
                    yield Finding(position, "place of the line in the index", str(tuple(place)), "another")
                if one.unfinished and not index.is_erasing(position):
                    yield Finding(position, "payload partly overwritten", "a record of erasure", "none")
                leaves.append(one.row[12])
                expected = position + 1
            if len(leaves) >= _STEP:
                tree.extend(leaves)
                leaves = []
        tree.extend(leaves)
    if expected - 1 != head.head.size:
        yield Finding(None, "entries in the lines", str(head.head.size), str(expected - 1))
    for segment, one in index.damages():
        if one.length == 0 and one.offset and one.until >= one.position and one.position >= expected:
            yield Finding(one.position, f"line of segment {segment}", "a sound line", one.reason)


def _blobs(index: JsonlIndex, blobs: BlobFolder) -> Iterator[Finding]:
    """Blobs in use are there; their bytes are compared by ``verify``."""
    there = {digest for digest, _ in blobs.all()}
    for digest, position in index.db.execute("SELECT digest, min(position) FROM blob_use GROUP BY digest"):
        if bytes(digest) not in there:
            yield Finding(position, "blob", digest.hex(), "no such file")
