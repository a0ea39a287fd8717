"""Aligned columns for people, as wide as the terminal and no wider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from chatsnapshot.cli.terminal import Styled, Terminal, Text, dim
from chatsnapshot.cli.width import columns, cut

__all__ = ["Column", "table"]

GAP = "  "
LEAST = 12
"""No column is made narrower than this; a narrower terminal wraps."""


class Column(NamedTuple):
    """A column: its heading, whether its texts stand at the right edge, and what it does when there is no room.

    ``gives`` is 0 for a column that is never cut, 1 for one that is cut first, 2 for one that is cut when
    nothing else helped (ids, which people copy). One that is ``spare`` is left out before ids are cut; the smaller
    its number the sooner, and of one number the last column first.
    """

    heading: str
    right: bool = False
    gives: int = 0
    spare: int = 0
    least: int = LEAST


def table(
    out: Terminal, headings: Sequence[Column], rows: Iterable[Sequence[Text]], *, indent: str = ""
) -> None:
    """Write rows under headings. Columns without a single text are left out.

    A line end in a cell is shown, not obeyed; :meth:`Terminal.one_line` makes it a blank before.
    """
    cells = [[_with_text(cell, out.clean(_plain(cell))) for cell in row] for row in rows]
    shown = [n for n in range(len(headings)) if any(_plain(row[n]) for row in cells)]
    wanted = {
        n: max(columns(headings[n].heading), max(columns(_plain(row[n])) for row in cells)) for n in shown
    }
    widths = _fit(headings, wanted, out.width - columns(indent))
    if any(headings[n].heading for n in widths):
        _row(out, headings, widths, [dim(column.heading) for column in headings], indent)
    for row in cells:
        _row(out, headings, widths, row, indent)


def _fit(headings: Sequence[Column], wanted: dict[int, int], room: int) -> dict[int, int]:
    """The columns that are shown and their widths: a row fits into ``room`` where that can be."""
    spare = sorted((n for n in wanted if headings[n].spare), key=lambda n: (-headings[n].spare, n))
    least = {n: heading.least for n, heading in enumerate(headings)}
    while True:
        widths = dict(wanted)
        over = sum(widths.values()) + len(GAP) * (len(widths) - 1) - room
        over = _shrink(widths, [n for n in widths if headings[n].gives == 1], over, least)
        if over <= 0 or not spare:
            break
        wanted = {n: width for n, width in wanted.items() if n != spare[-1]}
        spare.pop()
    for turn, floors in ((1, least), (2, {}), (1, {})):
        over = _shrink(widths, [n for n in widths if headings[n].gives == turn], over, floors)
    return widths


def _shrink(widths: dict[int, int], giving: Sequence[int], over: int, least: Mapping[int, int]) -> int:
    """Take ``over`` columns from the widest that give, down to their least; how many are still over."""
    while over > 0:
        wide = [n for n in giving if widths[n] > least.get(n, LEAST)]
        if not wide:
            break
        widths[max(wide, key=lambda n: widths[n])] -= 1
        over -= 1
    return over


def _row(
    out: Terminal,
    headings: Sequence[Column],
    widths: dict[int, int],
    row: Sequence[Text],
    indent: str,
) -> None:
    pieces: list[Text] = [indent]
    for n in widths:
        plain = cut(_plain(row[n]), widths[n], out.mark)
        blanks = " " * (widths[n] - columns(plain))
        drawn = _with_text(row[n], plain)
        last = n == max(widths)
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
