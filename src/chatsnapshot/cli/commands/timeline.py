"""``chatsnapshot timeline``: what happened in a run, entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, last_option, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.cli.timetable import timetable
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.pathshapes import CriticalPath
    from chatsnapshot.projections.shapes import Timeline


@click.command("timeline")
@click.argument("run")
@click.option("--children/--no-children", default=True, help="With child runs, indented. [default: with]")
@last_option("entries")
@until_option
@click.option("--waterfall", is_flag=True, help="What took time, as bars, with the critical path.")
@json_option("the timeline (with --waterfall the critical path) as a JSON object")
@ledger_option
def command(run: str, children: bool, last: int | None, until: Until, waterfall: bool, as_json: bool) -> None:
    """Show what happened in a run, when and for how long.

    RUN is a run or correlation id. Times count from the first entry; a duration stands where a call, task,
    question or run ends; one that did not end is open.
    """
    from chatsnapshot.projections.views import view

    if waterfall:
        _waterfall(run, children, last, until, as_json)
        return
    with open_to_read() as ledger:
        found: Timeline = view(
            ledger, "timeline", correlation_of(ledger, run), until=until, children=children
        )
    earlier = max(0, len(found.items) - last) if last else 0
    shown = msgspec.structs.replace(found, items=found.items[earlier:])
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(shown))
        return
    timetable(out, shown, earlier=earlier)


def _waterfall(run: str, children: bool, last: int | None, until: Until, as_json: bool) -> None:
    from chatsnapshot.cli.waterfall import waterfall
    from chatsnapshot.projections.views import view

    with open_to_read() as ledger:
        found: CriticalPath = view(
            ledger, "critical_path", correlation_of(ledger, run), until=until, children=children
        )
    earlier = max(0, len(found.spans) - last) if last else 0
    shown = msgspec.structs.replace(found, spans=found.spans[earlier:])
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(shown))
    else:
        waterfall(out, shown, earlier=earlier)
