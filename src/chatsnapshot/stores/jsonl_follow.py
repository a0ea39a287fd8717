"""Brings the index and the lines of a JSONL ledger into agreement: trusts what has not changed, reads the rest again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

import apsw

from chatsnapshot.errors import Corrupt, FormatTooNew
from chatsnapshot.integrity import TILE_HASHES, Tree
from chatsnapshot.stores.base import Head
from chatsnapshot.stores.imports import named_positions
from chatsnapshot.stores.jsonl_file import Stamp
from chatsnapshot.stores.jsonl_index import JsonlIndex, Sealed
from chatsnapshot.stores.jsonl_lines import BadLine, Header, read_header, read_line, read_row
from chatsnapshot.stores.jsonl_scan import Damage, Seen, TornTail, scan
from chatsnapshot.stores.jsonl_segments import Segments

__all__ = ["At", "caught_up", "first_of", "loaded", "read_again", "read_on"]

_NO_LEAF = bytes(32)
"""Stands in the tree for an entry whose line is damaged: nothing proves it then."""

_log = logging.getLogger("chatsnapshot")
_FLUSH_ROWS = 1_000
_HEADER_BYTES_MAX = 4096
_NO_ID = "00000000-0000-0000-0000-000000000000"

ReadTile = Callable[[int, int], bytes]


class At(NamedTuple):
    """The state that the index and the lines agree on."""

    ledger_id: str
    stamp: Stamp
    end: int
    """Where whole batches end in the last segment; what follows is a torn tail that was not mended."""
    segment: int
    first: int
    """First position of the last segment."""
    tree: Tree
    recorded_at: str
    tail: TornTail | None = None
    strays: tuple[tuple[int, TornTail], ...] = ()
    """Torn tails of sealed segments, by segment: nothing of the history is in them."""

    @property
    def head(self) -> Head:
        """The head of the ledger."""
        return Head(*self.tree.head(), self.recorded_at)


def tree_of(index: JsonlIndex, segments: Segments, head: Head, read_tile: ReadTile) -> Tree:
    """The tree of a head, from its frontier and the leaves after the last full tile."""
    first = head.size - head.size % TILE_HASHES
    leaves = [_NO_LEAF] * (head.size - first)
    for place, line in segments.fetch(index.places(first, head.size, TILE_HASHES)):
        leaves[place.position - first - 1] = _leaf(line, place.position)
    return Tree.restore(head.size, head.frontier, leaves, read_tile)


def _leaf(line: bytes, position: int) -> bytes:
    try:
        row = read_row(line, erasing=True)
    except BadLine as error:
        raise Corrupt(f"the line of position {position} is damaged: {error}", position=position) from None
    return row[12]


def caught_up(index: JsonlIndex, segments: Segments, tree: Tree, head: Head) -> Tree | None:
    """``tree`` with what others have added since; ``None`` when it must be read anew."""
    if not 0 < tree.size < head.size or head.size - tree.size > TILE_HASHES:
        return None
    found = index.places(tree.size, head.size, TILE_HASHES)
    if len(found) != head.size - tree.size:
        return None
    grown = tree.copy()
    grown.extend([_leaf(line, place.position) for place, line in segments.fetch(found)])
    return grown if grown.head() == (head.size, head.frontier) else None


def loaded(index: JsonlIndex, segments: Segments, before: At | None, read_tile: ReadTile) -> At | int:
    """The state of the index when the files are as it knows them; otherwise the first segment to read again.

    ``before`` is what this store knew last: sealed segments are looked at only when there is nothing.
    """
    head = index.head()
    if head is None:
        return 1
    sealed = index.segments()
    if before is None:
        count = segments.count()
        for one in sealed:
            stamp = segments.stamp(one.number)
            if one.number < head.segment and (stamp is None or stamp[1:] != (one.bytes, one.mtime_ns)):
                return one.number
    stamp = segments.stamp(head.segment)
    if stamp is None or not head.matches(stamp) or len(sealed) != head.segment:
        return min(head.segment, len(sealed)) or 1
    if before is not None:
        count = head.segment if segments.stamp(head.segment + 1) is None else head.segment + 1
    if count != head.segment:
        return head.segment + 1 if count > head.segment else 1
    tree: Tree | None = None
    if before is not None:
        tree = caught_up(index, segments, before.tree, head.head)
    if tree is None:
        try:
            tree = tree_of(index, segments, head.head, read_tile)
        except Corrupt:
            return head.segment
    return At(head.ledger_id, stamp, stamp.bytes, head.segment, sealed[-1].first, tree, head.head.recorded_at)


class _Reading:
    """Takes what a scan finds into the index; the caller holds a transaction."""

    def __init__(self, index: JsonlIndex, tree: Tree, recorded_at: str) -> None:
        self.index = index
        self.tree = tree
        self.recorded_at = recorded_at
        self.tail: TornTail | None = None
        self.strays: list[tuple[int, TornTail]] = []
        self.unfinished: list[tuple[int, int, int]] = []
        self.segment = 0
        self.seen: list[Seen] = []

    def take(self, found: Iterator[Seen | Damage | TornTail], segment: int, *, last: bool) -> None:
        self.segment = segment
        for one in found:
            if isinstance(one, Seen):
                if self.seen and self.seen[-1].offset + self.seen[-1].length != one.offset:
                    self.flush()
                self.seen.append(one)
                if len(self.seen) >= _FLUSH_ROWS:
                    self.flush()
            elif isinstance(one, Damage):
                self.flush()
                self.damage(one)
            elif last:
                self.tail = one
            else:
                self.strays.append((segment, one))
        self.flush()

    def damage(self, damage: Damage) -> None:
        self.index.add_damage(self.segment, damage)
        if damage.until > self.tree.size:
            self.grow([_NO_LEAF] * (damage.until - self.tree.size))

    def grow(self, leaves: list[bytes]) -> None:
        self.index.add_tiles(self.tree.extend(leaves))

    def flush(self) -> None:
        seen, self.seen = self.seen, []
        if not seen:
            return
        rows = [one.row for one in seen]
        db = self.index.db
        try:
            with db:  # a savepoint
                self.index.add(rows, self.segment, seen[0].offset, [one.length for one in seen])
        except apsw.ConstraintError:
            for one in seen:
                try:
                    with db:
                        self.index.add([one.row], self.segment, one.offset, [one.length])
                except apsw.ConstraintError:
                    position = one.row[0]
                    reason = "an event id or a sequence is there twice"
                    self.index.add_damage(self.segment, Damage(position, position, one.offset, 0, reason))
        self.grow([row[12] for row in rows])
        self.recorded_at = max(self.recorded_at, rows[-1][2])
        for one in seen:
            if one.unfinished:
                self.unfinished.append((self.segment, one.row[0], one.offset))
            if one.row[4] == "ledger.payload_erased":
                self.index.add_erasing(one.row[0], named_positions(one.row))

    def settle_unfinished(self) -> None:
        """A payload that is half gone without a record is damage."""
        for segment, position, offset in self.unfinished:
            if not self.index.is_erasing(position):
                reason = "the payload is partly overwritten, and no record says that it was erased"
                self.index.add_damage(segment, Damage(position, position, offset, 0, reason))


def read_on(index: JsonlIndex, segments: Segments, at: At) -> At | None:
    """Take the lines added after ``at`` in the same segment; ``None`` when it is not only that."""
    stamp = segments.stamp(at.segment)
    if stamp is None or stamp.inode != at.stamp.inode or stamp.bytes < at.end:
        return None
    if segments.stamp(at.segment + 1) is not None:
        return None
    reading = _Reading(index, at.tree.copy(), at.recorded_at)
    lines = segments.lines(at.segment, at.end, stamp.bytes)
    reading.take(scan(lines, at.tree.size + 1, last=True, deep=True), at.segment, last=True)
    reading.settle_unfinished()
    end = stamp.bytes if reading.tail is None else reading.tail.offset
    return At(at.ledger_id, stamp, end, at.segment, at.first, reading.tree, reading.recorded_at, reading.tail)


def read_again(index: JsonlIndex, segments: Segments, start: int, path: str, read_tile: ReadTile) -> At:
    """Take every line from segment ``start`` on, and forget what the index knew of them.

    Raises :class:`Corrupt` when the file is no ledger, :class:`FormatTooNew`.
    """
    count = segments.count()
    known = index.segments()
    head = index.head()
    ledger_id = "" if head is None else head.ledger_id
    if head is None or not 1 < start <= len(known) + 1 or start > count:
        start = 1
    tree, recorded_at = Tree(), ""
    if start > 1 and head is not None:
        before = head.head
        if start <= len(known):
            one = known[start - 1]
            before = Head(one.first - 1, one.frontier, one.recorded_at)
        else:
            index.restamp(start - 1, segments.stamp(start - 1) or Stamp(0, 0, 0))
        index.cut(start, before.size + 1)
        try:
            tree, recorded_at = tree_of(index, segments, before, read_tile), before.recorded_at
        except Corrupt:
            start = 1  # what stands before is not as the index says either
    if start == 1:
        index.cut(1, 1)
    reading = _Reading(index, tree, recorded_at)
    stamp = Stamp(0, 0, 0)
    first = 1
    for number in range(start, count + 1):
        there = segments.stamp(number)
        stamp = there or Stamp(0, 0, 0)
        first = reading.tree.size + 1
        index.add_segment(
            Sealed(number, first, reading.tree.head()[1], reading.recorded_at, stamp.bytes, stamp.mtime_ns)
        )
        if there is None:
            reason = "the segment is missing; put the file back"
            index.add_damage(number, Damage(first, first - 1, 0, 0, reason))
            continue
        lines = segments.lines(number, 0, stamp.bytes)
        header, lines = _header(lines, segments.path(number))
        if isinstance(header, str):
            index.add_damage(number, Damage(first, first - 1, 0, 0, header))
        else:
            if number == 1 and header.ledger_id != ledger_id:
                if ledger_id:  # the index is of another history: nothing of it may stay
                    index.db.execute("DELETE FROM projection; DELETE FROM projection_state")
                ledger_id = header.ledger_id
            wanted = (ledger_id, number, first, reading.tree.root().hex())
            if (header.ledger_id, header.segment, header.first, header.root) != wanted:
                reason = f"the header of segment {number} does not follow from the segments before it"
                index.add_damage(number, Damage(first, first - 1, 0, 0, reason))
        last = number == count
        following = None if last else first_of(segments, number + 1)
        reading.take(scan(lines, first, last=last, deep=True, following=following), number, last=last)
    reading.settle_unfinished()
    if head is not None and head.ledger_id == ledger_id and head.head.size > reading.tree.size:
        _log.warning(
            "%s: its index knew %d entries and the lines hold %d; a file was cut, taken away or brought back "
            "from an older copy",
            path, head.head.size, reading.tree.size,
        )  # fmt: skip
    end = stamp.bytes if reading.tail is None else reading.tail.offset
    return At(
        ledger_id or _NO_ID, stamp, end, count, first, reading.tree, reading.recorded_at, reading.tail,
        tuple(reading.strays),
    )  # fmt: skip


def first_of(segments: Segments, number: int) -> int | None:
    """The first position of a segment, as its header has it; ``None`` when that cannot be read."""
    stamp = segments.stamp(number)
    if stamp is None:
        return None
    line = next(segments.lines(number, 0, min(stamp.bytes, _HEADER_BYTES_MAX)), None)
    if line is None or not line[2]:
        return None
    try:
        return read_header(line[1], segments.path(number)).first
    except (BadLine, FormatTooNew):
        return None


def _header(
    lines: Iterator[tuple[int, bytes, bool]], path: str
) -> tuple[Header | str, Iterator[tuple[int, bytes, bool]]]:
    """The header, or what is wrong with it, and the lines after it. Raises :class:`Corrupt` when this is no ledger."""
    line = next(lines, None)
    reason = "the header is cut off"
    if line is not None and line[2]:
        try:
            return read_header(line[1], path), lines
        except BadLine as error:
            reason = str(error)
    second = next(lines, None)
    for candidate in (second, line):
        if candidate is not None:
            try:
                read_line(candidate[1])
            except BadLine:
                continue
            rest = [second] if second is not None else []
            return reason, chain([candidate] if candidate is line else [], rest, lines)
    raise Corrupt(f"{path} is not a ChatSnapshot ledger ({reason}); give another path")
