"""``chatsnapshot show``: one run, or one event, on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.entries import describe
from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, ledger_option, until_option
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, Text, bold, cyan, dim, red
from chatsnapshot.cli.wording import count, moment, size
from chatsnapshot.errors import NotFound
from chatsnapshot.projections.finding import correlation_of, find_event, find_run, is_event_id

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.projections.shapes import Run, Runs, Timeline, Transcript

LAST_DEFAULT = 20
CAUSES_MAX = 20
EFFECTS_MAX = 10


@click.command("show")
@click.argument("what", metavar="RUN|EVENT_ID")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=LAST_DEFAULT,
    metavar="N",
    help=f"Of a run: only the last N timeline entries and transcript items. [default: {LAST_DEFAULT}]",
)
@until_option
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(dir_okay=True),
    help="Write the whole run as one HTML page, which appears whole or not at all.",
)
@click.option("--force", is_flag=True, help="With --html: replace the file if it is there.")
@click.option("--redact", is_flag=True, help="With --html: take secrets out of the page.")
@click.option(
    "--prices",
    metavar="FILE",
    help="With --html: prices by model, as for metrics; without it costs are unknown.",
)
@json_option("one JSON object: the entry, or the run with its timeline and transcript")
@ledger_option
def command(
    what: str,
    last: int,
    until: Until,
    page: str | None,
    force: bool,
    redact: bool,
    prices: str | None,
    as_json: bool,
) -> None:
    """Show one run, or one event.

    Of a run: its summary, the end of its timeline and of its transcript; with --html all of it, as a page for a
    browser. Of an event: where it stands, what led to it, what it led to, and its payload as stored. A run or
    correlation id that is also an event id shows the event.
    """
    out = Terminal.stdout()
    if page is None and (force or redact or prices):
        raise click.UsageError("--force, --redact and --prices are about a page; name it with --html.")
    with open_to_read() as ledger:
        if page is not None:
            options = {"redact": "secrets" if redact else None, "force": force, "prices": prices}
            _write_page(out, ledger, what, page, until, as_json, options)
            return
        entry = find_event(ledger, what)
        if entry is not None:
            out.json_line(entry.to_json()) if as_json else _show_event(out, ledger, entry)
            return
        try:
            correlation = correlation_of(ledger, what)
        except NotFound as error:
            # What looks like the id of an event may have been meant as one.
            text = str(error)
            raise NotFound(
                text.replace("no run", "no event and no run", 1) if is_event_id(what) else text
            ) from None
        _show_run(out, ledger, what, correlation, last, until, as_json)


def _show_run(
    out: Terminal, ledger: Ledger, name: str, correlation: str, last: int, until: Until, as_json: bool
) -> None:
    from chatsnapshot.cli.runtree import run_table
    from chatsnapshot.cli.timetable import timetable
    from chatsnapshot.projections.render import render_text
    from chatsnapshot.projections.views import view

    runs: Runs = view(ledger, "runs", correlation, until=until)
    timeline: Timeline = view(ledger, "timeline", correlation, until=until)
    transcript: Transcript = view(ledger, "transcript", correlation, until=until)
    run = find_run(runs.runs, name, correlation)
    if as_json:
        document = {"runs": runs.runs, "timeline": timeline, "transcript": transcript}
        out.json_line(msgspec.json.encode(document))
        return
    if run is not None:
        _summary(out, run)
        if run.children or len(runs.runs) > 1:
            _heading(out, "Runs")
            run_table(out, runs.runs)
    _heading(out, "Timeline")
    earlier = max(0, len(timeline.items) - last)
    timetable(out, msgspec.structs.replace(timeline, items=timeline.items[earlier:]), earlier=earlier)
    _heading(out, "Transcript")
    left_out = max(0, len(transcript.items) - last)
    if left_out:
        out.line(dim(f"{count(left_out, 'earlier item')} left out"))
    shown = msgspec.structs.replace(transcript, items=transcript.items[left_out:])
    out.block(render_text(shown, width=out.width))


def _write_page(
    out: Terminal,
    ledger: Ledger,
    name: str,
    page: str,
    until: Until,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    from chatsnapshot.cli.progress import Progress
    from chatsnapshot.exporters.html import write_page

    correlation = correlation_of(ledger, name)
    with Progress() as progress:
        report = write_page(
            ledger,
            correlation,
            page,
            run_id=name,
            until=until,
            progress=lambda done, whole: progress.show("verifying", done, whole),
            **options,
        )
    if as_json:
        out.json_line(msgspec.json.encode(report))
        return
    out.line(f"{count(report.events, 'event')}, {size(report.bytes)}: {out.one_line(report.path)}")
    if not report.verified:
        out.line(red("the ledger is not sound; the page says where (see 'chatsnapshot verify')"))


def _heading(out: Terminal, text: str) -> None:
    out.line()
    out.line(bold(text))


def _summary(out: Terminal, run: Run) -> None:
    from chatsnapshot.cli.runtree import run_status
    from chatsnapshot.projections.words import duration_text, evaluation_text

    name = f"  {out.one_line(run.name)}" if run.name and run.name != run.run_id else ""
    out.line(bold(out.one_line(run.run_id)), name)
    cause = ""
    if run.cause:
        where = f"position {run.cause_position}" if run.cause_position else "not in this ledger"
        cause = f"{run.cause} ({where})"
    span = f"positions {run.first_position:,} to {run.last_position:,}"
    said = [
        count(run.messages, "message"),
        count(run.tool_calls, "tool call"),
        count(run.model_calls, "model call"),
    ]
    _facts(
        out,
        [
            ("status", run_status(out, run)),
            ("reason", run.reason or ""),
            (
                "started",
                f"not recorded; first seen {moment(run.first_at)}" if run.partial else _when(run.started_at),
            ),
            (
                "ended",
                f"no end recorded; last seen {moment(run.last_at)}"
                if run.status in ("unfinished", "unknown")
                else _when(run.ended_at),
            ),
            ("took", duration_text(run.duration_ns)),
            ("events", f"{run.events:,}, {span}"),
            ("in them", ", ".join(said)),
            ("agents", ", ".join(run.agents)),
            ("runtimes", ", ".join(run.runtimes)),
            ("tags", ", ".join(run.tags)),
            ("evaluated", "; ".join(evaluation_text(one) for one in run.evaluations)),
            ("correlation", run.correlation_id if run.correlation_id != run.run_id else ""),
            ("caused by", cause),
        ],
    )


def _when(time: str | None) -> str:
    return "unknown" if time is None else moment(time)


def _facts(out: Terminal, facts: list[tuple[str, Text]]) -> None:
    """Names and values below each other, each value whole; facts without a value are left out."""
    told = [(name, value) for name, value in facts if (value if isinstance(value, str) else value.text)]
    edge = max(len(name) for name, _ in told)
    for name, value in told:
        shown = (
            out.one_line(value) if isinstance(value, str) else value._replace(text=out.one_line(value.text))
        )
        out.line("  ", dim(name.ljust(edge)), "  ", shown)


def _show_event(out: Terminal, ledger: Ledger, entry: LedgerEntry) -> None:
    source = entry.source
    out.line(
        bold(entry.event_type),
        f"  position {entry.position:,}, sequence {entry.sequence:,} of ",
        cyan(entry.correlation_id),
    )
    payload_bytes = None if entry.payload_json is None else len(entry.payload_json)
    _facts(
        out,
        [
            ("event_id", entry.event_id),
            ("happened", moment(entry.timestamp, digits=6)),
            ("recorded", moment(entry.recorded_at, digits=6)),
            ("origin", source.origin),
            ("runtime", source.runtime),
            ("name", source.name or ""),
            ("schema version", str(entry.schema_version) if entry.schema_version != 1 else ""),
            ("attributes", entry.attributes_json or ""),
            ("leaf", entry.leaf.hex()),
            ("payload", red("erased") if payload_bytes is None else size(payload_bytes)),
        ],
    )
    chain, end = _causes(ledger, entry)
    if chain or end:
        _heading(out, "Led to it, nearest first")
        _lines(out, chain)
        if end:
            out.line("  ", dim(end))
    effects = list(
        ledger.read(correlation_id=entry.correlation_id, causation_id=entry.event_id, limit=EFFECTS_MAX + 1)
    )
    if effects:
        _heading(out, "Came of it")
        _lines(out, effects[:EFFECTS_MAX])
        if len(effects) > EFFECTS_MAX:
            out.line("  ", dim("and more"))
    if entry.payload_json is not None:
        _heading(out, "Payload")
        out.block(msgspec.json.format(entry.payload_json, indent=2).decode("utf-8", "replace"))


def _causes(ledger: Ledger, entry: LedgerEntry) -> tuple[list[LedgerEntry], str]:
    """The cause, its cause and so on, at most ``CAUSES_MAX``; and why the chain ends early, if it does."""
    chain: list[LedgerEntry] = []
    seen = {entry.event_id}
    while entry.causation_id is not None:
        if entry.causation_id in seen:
            return chain, f"and in a circle back to {entry.causation_id}"
        if len(chain) == CAUSES_MAX:
            return chain, "and more"
        seen.add(entry.causation_id)
        try:
            entry = ledger.get(entry.causation_id)
        except NotFound:
            return chain, f"{entry.causation_id} is not in this ledger"
        chain.append(entry)
    return chain, ""


def _lines(out: Terminal, entries: list[LedgerEntry]) -> None:
    table(
        out,
        (
            Column("", right=True),
            Column("", gives=2),
            Column("", gives=1),
            Column("", gives=1),
            Column("", gives=2),
        ),
        [
            (
                str(entry.position),
                entry.event_type,
                out.one_line(described.who or ""),
                out.one_line(described.what),
                cyan(out.one_line(entry.correlation_id)),
            )
            for entry in entries
            for described in (describe(entry),)
        ],
        indent="  ",
    )
