"""CSV (RFC 4180), safe to open in a spreadsheet: no cell is taken for a formula."""

from __future__ import annotations

import csv
import io

from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.columns import COLUMNS, row_of

__all__ = ["Csv", "harmless", "original"]

RISKY = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
"""What a cell must not begin with: the signs of formulas (OWASP, CSV injection), and the mark itself."""


def harmless(cell: str) -> str:
    """The cell, with ``'`` before it when it begins like a formula or with ``'``."""
    return f"'{cell}" if cell.startswith(RISKY) else cell


def original(cell: str) -> str:
    """What :func:`harmless` was given."""
    return cell[1:] if cell.startswith("'") else cell


class Csv:
    """A row for each event under one row of names; an empty cell is unknown, erased or unset."""

    format = "csv"
    what = "events as rows, safe for spreadsheets"
    unit = "events"
    runs_only = False
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """UTF-8, rows end in CR LF."""
        text = io.StringIO(newline="")
        rows = csv.writer(text)
        rows.writerow(COLUMNS)
        for entry in choice.newest():
            rows.writerow([_cell(value) for value in row_of(entry)])
            out.write(text.getvalue().encode())
            text.seek(0)
            text.truncate()
            tally.written += 1
        out.write(text.getvalue().encode())


def _cell(value: str | int | bool | None) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    # NUL cannot be read back by every CSV reader; JSON never holds one as it is.
    return harmless(str(value).replace("\0", "\N{REPLACEMENT CHARACTER}"))
