"""``chatsnapshot import``: the files of another program, into the ledger."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.failures import INTERRUPTED, OK, PARTIAL
from chatsnapshot.cli.opening import open_to_write
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.terminal import Terminal, dim, green, red
from chatsnapshot.cli.wording import count
from chatsnapshot.errors import LedgerError

if TYPE_CHECKING:
    from chatsnapshot.importers import ImportReport


@click.command("import")
@click.argument("kind")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, readable=True),
)
@click.option("--no-redact", is_flag=True, help="Store secrets as they are; by default they are taken out.")
@json_option("the report as a JSON object")
@ledger_option
def command(kind: str, files: tuple[str, ...], no_redact: bool, as_json: bool) -> int:
    """Record what the files of another program say, each event once.

    KIND is ag2-logs, cloudevents, otlp, or auto to tell it from each file. The same file again stores only what
    is new. Of a file that is cut off, what is whole is stored, the rest is reported, and the exit code is 10.
    """
    from chatsnapshot.importers import guess, import_file

    for file in files:
        guess(file, kind)  # one of the wrong kind among them is told before anything is stored
    reports: list[ImportReport] = []
    try:
        with open_to_write() as ledger, Progress() as progress:
            for number, file in enumerate(files, 1):
                stage = "importing" if len(files) == 1 else f"importing {number}/{len(files)}"
                reports.append(
                    import_file(
                        ledger,
                        file,
                        kind,
                        redact=None if no_redact else "secrets",
                        progress=lambda done, whole, stage=stage: progress.show(stage, done, whole),  # type: ignore[misc]
                    )
                )
    except KeyboardInterrupt:
        _tell(f"interrupted in {files[len(reports)]}; the same command again goes on from there")
        return INTERRUPTED
    except (LedgerError, OSError):
        _tell(f"{count(len(reports), 'file')} of {len(files):,} settled; the same command again is safe")
        raise
    _show(reports, as_json)
    return OK if all(report.whole for report in reports) else PARTIAL


def _show(reports: list[ImportReport], as_json: bool) -> None:
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(_document(reports)))
        out.flush()
        return
    for report in reports:
        told = f"  {report.kind}, {count(report.stored, 'event')} stored, {report.known:,} known"
        out.line(green(out.one_line(report.file)), told)
        for correlation in report.correlations:
            out.line("  run ", out.one_line(correlation))
        for problem in report.problems:
            out.line("  ", red(f"byte {problem.offset:,}"), "  ", out.one_line(problem.reason))
        if report.problem_count > len(report.problems):
            out.line("  ", dim(f"and {report.problem_count - len(report.problems):,} more"))
    out.flush()


def _document(reports: list[ImportReport]) -> dict[str, Any]:
    files = [
        {**msgspec.structs.asdict(report), "problems": [problem._asdict() for problem in report.problems]}
        for report in reports
    ]
    sums = {name: sum(file[name] for file in files) for name in ("stored", "known", "problem_count")}
    return {**sums, "last_position": max(file["last_position"] for file in files), "files": files}


def _tell(text: str) -> None:
    out = Terminal.of(sys.stderr)
    out.line()
    out.line(text)
    out.flush()
