"""Reads the lines of a segment as a history: what is sound, what is damaged, where an unfinished write begins. Pure.

A commit is one batch of lines, written by one call. What a lost process or lost power leaves of it is at the end of the
last segment: lines are missing that the count promises, the last line has no line feed, or a run of NUL stands where
sectors never arrived. All of that is a torn tail, and never acknowledged. A complete line that does not check is damage.

The same at the end of a sealed segment is damage too, unless the header of the next one says that nothing is missing:
then it was cut off before the segment was sealed, and the cut has not reached the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chatsnapshot.stores.base import Row
from chatsnapshot.stores.jsonl_lines import BadLine, read_line, sound

__all__ = ["Damage", "Seen", "TornTail", "scan"]

_NUL_RUN = b"\0" * 8
"""A shorter run inside a line is a changed byte, not a sector that is missing."""
_TAKEN_BACK = "a write broke off, and cutting it off did not reach the disk before the segment was sealed"


class Seen(NamedTuple):
    """A sound line; ``unfinished`` when an erasure broke off in it."""

    row: Row
    offset: int
    length: int
    unfinished: bool


class Damage(NamedTuple):
    """A complete line that is none, or positions that are missing.

    Lost are the positions from ``position`` to ``until``; when ``until`` is less, none is lost.
    """

    position: int
    until: int
    offset: int
    length: int
    reason: str


class TornTail(NamedTuple):
    """Everything from ``offset`` on was never acknowledged; ``partial`` when it is not even whole lines."""

    offset: int
    reason: str


class _Bad(NamedTuple):
    offset: int
    length: int
    reason: str
    nul: bool


class _Scan:
    """The state of one pass: the batch that is open, and the next position."""

    def __init__(self, position: int, deep: bool) -> None:
        self.expected = position
        self.deep = deep
        self.group: list[Seen | _Bad] = []
        self.batch: tuple[int, int] | None = None
        self.full = False
        self.bad: list[_Bad] = []

    def line(self, offset: int, data: bytes) -> Iterator[Seen | Damage]:
        """Take one complete line; gives what is decided by it."""
        try:
            row, first, count, unfinished = read_line(data)
            if self.deep:
                sound(row)
        except BadLine as error:
            if self.full:
                yield from self.close()
            nul = _NUL_RUN in data or data[:1] == b"\0"
            self.group.append(_Bad(offset, len(data) + 1, str(error), nul))
            return
        if self.group and (
            self.full or row[0] == first or (self.batch is not None and self.batch != (first, count))
        ):
            yield from self.close()
        self.batch = (first, count)
        self.group.append(Seen(row, offset, len(data) + 1, unfinished))
        self.full = row[0] == first + count - 1

    def close(self) -> Iterator[Seen | Damage]:
        """The open batch is followed by another: it is what it is."""
        group, self.group = self.group, []
        batch, self.batch = self.batch, None
        full, self.full = self.full, False
        for item in group:
            if isinstance(item, _Bad):
                self.bad.append(item)
                continue
            position = item.row[0]
            if position < self.expected:
                reason = f"position {position} stands again after {self.expected - 1}"
                self.bad.append(_Bad(item.offset, item.length, reason, False))
                continue
            yield from self.name_damages(position, item.offset)
            yield item
            self.expected = position + 1
        if batch is not None and not full and not self.bad:
            last = group[-1]
            self.bad.append(
                _Bad(last.offset, 0, f"the batch of {batch[1]} from {batch[0]} ends early", False)
            )

    def name_damages(self, position: int, offset: int) -> Iterator[Damage]:
        """Bad lines stand for the positions that are missing in front of ``position``."""
        bad, self.bad = self.bad, []
        if position > self.expected and not bad:
            bad = [_Bad(offset, 0, "lines are missing here", False)]
        for number, item in enumerate(bad):
            first = min(self.expected + number, position)
            until = position - 1 if number == len(bad) - 1 else min(first, position - 1)
            yield Damage(first, until, item.offset, item.length, item.reason)

    def end(self, rest: tuple[int, bytes] | None) -> Iterator[Seen | Damage | TornTail]:
        """The last segment is over; ``rest`` is what follows the last line feed."""
        bad = [item for item in self.group if isinstance(item, _Bad)]
        hard = [item for item in bad if not item.nul]
        whole = not self.group or (self.full and not bad)
        if rest is not None and _only_its_end_is_wrong(rest[1]):
            hard.append(
                _Bad(rest[0], len(rest[1]), "the line ends with another byte than a line feed", False)
            )
            if self.full:
                yield from self.close()
            self.group.append(hard[-1])
            rest = None
        if hard:
            yield from self.close()
            yield from self.at_the_end()
            if rest is not None:
                yield TornTail(rest[0], "the last line is not complete")
            return
        if whole:
            if self.group:
                yield from self.close()
            yield from self.at_the_end()
            if rest is not None:
                yield TornTail(rest[0], "the last line is not complete")
            return
        start, batch = self.group[0].offset, self.batch
        self.group = []
        yield from self.at_the_end()
        reason = "a run of NUL stands in the last batch"
        if not bad and batch is not None:
            reason = f"the last batch of {batch[1]} from position {batch[0]} is not complete"
        yield TornTail(start, reason)

    def seal(
        self, rest: tuple[int, bytes] | None, following: int | None
    ) -> Iterator[Seen | Damage | TornTail]:
        """A sealed segment is over, and the next begins with position ``following``, if that is known."""
        broken = [item for item in self.group if isinstance(item, _Bad)]
        if self.full and not broken:
            yield from self.close()
        if (
            self.expected == following
            and (self.group or rest is not None)
            and not self.bad
            and all(item.nul for item in broken)
        ):
            yield TornTail(self.group[0].offset if self.group else rest[0] if rest else 0, _TAKEN_BACK)
            return
        if rest is not None:
            reason = "the last line of a sealed segment is cut off"
            self.group.append(_Bad(rest[0], len(rest[1]), reason, False))
            self.full = False
        if self.group:
            yield from self.close()
        yield from self.at_the_end(following)

    def at_the_end(self, following: int | None = None) -> Iterator[Damage]:
        """Bad lines with nothing sound after them stand for one position each, or for those up to ``following``."""
        lost = sum(1 for item in self.bad if item.length)
        if self.bad and following is not None and following >= self.expected:
            lost = following - self.expected
        yield from self.name_damages(self.expected + lost, 0)
        self.expected += lost


def _only_its_end_is_wrong(data: bytes) -> bool:
    """Whether this is a sound line with one other byte in place of its line feed."""
    try:
        sound(read_line(data[:-1]).row)
    except BadLine:
        return False
    return True


def scan(
    lines: Iterator[tuple[int, bytes, bool]],
    position: int,
    *,
    last: bool,
    deep: bool,
    following: int | None = None,
) -> Iterator[Seen | Damage | TornTail]:
    """What the lines of a segment are, in order; ``position`` is the next one expected.

    ``last`` says that no segment follows: only there a write may have broken off. Otherwise ``following`` is the first
    position of the next one as its header has it; ``None`` when it cannot be read. ``deep`` derives every hash.
    """
    state = _Scan(position, deep)
    rest: tuple[int, bytes] | None = None
    for offset, data, complete in lines:
        if complete:
            yield from state.line(offset, data)
        else:
            rest = (offset, data)
    yield from state.end(rest) if last else state.seal(rest, following)
