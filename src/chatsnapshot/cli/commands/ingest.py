"""``chatsnapshot ingest``: lines of JSON from files or standard input, or messages of a broker, into the ledger."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from chatsnapshot.cli.brokers import ingest_broker, is_broker
from chatsnapshot.cli.failures import INTERRUPTED, OK, PARTIAL
from chatsnapshot.cli.opening import open_to_write
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.terminal import Terminal, dim, green, red
from chatsnapshot.cli.wording import count
from chatsnapshot.errors import InvalidEvent, LedgerError

if TYPE_CHECKING:
    from chatsnapshot.ingesting import BadLine, Ingest, IngestReport
    from chatsnapshot.ledger import Ledger

STDIN = "-"


class _Input(click.Path):
    """A file, ``-``, or the URL of a stream of a broker."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if is_broker(value) else super().convert(value, param, ctx)


@click.command("ingest")
@click.argument(
    "files",
    nargs=-1,
    metavar="[FILE|URL]...",
    type=_Input(exists=True, dir_okay=False, readable=True, allow_dash=True),
)
@click.option("--correlation", metavar="ID", help="Where a line names no correlation, it is this one.")
@click.option(
    "--source", metavar="ORIGIN/RUNTIME/NAME", help="Where a line names no source: agent/ag2/planner."
)
@click.option(
    "--name",
    metavar="TEXT",
    help="Which input this is, for the ids of its events. [default: the file's full path]",
)
@click.option("--no-redact", is_flag=True, help="Store secrets as they are; by default they are taken out.")
@click.option("--skip-bad", is_flag=True, help="Leave bad lines out, say which, and exit with 10.")
@click.option(
    "--bad-lines",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Write every bad line's number and reason there.",
)
@click.option(
    "--type",
    "event_type",
    metavar="TYPE",
    help="Of a broker: the event type of messages that are JSON and no event; they become payloads.",
)
@click.option("--until-idle", is_flag=True, help="Of a broker: end when there are no more messages.")
@json_option("the report as a JSON object")
@ledger_option
def command(
    files: tuple[str, ...],
    correlation: str | None,
    source: str | None,
    name: str | None,
    no_redact: bool,
    skip_bad: bool,
    bad_lines: Any,
    event_type: str | None,
    until_idle: bool,
    as_json: bool,
) -> int:
    """Record lines of JSON, each once, from files or standard input.

    A line is an envelope or a plain event; - or no FILE is standard input; a name that ends in .gz is
    decompressed. The same input again stores only what is new, also after a crash. Stops at the first bad
    line, with everything before it stored.

    nats://host:port/STREAM takes the messages of a stream of NATS JetStream instead, as they come, each
    once; redis://host:port/0?stream=NAME those of a stream of Redis, and kafka://host:port/?topic=NAME those
    of a topic of Kafka. They are acknowledged after they are stored. What is no event is set aside, and told.
    """
    inputs = files or (STDIN,)
    if name is not None and len(inputs) > 1:
        raise click.UsageError("--name goes with one input; ingest the files one by one")
    if inputs.count(STDIN) > 1:
        raise click.UsageError("standard input can be read once")
    if any(is_broker(one) for one in inputs):
        if len(inputs) > 1 or name is not None or skip_bad:
            raise click.UsageError("a broker is the only input, and goes without --name and --skip-bad")
        if event_type is not None and correlation is None:
            raise click.UsageError("--type needs --correlation: such messages name none")
        return ingest_broker(
            inputs[0],
            correlation_id=correlation,
            event_type=event_type,
            source=_source(source),
            redact=None if no_redact else "secrets",
            until_idle=until_idle,
            bad_lines=bad_lines,
            as_json=as_json,
        )
    if event_type is not None or until_idle:
        raise click.UsageError("--type and --until-idle are for the URL of a broker")
    options = {
        "correlation_id": correlation,
        "source": _source(source),
        "redact": None if no_redact else "secrets",
        "skip_bad": skip_bad,
    }
    work = _Inputs(bad_lines)
    try:
        with open_to_write() as ledger:
            for one in inputs:
                work.take(ledger, one, name, options)
    except KeyboardInterrupt:
        _tell(f"interrupted; {work.how_far()}; the same command again goes on from there")
        return INTERRUPTED
    except InvalidEvent as error:
        if error.line is None:
            raise
        work.show(as_json, stopped=True)
        bad = work.reports[-1][1].bad[-1]
        raise LedgerError(
            f"{work.where(bad.number)}: {bad.reason}; everything before it is stored: mend the line, or give "
            "--skip-bad to leave bad lines out, and run this again"
        ) from None
    except LedgerError:
        _tell(f"{work.how_far()}; the same command again is safe")
        raise
    work.show(as_json)
    return PARTIAL if any(report.bad_count for _, report in work.reports) else OK


