"""``chatsnapshot verify``: what is proven about a ledger, what is not, and what is wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.failures import BELOW_REQUIRED, CORRUPT, OK, PARTIAL, settle_stdout
from chatsnapshot.cli.misfits import misfit_table
from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, bold, dim, green, red, yellow
from chatsnapshot.cli.wording import count, size
from chatsnapshot.errors import Corrupt

if TYPE_CHECKING:
    from chatsnapshot.verify import Report

LEVELS = ("A0", "A1", "A2", "A3", "A4", "A5")

MEANING = {
    "A0": "every row is well formed, positions and sequences have no holes, recorded times never go back",
    "A1": "every payload matches its commitment, every leaf its columns, and the tree its head",
}

PROBLEMS_LAST_DEFAULT = 20

CATALOGUE = ""
"""``--schemas`` without a source."""


@click.command("verify")
@click.option(
    "--require",
    type=click.Choice(LEVELS, case_sensitive=False),
    metavar="LEVEL",
    help=f"Exit with {BELOW_REQUIRED} when this level, {LEVELS[0]} to {LEVELS[-1]}, is not reached.",
)
@click.option(
    "--schemas",
    is_flag=False,
    flag_value=CATALOGUE,
    metavar="[SOURCE]",
    help="Hold payloads against their schemas too: those of the catalogue, and of SOURCE where one is named.",
)
@click.option(
    "--last",
    "shown",
    type=click.IntRange(min=1),
    default=PROBLEMS_LAST_DEFAULT,
    metavar="N",
    help=f"List at most N problems, the first ones. [default: {PROBLEMS_LAST_DEFAULT}]",
)
@json_option("the report as a JSON object")
@ledger_option
def command(require: str | None, schemas: str | None, shown: int, as_json: bool) -> int:
    """Check that nothing was changed, lost or reordered.

    Everything is derived anew from the stored columns and compared. Exit codes: 0 sound, 3 changed or damaged, 4
    truncated or rolled back, 7 a payload is missing without a record of its erasure (that of the first problem), 8
    below --require, 10 sound, and payloads do not fit --schemas.
    """
    out = Terminal.stdout()
    against: Any = None if schemas is None else True if schemas == CATALOGUE else [schemas]
    try:
        with open_to_read() as ledger:
            url = ledger.url
            with Progress() as progress:
                report = ledger.verify(schemas=against, progress=partial(progress.show, "verifying"))
    except Corrupt as error:
        out.json_line(msgspec.json.encode(_unreadable(error))) if as_json else _refused(out, error)
        return CORRUPT
    code = _code(report, require)
    try:
        if as_json:
            out.json_line(msgspec.json.encode(report))
        else:
            _show(out, url, report, shown)
            if code == BELOW_REQUIRED:
                out.line()
                out.line(red(f"level {require} is required; {report.level or 'no level'} is reached"))
        out.flush()
    except BrokenPipeError:
        # Whoever reads only the first lines must still learn the outcome.
        settle_stdout()
    return code


def _code(report: Report, require: str | None) -> int:
    """The code of the first problem; without one, whether the level was reached, and whether payloads fit."""
    if report.problems:
        return report.problems[0].code
    if require is not None and (not report.level or LEVELS.index(report.level) < LEVELS.index(require)):
        return BELOW_REQUIRED
    if report.misfits is not None and report.misfits.count:
        return PARTIAL
    return OK


def _unreadable(error: Corrupt) -> dict[str, object]:
    problem = {"position": error.position, "what": str(error), "expected": "", "found": "", "code": CORRUPT}
    return {"ok": False, "level": "", "problems": [problem], "problem_count": 1, "summary": str(error)}


def _refused(out: Terminal, error: Corrupt) -> None:
    out.line(red("corrupt"), "  ", out.one_line(str(error)))


def _show(out: Terminal, url: str, report: Report, shown: int) -> None:
    verdict = (
        green("sound") if report.ok and report.entries else dim("empty") if report.ok else red("not sound")
    )
    out.line(bold(out.one_line(url)), "  ", verdict)
    out.line("  ", out.one_line(report.summary))
    if report.entries:
        _facts(out, report)
    _part(out, "Proven", [f"{level}: {MEANING[level]}" for level in MEANING if level <= report.level])
    _part(out, "Not proven", report.unproven)
    _part(out, "To know", report.notes)
    if report.problems:
        _problems(out, report, shown)
    if report.misfits is not None:
        out.line()
        out.line(bold("Schemas"))
        misfit_table(out, report.misfits, shown)


def _facts(out: Terminal, report: Report) -> None:
    erased = f", {report.erased:,} erased" if report.erased else ""
    blobs = f", {count(report.blobs, 'blob')}" if report.blobs else ""
    out.line(
        "  ", dim("entries"), f"  {report.entries:,}, {size(report.payload_bytes)} of payloads{erased}{blobs}"
    )
    out.line("  ", dim("root   "), f"  {report.root}")


def _part(out: Terminal, title: str, lines: list[str] | tuple[str, ...]) -> None:
    if lines:
        out.line()
        out.line(bold(title))
    for line in lines:
        out.line("  ", out.one_line(line))


def _problems(out: Terminal, report: Report, shown: int) -> None:
    out.line()
    out.line(bold("Problems"))
    table(
        out,
        (
            Column("POSITION", right=True),
            Column("WHAT", gives=1),
            Column("EXPECTED", gives=1),
            Column("FOUND", gives=1),
        ),
        [
            (
                "" if problem.position is None else str(problem.position),
                red(out.one_line(problem.what)),
                out.one_line(problem.expected),
                out.one_line(problem.found),
            )
            for problem in report.problems[:shown]
        ],
        indent="  ",
    )
    if report.problem_count > shown:
        out.line("  ", yellow(f"and {report.problem_count - shown:,} more (--json has them)"))
