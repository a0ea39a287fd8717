"""Entries on standard output, a line for each, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.cli.terminal import Terminal, Text, cyan, dim, red
from chatsnapshot.cli.width import cut, pad

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.projections.shapes import TimelineItem

__all__ = ["Feed", "describe"]

POSITION_COLUMNS = 6
NARROW = 100
"""Below this width the source is left out, and ``execution.`` before a type."""


def describe(entry: LedgerEntry) -> TimelineItem:
    """The entry as a timeline of its own shows it: who, what, whether it failed."""
    from chatsnapshot.projections.base import fold
    from chatsnapshot.projections.timeline import TimelineProjection

    return fold(TimelineProjection(), [entry]).items[0]


class Feed:
    """Writes entries as they come, each on one line; a date (UTC) stands above the first of each day."""

    def __init__(self, out: Terminal, *, correlation: bool) -> None:
        self.out = out
        self.correlation = correlation
        self.day = ""

    def write(self, entry: LedgerEntry) -> None:
        """One entry: position, time, correlation where asked, type, who, what."""
        out = self.out
        narrow = out.width < NARROW
        item = describe(entry)
        if entry.timestamp[:10] != self.day:
            self.day = entry.timestamp[:10]
            out.line(dim(f"{' ' * POSITION_COLUMNS}  {self.day} UTC"))
        kind = entry.event_type.removeprefix("execution.") if narrow else entry.event_type
        pieces: list[Text] = [
            f"{entry.position:>{POSITION_COLUMNS}}  ",
            dim(f"{entry.timestamp[11:23]}Z"),
            "  ",
        ]
        if self.correlation:
            pieces += [cyan(self._column(entry.correlation_id, 14 if narrow else 20)), "  "]
        shown = pad(out.one_line(kind), 22 if narrow else 24)
        pieces += [red(shown) if item.failed else shown, "  "]
        if not narrow:
            pieces += [self._column(item.who or "", 14), "  "]
        room = out.width - sum(out.measure(piece) for piece in pieces)
        pieces.append(cut(out.one_line(item.what), max(room, 0), out.mark))
        out.line(*pieces)

    def _column(self, text: str, width: int) -> str:
        return pad(cut(self.out.one_line(text), width, self.out.mark), width)
