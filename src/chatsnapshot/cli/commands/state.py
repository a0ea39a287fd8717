"""``chatsnapshot state``: the last state of everything in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, ledger_option, until_option
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, Text, dim, green, red, yellow
from chatsnapshot.cli.wording import moment
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.stateshapes import States, Subject

_STYLES = {
    "completed": green,
    "answered": green,
    "failed": red,
    "cancelled": yellow,
    "paused": yellow,
    "unfinished": yellow,
    "open": yellow,
    "retried": yellow,
}
_COLUMNS = (
    Column("KIND"),
    Column("WHICH", gives=2),
    Column("NAME", gives=1, spare=True),
    Column("STATE", gives=1, least=20),
    Column("SINCE", spare=True),
    Column("POSITION", right=True),
    Column("WHY", gives=1, spare=True),
)


@click.command("state")
@click.argument("run")
@click.option("--children/--no-children", default=True, help="With child runs. [default: with]")
@until_option
@json_option("the states as a JSON object")
@ledger_option
def command(run: str, children: bool, until: Until, as_json: bool) -> None:
    """Show the last state of everything in a run, at any position.

    RUN is a run or correlation id; its runs, workflows, tasks, processes, steps, questions and agents are
    shown. With --until it is what was the case at that position or time.
    """
    from chatsnapshot.projections.views import view

    with open_to_read() as ledger:
        found: States = view(ledger, "state", correlation_of(ledger, run), until=until, children=children)
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(found))
    elif found.subjects:
        table(out, _COLUMNS, [_row(out, subject) for subject in found.subjects])
    else:
        out.line(dim("nothing in this run has a state"))


def _row(out: Terminal, subject: Subject) -> tuple[Text, ...]:
    state = out.one_line(subject.state)
    style = _STYLES.get(subject.state)
    return (
        subject.kind,
        out.one_line(subject.id),
        out.one_line(subject.name or "") if subject.name != subject.id else "",
        style(state) if style is not None and subject.kind not in ("agent", "step", "process") else state,
        dim(moment(subject.since, digits=0)),
        str(subject.position),
        out.one_line(subject.reason or ""),
    )
