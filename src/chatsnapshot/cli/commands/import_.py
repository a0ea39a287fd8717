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
    from chatsnapshot.importers.files import Job
    from chatsnapshot.ledger import Ledger


@click.command("import")
@click.argument("kind")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, readable=True),
)
@click.option(
    "--follow", is_flag=True, help="Go on with what is written to sessions from now on, until Ctrl-C."
)
@click.option("--no-redact", is_flag=True, help="Store secrets as they are; by default they are taken out.")
@json_option("the report as a JSON object; with --follow one a line for each change")
@ledger_option
def command(kind: str, files: tuple[str, ...], follow: bool, no_redact: bool, as_json: bool) -> int:
    """Record what the files of another program say, each event once.

    KIND is ag2-logs, chatsnapshot-v1, chatsnapshot-v2, claude-code, cloudevents, codex, inspect, mini-swe-agent,
    openai-chat, otlp, swe-agent, or auto to tell it from each file. The same file again stores only what is new. Of a
    file that is cut off, what is whole is stored, the rest is reported, and the exit code is 10.

    A session of claude-code or codex brings the files of its sub-agents, and a folder may stand for the sessions in it.
    """
    from chatsnapshot.importers.files import jobs

    redact = None if no_redact else "secrets"
    work = jobs(files, kind, growing=follow)  # a file of the wrong kind is told before anything is stored
    if follow:
        with open_to_write() as ledger:
            return _follow(ledger, files, kind, redact, as_json)
    return _import(work, redact, as_json)


def _import(work: list[Job], redact: str | None, as_json: bool) -> int:
    from chatsnapshot.importers.files import import_job

    reports: list[ImportReport] = []
    try:
        with open_to_write() as ledger, Progress() as progress:
            for number, job in enumerate(work, 1):
                stage = "importing" if len(work) == 1 else f"importing {number}/{len(work)}"
                reports.append(
                    import_job(
                        ledger,
                        job,
                        redact=redact,
                        progress=lambda done, whole, stage=stage: progress.show(stage, done, whole),  # type: ignore[misc]
                    )
                )
    except KeyboardInterrupt:
        _tell(f"interrupted in {work[len(reports)][1][0]}; the same command again goes on from there")
        return INTERRUPTED
    except (LedgerError, OSError):
        _tell(f"{count(len(reports), 'file')} of {len(work):,} settled; the same command again is safe")
        raise
    _show(reports, as_json)
    return OK if all(report.whole for report in reports) else PARTIAL


def _follow(ledger: Ledger, files: tuple[str, ...], kind: str, redact: str | None, as_json: bool) -> int:
    from chatsnapshot.importers.following import Following, follow

    following = Following(ledger, files, kind, redact=redact)
    told: dict[str, None] = {}

    def report(found: ImportReport) -> None:
        if as_json:
            out = Terminal.stdout()
            out.json_line(msgspec.json.encode(_file_document(found)))
            out.flush()
        elif found.stored or found.problems:
            _show_one(found, told)

    def trouble(error: Exception | None) -> None:
        _say(f"waiting: {error}" if error is not None else "the ledger is back")

    try:
        _say(f"following {', '.join(files)}; Ctrl-C ends it")
        follow(following, report, trouble)
    except KeyboardInterrupt:
        for found in following.finish():
            report(found)
        _tell("ended; the same command again goes on from there")
        return INTERRUPTED


def _show(reports: list[ImportReport], as_json: bool) -> None:
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(_document(reports)))
        out.flush()
        return
    told: dict[str, None] = {}
    for report in reports:
        _show_one(report, told)


def _show_one(report: ImportReport, told: dict[str, None]) -> None:
    """What became of one file, or of the files of a session; runs that were ``told`` before are not told again."""
    out = Terminal.stdout()
    more = f" with {count(len(report.beside), 'file')} beside it" if report.beside else ""
    stored = f"  {report.kind}, {count(report.stored, 'event')} stored, {report.known:,} known"
    out.line(green(out.one_line(report.file)), more, stored)
    for correlation in report.correlations:
        if correlation not in told:
            told[correlation] = None
            out.line("  run ", out.one_line(correlation))
    for problem in report.problems:
        out.line("  ", red(f"byte {problem.offset:,}"), "  ", out.one_line(problem.reason))
    if report.problem_count > len(report.problems):
        out.line("  ", dim(f"and {report.problem_count - len(report.problems):,} more"))
    out.flush()


def _document(reports: list[ImportReport]) -> dict[str, Any]:
    files = [_file_document(report) for report in reports]
    sums = {name: sum(file[name] for file in files) for name in ("stored", "known", "problem_count")}
    return {
        **sums,
        "last_position": max((file["last_position"] for file in files), default=0),
        "files": files,
    }


def _file_document(report: ImportReport) -> dict[str, Any]:
    return {**msgspec.structs.asdict(report), "problems": [problem._asdict() for problem in report.problems]}


def _tell(text: str) -> None:
    """After what the terminal wrote on its own, such as ^C."""
    _say("", text)


def _say(*lines: str) -> None:
    out = Terminal.of(sys.stderr)
    for line in lines:
        out.line(out.one_line(line))
    out.flush()
