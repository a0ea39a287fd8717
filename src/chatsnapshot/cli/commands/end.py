"""``chatsnapshot end``: the end of a run whose process died, recorded as an event."""

from __future__ import annotations

import click

from chatsnapshot.cli.opening import open_to_add
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.terminal import Terminal, cyan, dim, green
from chatsnapshot.projections.finding import correlation_of


@click.command("end")
@click.argument("run")
@click.option(
    "--status",
    type=click.Choice(["cancelled", "failed", "completed", "paused"]),
    default="cancelled",
    metavar="STATUS",
    help="How it ended: cancelled, failed, completed or paused. [default: cancelled]",
)
@click.option("--reason", metavar="TEXT", help="Why it is ended from here.")
@json_option("the entry as a JSON object")
@ledger_option
def command(run: str, status: str, reason: str | None, as_json: bool) -> None:
    """Close a run whose process died.

    The run (or workflow) was begun and has no end. Nothing is stopped by this: it is for the record. A run that
    has ended, or in which something is recorded at the same moment, is left alone.
    """
    out = Terminal.stdout()
    with open_to_add() as ledger:
        entry = ledger.end(run, status=status, reason=reason, correlation_id=correlation_of(ledger, run))
    if as_json:
        out.json_line(entry.to_json())
        return
    out.line(
        green("recorded"),
        f" {entry.event_type} of ",
        cyan(out.one_line(run)),
        f", at position {entry.position}",
    )
    out.line(dim(f"event_id {entry.event_id}"))
