"""``chatsnapshot feed``: what a named consumer has not had yet, as lines of JSON; where the feeds stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from chatsnapshot.cli.opening import open_to_add, open_to_read
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, dim, red

if TYPE_CHECKING:
    from chatsnapshot.cursors import FeedState
    from chatsnapshot.ledger import Ledger

__all__ = ["command"]

BATCH_DEFAULT = 500


@click.command("feed")
@click.argument("name", required=False)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    default=BATCH_DEFAULT,
    metavar="N",
    help=f"Commit after at most N entries. [default: {BATCH_DEFAULT}]",
)
@click.option("--after", metavar="POSITION|now", help="Where a new feed begins. [default: 0, the beginning]")
@click.option("--correlation", metavar="ID", help="Only events of this correlation.")
@click.option(
    "--type", "event_type", metavar="TYPE", help="Only this event type; execution.* is a whole domain."
)
@click.option("--follow", is_flag=True, help="Go on with what is recorded later, until Ctrl-C.")
@click.option(
    "--reset",
    type=click.IntRange(min=0),
    metavar="POSITION",
    help="Write nothing; let the feed go on after this position.",
)
@click.option("--drop", is_flag=True, help="Write nothing; forget the feed.")
@click.option("--list", "as_list", is_flag=True, help="Write nothing of it; list where the feeds stand.")
@json_option("the list as one feed a line, a JSON object each")
@ledger_option
def command(
    name: str | None,
    batch: int,
    after: str | None,
    correlation: str | None,
    event_type: str | None,
    follow: bool,
    reset: int | None,
    drop: bool,
    as_list: bool,
    as_json: bool,
) -> None:
    """Write what a named consumer has not had yet, each entry at least once.

    One entry a line, as a JSON object. The place is kept in the ledger and moves on after each batch that was
    written to standard output; a batch that could not be written comes again. A name that is not known begins a
    new feed, with these filters.
    """
    if as_list + drop + (reset is not None) > 1:
        raise click.UsageError("give one of --list, --reset and --drop")
    out = Terminal.stdout()
    if as_list:
        with open_to_read() as ledger:
            _list(out, [one for one in ledger.feeds() if name in (None, one.name)], as_json)
        return
    if name is None:
        raise click.UsageError("give the name of the feed; --list shows those that are known")
    begin = _begin(after)
    with open_to_add() as ledger:
        if drop:
            ledger.drop_feed(name)
            out.line(out.one_line(f"feed {name} is forgotten"))
        elif reset is not None:
            _reset(ledger, name, reset)
            out.line(out.one_line(f"feed {name} goes on after position {reset}"))
        else:
            filters: Any = {"correlation_id": correlation, "event_type": event_type}
            for handed in ledger.feed(name, batch=batch, after=begin, follow=follow, **filters):
                for entry in handed:
                    out.json_line(entry.to_json())
                out.flush()


def _begin(after: str | None) -> int | Literal["now"]:
    if after is None:
        return 0
    if after == "now":
        return "now"
    if after.isascii() and after.isdigit():
        return int(after)
    raise click.UsageError(f"--after is a position or now, not {after!r}")


def _reset(ledger: Ledger, name: str, position: int) -> None:
    from chatsnapshot.errors import NotFound

    if name not in [one.name for one in ledger.feeds()]:
        raise NotFound(f"there is no feed {name!r} in {ledger.url}; --list shows those that are known")
    ledger.feed(name).reset(position)


def _list(out: Terminal, found: list[FeedState], as_json: bool) -> None:
    if as_json:
        for one in found:
            out.json_line(msgspec.json.encode(one))
        return
    if not found:
        out.line(dim("there is no feed; `chatsnapshot feed NAME` begins one"))
        return
    from chatsnapshot.cursors import told

    headings = (
        Column("NAME"),
        Column("POSITION", right=True),
        Column("LAG", right=True),
        Column("FILTERS", gives=1),
    )
    rows: list[tuple[Any, ...]] = []
    for one in found:
        filters = told(one.filters) if one.filters else ""
        rows.append((out.one_line(one.name), f"{one.position:,}", f"{one.lag:,}", dim(out.one_line(filters))))
    table(out, headings, rows)
    for one in found:
        if one.fault is not None:
            out.line(
                red("fault"), "  ", out.one_line(f"{one.name}: {one.fault}; go on with --reset POSITION")
            )
