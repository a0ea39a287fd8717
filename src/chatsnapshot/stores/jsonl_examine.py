"""Looks for what is wrong in the files of a JSONL ledger beyond its rows: reads every line, compares with the index."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chatsnapshot.errors import FormatTooNew
from chatsnapshot.integrity import Tree
from chatsnapshot.stores.base import Finding
from chatsnapshot.stores.jsonl_blobs import BlobFolder
from chatsnapshot.stores.jsonl_follow import first_of
from chatsnapshot.stores.jsonl_index import IndexHead, JsonlIndex
from chatsnapshot.stores.jsonl_lines import BadLine, Header, blanks, is_own_record, read_header
from chatsnapshot.stores.jsonl_scan import Damage, TornTail, scan
from chatsnapshot.stores.jsonl_segments import Place, Segments

__all__ = ["examine"]

_STEP = 1_000
_BATCH = re.compile(rb'[^\[]{,128}"batch":\[(\d+),(\d+)\],"leaf":"([0-9a-f]{64})"')


def examine(index: JsonlIndex, segments: Segments, blobs: BlobFolder, tail: TornTail | None) -> list[Finding]:
    """Every fault found; the caller holds one snapshot of the index, and knows of a ``tail`` that was not mended."""
    head = index.head()
    if head is None:
        return [Finding(None, "index", "a head", "none")]
    found = [] if _as_indexed(index, head, segments) else list(_lines(index, head, segments))
    if tail is not None:
        path = segments.path(head.segment)
        found.append(
            Finding(None, f"end of {path}", "whole batches", f"from byte {tail.offset} on: {tail.reason}")
        )
    return [*found, *_segments(head, segments), *_erasing(index, segments), *_blobs(index, blobs)]


def _erasing(index: JsonlIndex, segments: Segments) -> Iterator[Finding]:
    """Payloads that a record names, and of which something is still in the file."""
    places = [place for position in index.erasing() for place in index.places(position - 1, position, 1)]
    for place, line in segments.fetch(places):
        try:
            left = blanks(line)
        except BadLine:
            continue  # a damaged line is reported as such
        if left and not is_own_record(line):
            yield Finding(
                place.position,
                f"payload in the line at byte {place.offset} of {segments.path(place.segment)}",
                "blanks, for its erasure is recorded",
                "bytes that are not overwritten yet; open the ledger for writing",
            )


def _as_indexed(index: JsonlIndex, head: IndexHead, segments: Segments) -> bool:
    """Whether every byte belongs to a header or a line where the index has it, and batches follow each other.

    What is in the lines has been read by whoever looks at the rows; here it need not be read again.
    """
    tree = Tree()
    places = _all_places(index, head.head.size)
    first, members, done = 1, 0, 0
    for number in range(1, head.segment + 1):
        stamp = segments.stamp(number)
        if stamp is None or next(index.damages(), None) is not None:
            return False
        end = min(head.bytes, stamp.bytes) if number == head.segment else stamp.bytes
        lines = segments.lines(number, 0, end)
        try:
            header = read_header(next(lines, (0, b"", False))[1], segments.path(number))
        except (BadLine, FormatTooNew):
            return False
        if (header.ledger_id, header.segment, header.first, header.root) != (
            head.ledger_id, number, done + 1, tree.root().hex(),
        ):  # fmt: skip
            return False
        leaves: list[bytes] = []
        for offset, line, complete in lines:
            place = next(places, None)
            front = _BATCH.match(line)
            if (
                place is None
                or front is None
                or not complete
                or place != (done + 1, number, offset, len(line) + 1)
            ):
                return False
            batch = int(front[1]), int(front[2])
            if done + 1 == first + members:
                first, members = batch
            if batch != (first, members) or batch[0] > done + 1:
                return False
            done += 1
            leaves.append(bytes.fromhex(front[3].decode()))
            if len(leaves) >= _STEP:
                tree.extend(leaves)
                leaves = []
        tree.extend(leaves)
    return done == head.head.size and done + 1 == first + members


def _all_places(index: JsonlIndex, size: int) -> Iterator[Place]:
    after = 0
    while after < size:
        found = index.places(after, size, _STEP)
        if not found:
            return
        yield from found
        after = found[-1].position


def _segments(head: IndexHead, segments: Segments) -> Iterator[Finding]:
    found = segments.count()
    following = first_of(segments, head.segment + 1) if found > head.segment else None
    if following is not None and following > head.head.size:
        return  # begun since, or by a writer that was lost before it committed anything there
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
        following = None if last else first_of(segments, number + 1)
        for one in scan(lines, expected, last=last, deep=False, following=following):
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


def _blobs(index: JsonlIndex, blobs: BlobFolder) -> Iterator[Finding]:
    """Blobs in use are there; their bytes are compared by ``verify``."""
    there = {digest for digest, _ in blobs.all()}
    for digest, position in index.db.execute("SELECT digest, min(position) FROM blob_use GROUP BY digest"):
        if bytes(digest) not in there:
            yield Finding(position, "blob", digest.hex(), "no such file")