class _Inputs:
    """The inputs of one command, one after the other, and what became of each."""

    def __init__(self, bad_lines: Any) -> None:
        self._bad_lines = bad_lines
        self._work: Ingest | None = None
        self._input = ""
        self._settled: list[tuple[str, IngestReport]] = []

    def take(self, ledger: Ledger, one: str, name: str | None, options: dict[str, Any]) -> None:
        from chatsnapshot.ingesting import Ingest

        if name is None and one != STDIN:
            name = os.path.realpath(one)
        with _opened(one) as (stream, advance):
            work = Ingest(
                ledger,
                name=name,
                ids="content" if one == STDIN else "line",
                on_bad=self._note if self._bad_lines is not None else None,
                progress=lambda _: advance(),
                **options,
            )
            self._work, self._input = work, one
            with closing(work):
                work.take(stream)
        self._settled.append((one, work.report))
        self._work = None

    @property
    def reports(self) -> list[tuple[str, IngestReport]]:
        """What became of each input so far."""
        return self._settled + ([] if self._work is None else [(self._input, self._work.report)])

    def where(self, line: int) -> str:
        """A line of the input at hand, for people."""
        return f"line {line} of {'standard input' if self._input == STDIN else self._input}"

    def how_far(self) -> str:
        """What is settled, in words."""
        reports = self.reports
        stored = sum(report.stored for _, report in reports)
        known = sum(report.known for _, report in reports)
        line = reports[-1][1].lines if reports else 0
        return (
            f"settled up to {self.where(line)}: {stored:,} stored, {known:,} known"
            if line
            else "nothing was stored"
        )

    def _note(self, bad: BadLine) -> None:
        document = {"input": self._input, "line": bad.number, "reason": bad.reason}
        self._bad_lines.write(msgspec.json.encode(document).decode() + "\n")
        self._bad_lines.flush()

    def show(self, as_json: bool, *, stopped: bool = False) -> None:
        """Write the report."""
        out = Terminal.stdout()
        reports = self.reports
        if as_json:
            out.json_line(msgspec.json.encode(_document(reports)))
            out.flush()
            return
        for one, report in reports:
            label = "standard input" if one == STDIN else one
            pieces = [f"  {count(report.stored, 'event')} stored", f"{report.known:,} known"]
            if report.bad_count and not stopped:
                pieces.append(f"{count(report.bad_count, 'bad line')} left out")
            out.line(green(out.one_line(label)), ", ".join(pieces))
            if stopped:
                continue
            for bad in report.bad:
                out.line("  ", red(f"line {bad.number}"), "  ", out.one_line(bad.reason))
            if report.bad_count > len(report.bad):
                out.line(
                    "  ", dim(f"and {report.bad_count - len(report.bad):,} more; --bad-lines FILE lists all")
                )
            if report.new_ids:
                out.line(
                    "  ",
                    dim(
                        f"{count(report.new_ids, 'event')} got a new id: the same input again would be recorded again; "
                        "give --name to prevent that"
                    ),
                )
        out.flush()


def _document(reports: list[tuple[str, IngestReport]]) -> dict[str, Any]:
    inputs = [
        {
            "input": one,
            **{
                field: getattr(report, field)
                for field in ("stored", "known", "bad_count", "lines", "last_position", "new_ids")
            },
            "bad": [bad._asdict() for bad in report.bad],
        }
        for one, report in reports
    ]
    sums = {field: sum(one[field] for one in inputs) for field in ("stored", "known", "bad_count")}
    return {
        **sums,
        "last_position": max((one["last_position"] for one in inputs), default=0),
        "inputs": inputs,
    }


def _source(text: str | None) -> dict[str, str] | None:
    """``origin/runtime/name`` as a source; the name may hold further slashes."""
    if text is None:
        return None
    return dict(zip(("origin", "runtime", "name"), text.split("/", 2), strict=False))


@contextmanager
def _opened(one: str) -> Iterator[tuple[Any, Any]]:
    """The stream of an input, and what to call after each batch: it draws the bar on a terminal's standard error."""
    from chatsnapshot.ingesting import open_input

    with ExitStack() as stack:
        stream: Any = sys.stdin.buffer if one == STDIN else stack.enter_context(open_input(one))
        # Of a compressed file, the compressed bytes that were read: only their sum is known beforehand.
        raw: BinaryIO = getattr(stream, "fileobj", None) or stream
        if sys.stderr is None or not sys.stderr.isatty() or one == STDIN:
            yield stream, lambda: None
            return
        bar = stack.enter_context(
            click.progressbar(length=os.stat(one).st_size, file=sys.stderr, label="ingesting", show_pos=False)
        )
        yield stream, lambda: bar.update(raw.tell() - bar.pos)


def _tell(text: str) -> None:
    out = Terminal.of(sys.stderr)
    out.line()
    out.line(text)
    out.flush()
