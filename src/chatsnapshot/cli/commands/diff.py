"""``chatsnapshot diff``: how two runs differ, or one run at two positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, ledger_option, moment_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.diffshapes import Diff


@click.command("diff")
@click.argument("run")
@click.argument("other", required=False, metavar="[RUN]")
@moment_option("--from", "before", "Compare one run with itself as it stood here, inclusive.")
@moment_option("--to", "after", "Up to this position or recorded time; by default the end.")
@click.option("--children/--no-children", default=True, help="With child runs. [default: with]")
@json_option("the comparison as a JSON object")
@ledger_option
def command(run: str, other: str | None, before: Until, after: Until, children: bool, as_json: bool) -> None:
    """Show how two runs differ, or one run at two positions.

    Kinds, names, arguments, results and texts are compared, step by step; ids, times, durations and tokens
    are not. Child runs are compared at the places where they began.
    """
    import msgspec

    from chatsnapshot.projections.diff import diff_positions, diff_runs

    if (other is None) == (before is None):
        raise click.UsageError("name two runs, or one run with --from (and --to)")
    if other is not None and after is not None:
        raise click.UsageError("--to goes with one run and --from, not with two runs")
    with open_to_read() as ledger:
        first = correlation_of(ledger, run)
        found: Diff
        if other is None:
            found = diff_positions(ledger, first, before, after, children=children)
        else:
            found = diff_runs(ledger, first, correlation_of(ledger, other), children=children)
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(found))
        return
    from chatsnapshot.cli.difflines import diff_lines

    diff_lines(out, found)
