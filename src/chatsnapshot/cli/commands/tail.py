"""``chatsnapshot tail``: events as they are recorded, by any process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from chatsnapshot.cli.entries import Feed
from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.terminal import Terminal

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry

LAST_DEFAULT = 10


@click.command("tail")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    metavar="POSITION",
    help="Begin with the event after this position; 0 is the very beginning.",
)
@click.option(
    "--last",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Begin with the last N events that match. [default: {LAST_DEFAULT}]",
)
@click.option("--correlation", metavar="ID", help="Only events of this correlation.")
@click.option(
    "--type", "event_type", metavar="TYPE", help="Only this event type; execution.* is a whole domain."
)
@click.option("--no-follow", is_flag=True, help="Stop at the end of what is recorded now.")
@json_option("one entry a line as a JSON object")
@ledger_option
def command(
    after: int | None,
    last: int | None,
    correlation: str | None,
    event_type: str | None,
    no_follow: bool,
    as_json: bool,
) -> None:
    """Follow events as they are recorded.

    Shows the last events, then each new one as soon as it is durable, whoever records it. Ctrl-C ends it.
    To go on later without a gap, give the last position that you have seen to --after.
    """
    if after is not None and last is not None:
        raise click.UsageError("give --after or --last, not both")
    out = Terminal.stdout()
    feed = Feed(out, correlation=correlation is None)

    def show(entries: Iterable[LedgerEntry], *, at_once: bool) -> None:
        for entry in entries:
            if as_json:
                out.json_line(entry.to_json())
            else:
                feed.write(entry)
            if at_once:
                out.flush()

    with open_to_read() as ledger:
        filters: Any = {"correlation_id": correlation, "event_type": event_type}
        if after is None:
            wanted = LAST_DEFAULT if last is None else last
            after = ledger.head
            past = list(ledger.read(**filters, until=after, limit=wanted, reverse=True))
            show(reversed(past), at_once=False)
            out.flush()
        elif no_follow:
            show(ledger.read(**filters, after=after), at_once=False)
        if not no_follow:
            show(ledger.tail(after=after, **filters), at_once=True)
