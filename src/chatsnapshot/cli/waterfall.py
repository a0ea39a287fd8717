"""A run as a waterfall in characters: one span a line, its bar where its time lies, the critical path marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.cli.terminal import Styled, Terminal, Text, cyan, dim, red, yellow
from chatsnapshot.cli.width import columns, cut
from chatsnapshot.cli.wording import count, moment
from chatsnapshot.projections.words import duration_text, offset_text

if TYPE_CHECKING:
    from chatsnapshot.projections.pathshapes import CriticalPath, Span

__all__ = ["waterfall"]

BAR_COLUMNS_MIN = 20
LABEL_COLUMNS_MAX = 48
GAPS = 10
"""So many idle gaps are named, the longest first."""


def waterfall(out: Terminal, path: CriticalPath, *, earlier: int = 0) -> None:
    """Write a bar for each span; ``earlier`` says how many spans stand before them."""
    if not path.spans:
        lost = count(path.unknown_spans, "span")
        told = (
            f"nothing to draw: the times of {lost} are unknown" if path.unknown_spans else "nothing took time"
        )
        out.line(dim(told))
        return
    out.line(
        dim(f"times from {moment(path.started_at)}; "), cyan(_full(out)), dim(" is on the critical path")
    )
    if earlier:
        out.line(dim(f"{count(earlier, 'earlier span')} left out"))
    labels = [_label(out, span) for span in path.spans]
    label_columns = min(
        max(map(columns, labels), default=0), LABEL_COLUMNS_MAX, out.width - BAR_COLUMNS_MIN - 18
    )
    took_columns = max((len(duration_text(span.to_ns - span.from_ns)) for span in path.spans), default=0)
    room = max(out.width - label_columns - took_columns - 12, BAR_COLUMNS_MIN)
    first = min([path.steps[0].from_ns if path.steps else 0, *(span.from_ns for span in path.spans)])
    for span, label in zip(path.spans, labels, strict=True):
        _bar(out, span, cut(label, label_columns, out.mark), label_columns, took_columns, room, first, path)
    out.line()
    _summary(out, path)


def _full(out: Terminal) -> str:
    return "█" if out.unicode else "#"


def _label(out: Terminal, span: Span) -> str:
    return "  " * min(span.depth, 10) + out.one_line(span.what)


def _bar(
    out: Terminal,
    span: Span,
    label: str,
    label_columns: int,
    took_columns: int,
    room: int,
    first: int,
    path: CriticalPath,
) -> None:
    whole = max(path.duration_ns, 1)
    start = min((span.from_ns - first) * room // whole, room - 1)
    end = min(max(-(-(span.to_ns - first) * room // whole), start + 1), room)
    sign = _full(out) if span.on_path else "░" if out.unicode else "-"
    took = duration_text(span.to_ns - span.from_ns)
    bar: Styled = cyan(sign * (end - start)) if span.on_path else dim(sign * (end - start))
    if span.failed:
        bar = red(bar.text)
    shown: Text = yellow("open") if span.open else took
    length = 4 if span.open else len(took)
    out.line(
        f"{span.position:>6}  ",
        red(label) if span.failed else label,
        " " * (label_columns - columns(label) + 1 + max(took_columns - length, 0)),
        shown,
        "  " + " " * start,
        bar,
    )


def _summary(out: Terminal, path: CriticalPath) -> None:
    told = [f"{duration_text(path.duration_ns)} in all", f"{duration_text(path.busy_ns)} busy"]
    if path.parallel_ns:
        told.append(f"{duration_text(path.parallel_ns)} of it with up to {path.at_once:,} at once")
    if path.waiting_ns:
        told.append(f"{duration_text(path.waiting_ns)} waiting for people")
    told.append(f"{duration_text(path.idle_ns)} idle")
    out.line(", ".join(told))
    if path.unknown_spans:
        out.line(
            yellow(f"{count(path.unknown_spans, 'span')} left out: a time is unknown, or clocks disagree")
        )
    for gap in sorted(path.gaps, key=lambda gap: (-gap.duration_ns, gap.from_ns))[:GAPS]:
        between = f"after {gap.after_position}" if gap.after_position else "from the start"
        between += f" and before {gap.before_position}" if gap.before_position else ""
        out.line(dim(f"idle {duration_text(gap.duration_ns)} at {offset_text(gap.from_ns)}, {between}"))
