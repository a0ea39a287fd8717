"""``chatsnapshot runs``: the tree of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, last_option, ledger_option, until_option
from chatsnapshot.cli.runtree import run_table
from chatsnapshot.cli.terminal import Terminal, dim

if TYPE_CHECKING:
    from chatsnapshot.projections.shapes import Run


@click.command("runs")
@last_option("runs; children come with their parents")
@until_option
@click.option(
    "--evaluation",
    "evaluations",
    multiple=True,
    metavar="CONDITION",
    help="Only runs that were evaluated so: NAME, NAME=LABEL or NAME>=NUMBER; also !=, <, <=, >. "
    "Repeatable: all must hold.",
)
@json_option("one run a line as a JSON object, children inside")
@ledger_option
def command(last: int | None, until: Until, evaluations: tuple[str, ...], as_json: bool) -> None:
    """List the runs, children under their parents.

    A run that failed inside says so: "completed, 1 tool error". Events of a correlation without a run are
    listed too. Times are UTC.
    """
    import msgspec

    from chatsnapshot.projections.views import list_runs

    with open_to_read() as ledger:
        runs: list[Run] = list_runs(ledger, last=last, until=until, evaluation=evaluations)
    out = Terminal.stdout()
    if as_json:
        for run in runs:
            out.json_line(msgspec.json.encode(run))
        return
    if not runs:
        out.line(dim("no run was evaluated so" if evaluations else "no runs yet"))
        return
    run_table(out, runs)
