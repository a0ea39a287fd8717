"""The tree of runs as a table: children hang under their parents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Styled, Terminal, Text, bold, dim, green, red, yellow
from chatsnapshot.cli.wording import UNKNOWN, moment
from chatsnapshot.projections.words import duration_text, status_text

if TYPE_CHECKING:
    from chatsnapshot.projections.shapes import Run

__all__ = ["run_status", "run_table"]

_STYLES = {"completed": green, "failed": red, "cancelled": yellow, "paused": yellow, "unfinished": yellow}

_COLUMNS = (
    Column("RUN", gives=2),
    Column("NAME", gives=1, spare=1),
    Column("STARTED", spare=2),
    Column("TOOK", right=True),
    Column("EVENTS", right=True, spare=1),
    Column("STATUS", gives=1, least=24),
)


def run_status(out: Terminal, run: Run) -> Styled:
    """The status in words, with the error of a run that failed; red when anything in it failed."""
    text = status_text(run)
    if run.error:
        text = f"{text}: {out.one_line(run.error)}"
    if run.errors.total or run.errors_below.total:
        return red(text) if run.status == "failed" else yellow(text)
    return _STYLES.get(run.status, dim)(text)


def run_table(out: Terminal, runs: Sequence[Run]) -> None:
    """Write the runs, each with those below it."""
    table(out, _COLUMNS, _rows(out, runs, "", top=True))


def _minute(time: str | None) -> str:
    return UNKNOWN if time is None else f"{moment(time)[:16]}Z"


def _rows(out: Terminal, runs: Sequence[Run], stem: str, *, top: bool = False) -> Iterator[Sequence[Text]]:
    tee, corner, bar, gap = ("├─ ", "└─ ", "│  ", "   ") if out.unicode else ("|- ", "`- ", "|  ", "   ")
    for place, run in enumerate(runs):
        last = place == len(runs) - 1
        branch = "" if top else stem + (corner if last else tee)
        name = run.name if run.name != run.run_id else None
        yield (
            bold(branch + out.one_line(run.run_id)) if top else branch + out.one_line(run.run_id),
            out.one_line(name or ""),
            _minute(run.started_at or run.first_at),
            duration_text(run.duration_ns) if run.duration_ns is not None else "",
            f"{run.events:,}",
            run_status(out, run),
        )
        yield from _rows(out, run.children, "" if top else stem + (gap if last else bar))
