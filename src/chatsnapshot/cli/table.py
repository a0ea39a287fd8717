"""Aligned columns for people, as wide as the terminal and no wider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chatsnapshot.cli.terminal import Styled, Terminal, Text, dim
from chatsnapshot.cli.width import columns, cut

__all__ = ["Column", "table"]

GAP = "  "
LEAST = 12
"""No column is made narrower than this; a narrower terminal wraps."""


class Column(NamedTuple):
    """A column: its heading, whether its texts stand at the right edge, and whether it is cut to fit.

    ``gives`` is 0 for a column that is never cut, 1 for one that is cut first, 2 for one that is cut when
    that was not enough (ids, which people copy).
    """

    heading: str
    right: bool = False
    gives: int = 0


def table(
    out: Terminal, headings: Sequence[Column], rows: Iterable[Sequence[Text]], *, indent: str = ""
) -> None:
    """Write rows under headings. Columns without a single text are left out.

    A line end in a cell is shown, not obeyed; :meth:`Terminal.one_line` makes it a blank before.
    """
    cells = [[_with_text(cell, out.clean(_plain(cell))) for cell in row] for row in rows]
    shown = [n for n in range(len(headings)) if any(_plain(row[n]) for row in cells)]
    widths = {
        n: max(columns(headings[n].heading), max(columns(_plain(row[n])) for row in cells)) for n in shown
    }
    room = out.width - columns(indent) - len(GAP) * (len(shown) - 1)
    for turn in (1, 2):
        _shrink(widths, [n for n in shown if headings[n].gives == turn], room)
    if any(headings[n].heading for n in shown):
        _row(out, headings, shown, widths, [dim(column.heading) for column in headings], indent)
    for row in cells:
        _row(out, headings, shown, widths, row, indent)


def _shrink(widths: dict[int, int], giving: Sequence[int], room: int) -> None:
    """Take from the widest giving column until everything fits or all are at their least."""
    over = sum(widths.values()) - room
    while over > 0:
        wide = [n for n in giving if widths[n] > LEAST]
        if not wide:
            return
        widest = max(wide, key=lambda n: widths[n])
        second = max((widths[n] for n in wide if n != widest), default=LEAST)
        step = min(over, max(1, widths[widest] - max(second, LEAST)))
        widths[widest] -= step
        over -= step


def _row(
    out: Terminal,
    headings: Sequence[Column],
    shown: Sequence[int],
    widths: dict[int, int],
    row: Sequence[Text],
    indent: str,
) -> None:
    pieces: list[Text] = [indent]
    for place, n in enumerate(shown):
        plain = cut(_plain(row[n]), widths[n], out.mark)
        blanks = " " * (widths[n] - columns(plain))
        drawn = _with_text(row[n], plain)
        last = place == len(shown) - 1
        if headings[n].right:
            pieces += [blanks, drawn]
        else:
            pieces += [drawn, "" if last else blanks]
        pieces.append("" if last else GAP)
    out.line(*pieces)


def _plain(cell: Text) -> str:
    return cell.text if isinstance(cell, Styled) else cell


def _with_text(cell: Text, text: str) -> Text:
    return cell._replace(text=text) if isinstance(cell, Styled) else text
