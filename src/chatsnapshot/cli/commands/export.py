"""``chatsnapshot export``: runs or events in a form that other programs read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, ledger_option, until_option
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.terminal import Terminal, dim, green, yellow
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.exporters import ExportReport


@click.command("export")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--all", "everything", is_flag=True, help="The whole ledger, instead of runs.")
@click.option("--format", "form", metavar="FORMAT", required=True, help="The form of it. Required.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=True),
    help="Write to a file, which appears whole or not at all; by default (and for -) to standard output. "
    "html: FOLDER/ for several pages.",
)
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option("--entries", is_flag=True, help="jsonl: whole entries with proofs and blobs.")
@click.option("--children/--no-children", default=True, help="With child runs. [default: with]")
@click.option(
    "--evaluation",
    "evaluations",
    multiple=True,
    metavar="CONDITION",
    help="Only runs that were evaluated so, as for runs. Repeatable: all must hold.",
)
@click.option(
    "--type", "event_type", multiple=True, metavar="TYPE", help="Only events of this type. Repeatable."
)
@click.option("--origin", metavar="ORIGIN", help="Only events of this origin.")
@click.option("--runtime", metavar="NAME", help="Only events of this runtime.")
@click.option("--name", metavar="NAME", help="Only events of this agent, service or user.")
@click.option("--start", metavar="TIME", help="Only events that happened then or later.")
@click.option("--end", metavar="TIME", help="Only events that happened before.")
@until_option
@click.option("--redact", is_flag=True, help="Take secrets out of what is written.")
@click.option(
    "--prices", metavar="FILE", help="html: prices by model, as for metrics; without it costs are unknown."
)
@json_option("the report as a JSON object (with -o)")
@ledger_option
def command(
    runs: tuple[str, ...],
    everything: bool,
    form: str,
    output: str | None,
    force: bool,
    entries: bool,
    children: bool,
    evaluations: tuple[str, ...],
    event_type: tuple[str, ...],
    origin: str | None,
    runtime: str | None,
    name: str | None,
    start: str | None,
    end: str | None,
    until: Until,
    redact: bool,
    prices: str | None,
    as_json: bool,
) -> None:
    """Write runs or events for other programs: CSV, Parquet, traces …

    RUN is a run or correlation id; --all takes the whole ledger. FORMAT is jsonl, csv, parquet, mermaid, dot,
    graphml, prov, ocel, otlp, cloudevents, chat or html. What is left out is counted and said. Nothing in the
    ledger changes.
    """
    from chatsnapshot.exporters import Exporter, export, exporter_of
    from chatsnapshot.exporters.html import HtmlPages

    exporter: Exporter = exporter_of(form, entries=entries)
    if prices is not None and form != "html":
        raise click.UsageError("--prices are about pages; name them with --format html.")
    output = None if output == "-" else output
    if bool(runs) == everything:
        raise click.UsageError("Name runs, or give --all for the whole ledger.")
    if as_json and output is None:
        raise click.UsageError("--json tells about a file; name it with -o.")
    if output is None and not exporter.text and sys.stdout.isatty():
        raise InvalidEvent(f"{form} is no text for a terminal; name a file with -o")
    filters: dict[str, Any] = {
        "event_type": event_type or None,
        "origin": origin,
        "runtime": runtime,
        "name": name,
        "start": start,
        "end": end,
    }
    with open_to_read() as ledger, Progress() as progress:
        named = {correlation_of(ledger, run): run for run in runs}
        if form == "html":
            exporter = HtmlPages(run_ids=named, prices=prices)
        report = export(
            ledger,
            output if output is not None else _Stdout(),
            exporter,
            runs=None if everything else list(named),
            children=children,
            until=until,
            evaluation=evaluations,
            redact="secrets" if redact else None,
            force=force,
            progress=(lambda done, whole: progress.show("exporting", done, whole)) if output else None,
            **filters,
        )
    if as_json:
        Terminal.stdout().json_line(msgspec.json.encode(report))
    else:
        _tell(report)


class _Stdout:
    """Standard output as a place for bytes; on a terminal control characters are shown, not obeyed."""

    def __init__(self) -> None:
        self._out = Terminal.stdout()
        self._rest = b""

    def write(self, data: bytes) -> None:
        binary = getattr(self._out.stream, "buffer", None)
        if not self._out.tty and binary is not None:
            binary.write(data)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._out.block(line.decode().rstrip("\r"))


def _tell(report: ExportReport) -> None:
    """What was written, and what was not; beside an export on standard output on standard error, and only the latter."""
    out = Terminal.of(sys.stderr) if report.path is None else Terminal.stdout()
    if report.path is not None:
        unit = report.unit.removesuffix("s") if report.written == 1 else report.unit
        told = f"  {report.format}, {report.written:,} {unit}, {report.bytes:,} bytes"
        out.line(green(out.one_line(report.path)), told)
    for reason, number in report.left_out.items():
        out.line("  ", yellow(f"left out: {number:,} {reason}"))
    if report.written == 0:
        out.line("  ", dim("nothing matched"))
    out.flush()
