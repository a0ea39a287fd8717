"""A timeline as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, Text, dim, red, yellow
from chatsnapshot.cli.wording import count, moment
from chatsnapshot.projections.words import duration_text, offset_text

if TYPE_CHECKING:
    from chatsnapshot.projections.shapes import Timeline, TimelineItem

__all__ = ["timetable"]

NARROW = 140
"""Below this width ``execution.`` before a type is left out."""

_COLUMNS = (
    Column("POSITION", right=True),
    Column("TIME", right=True),
    Column("TOOK", right=True),
    Column("TYPE", gives=2),
    Column("WHO", gives=1, spare=True),
    Column("WHAT", gives=1, least=30),
)


def timetable(out: Terminal, timeline: Timeline, *, earlier: int = 0) -> None:
    """Write the entries of a timeline; ``earlier`` says how many stand before them."""
    started = timeline.started_at
    out.line(dim(f"times from {moment(started)}" if started is not None else "times are unknown"))
    if earlier:
        out.line(dim(f"{count(earlier, 'earlier entry', 'earlier entries')} left out"))
    table(out, _COLUMNS, [_row(out, item) for item in timeline.items])


def _row(out: Terminal, item: TimelineItem) -> tuple[Text, ...]:
    indent = "  " * item.depth
    what = indent + out.one_line(item.what)
    kind = item.event_type.removeprefix("execution.") if out.width < NARROW else item.event_type
    took: Text = ""
    if item.open:
        took = yellow("open")
    elif item.unmatched:
        took = yellow("no start")
    elif item.edge in ("end", "whole") and item.duration_ns is not None:
        took = duration_text(item.duration_ns)
    return (
        str(item.position),
        dim(offset_text(item.offset_ns)),
        took,
        red(kind) if item.failed else kind,
        out.one_line(item.who or ""),
        red(what) if item.failed else dim(what) if item.erased else what,
    )
