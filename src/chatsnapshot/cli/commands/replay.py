"""``chatsnapshot replay``: the events of a run again, in their order, at once or at their pace."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from chatsnapshot.cli.entries import Feed
from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, last_option, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry

SLEEP_SECONDS_MAX = 3600.0
"""A longer pause is slept in parts: the system refuses a sleep of centuries."""


def _speed(_: click.Context, __: click.Parameter, factor: float) -> float:
    if not 0 <= factor < math.inf:
        raise click.BadParameter(f"a speed is 0 (at once) or a factor such as 1, 10 or 0.5, not {factor}")
    return factor


@click.command("replay")
@click.argument("run")
@click.option(
    "--speed",
    type=float,
    default=0.0,
    callback=_speed,
    metavar="FACTOR",
    help="1 is the pace at which it happened, 10 is ten times as fast, 0 at once. [default: 0]",
)
@click.option("--children", is_flag=True, help="With the events of child runs, in the order of the ledger.")
@last_option("events")
@until_option
@json_option("one envelope a line, byte for byte as recorded: the same at each replay")
@ledger_option
def command(run: str, speed: float, children: bool, last: int | None, until: Until, as_json: bool) -> None:
    """Play the events of a run again, in their order.

    RUN is a run or correlation id. Nothing is executed: what was recorded is read back.
    """
    out = Terminal.stdout()
    with open_to_read() as ledger:
        entries: Iterable[LedgerEntry] = ledger.replay(
            correlation_of(ledger, run), until=until, children=children
        )
        if last:
            entries = deque(entries, maxlen=last)
        feed = Feed(out, correlation=children)
        for entry in _paced(entries, speed) if speed else entries:
            if as_json:
                out.json_line(entry.event.to_json())
            else:
                feed.write(entry)
            if speed:
                out.flush()


def _paced(entries: Iterable[LedgerEntry], speed: float) -> Iterator[LedgerEntry]:
    """Each entry when its time has come; one that happened before the one ahead of it comes at once."""
    from chatsnapshot.clock import parse_time

    began = time.monotonic()
    first = None
    for entry in entries:
        at = parse_time(entry.timestamp)
        first = first or at
        due = began + (at - first).total_seconds() / speed
        while (wait := due - time.monotonic()) > 0:
            time.sleep(min(wait, SLEEP_SECONDS_MAX))
        yield entry
