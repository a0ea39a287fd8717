"""A comparison as lines: what is missing, added and changed, each with its positions and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatsnapshot.cli.entries import POSITION_COLUMNS
from chatsnapshot.cli.terminal import Styled, Terminal, dim, green, red, yellow
from chatsnapshot.cli.width import cut
from chatsnapshot.cli.wording import count
from chatsnapshot.events.fields import text_of

if TYPE_CHECKING:
    from chatsnapshot.projections.diffshapes import Change, Diff, Step

__all__ = ["diff_lines"]

GUTTER = 2 * POSITION_COLUMNS + 6


def diff_lines(out: Terminal, diff: Diff) -> None:
    """Write a summary, each difference, and the states that changed."""
    if not diff.changes:
        out.line(green(f"no difference: {count(diff.same, 'step')} agree"))
        return
    told = [f"{diff.same:,} of {count(diff.before_steps, 'step')} agree"]
    told += [f"{number:,} {word}" for word, number in _numbers(diff) if number]
    out.line(dim(", ".join(told)))
    out.line(dim(f"the first difference comes after {count(diff.same_until, 'step')}"))
    for change in diff.changes:
        _change(out, change)
    if diff.states:
        out.line()
        out.line(dim("states"))
    for one in diff.states:
        head = f"  {one.kind} {out.one_line(one.id)}: "
        move = f"{out.one_line(one.before or '(none)')} → {out.one_line(one.after or '(none)')}"
        out.line(cut(head + move, out.width, out.mark))


def _numbers(diff: Diff) -> tuple[tuple[str, int], ...]:
    return ("missing", diff.missing), ("added", diff.added), ("changed", diff.changed)


def _change(out: Terminal, change: Change) -> None:
    sign, style = {"missing": ("-", red), "added": ("+", green), "changed": ("~", yellow)}[change.kind]
    step = change.after or change.before
    if step is None:
        return
    gutter = f"{_at(change.before)} {_at(change.after)}  "
    room = out.width - len(gutter) - 2
    text = "  " * min(step.depth, 8) + _told(out, step)
    out.line(dim(gutter), style(f"{sign} {cut(text, room, out.mark)}"))
    for field in change.fields:
        head = " " * GUTTER + f"{out.one_line(field.path) or 'it'}: "
        each = max((out.width - len(head) - 3) // 2, 16)
        before, after = _value(out, field.before), _value(out, field.after)
        spare = max(each - out.measure(after), 0)
        out.line(
            dim(head),
            red(cut(before, each + spare, out.mark)),
            Styled(" → ", "2"),
            green(cut(after, max(2 * each - out.measure(before), each), out.mark)),
        )


def _told(out: Terminal, step: Step) -> str:
    return out.one_line(step.what)


def _at(step: Step | None) -> str:
    return f"{step.position if step is not None else '':>{POSITION_COLUMNS}}"


def _value(out: Terminal, value: Any) -> str:
    return "(none)" if value is None else out.one_line(text_of(value)) or "(empty)"
