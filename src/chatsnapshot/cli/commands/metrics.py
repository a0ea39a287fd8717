"""``chatsnapshot metrics``: what runs used, how long it took, what failed and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chatsnapshot.cli.opening import open_to_read, open_to_view
from chatsnapshot.cli.options import Until, json_option, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.metricshapes import Metrics


@click.command("metrics")
@click.argument("run", required=False)
@click.option(
    "--by",
    type=click.Choice(["agent", "model", "tool", "run", "day"]),
    help="A table with a row for each agent, model, tool, run or day (UTC).",
)
@click.option(
    "--prices",
    metavar="FILE",
    help="Prices for 1,000,000 tokens by model, JSON or TOML; without it every cost is unknown.",
)
@click.option("--agent", metavar="NAME", help="Only what this agent did.")
@click.option("--model", metavar="NAME", help="Only calls of this model.")
@click.option("--tool", metavar="NAME", help="Only calls of this tool.")
@click.option("--first-day", metavar="DAY", help="Only events from this day on (UTC, 2026-11-30).")
@click.option("--last-day", metavar="DAY", help="Only events up to this day, inclusive.")
@click.option("--children/--no-children", default=True, help="With child runs of RUN. [default: with]")
@until_option
@json_option("the metrics as a JSON object, all groups in it")
@ledger_option
def command(
    run: str | None,
    by: str | None,
    prices: str | None,
    agent: str | None,
    model: str | None,
    tool: str | None,
    first_day: str | None,
    last_day: str | None,
    children: bool,
    until: Until,
    as_json: bool,
) -> None:
    """Count calls, tokens, cost, durations and failures.

    RUN is a run or correlation id; without it all runs are counted. Each model call counts once. A cost is
    exact; where the price table or a call says too little it is unknown, never 0.
    """
    import msgspec

    from chatsnapshot.projections.metricsreading import metrics_of
    from chatsnapshot.projections.pricetable import read_prices

    table = None if prices is None else read_prices(prices)
    with open_to_view() if run is None else open_to_read() as ledger:
        found: Metrics = metrics_of(
            ledger,
            None if run is None else correlation_of(ledger, run),
            children=children,
            until=until,
            prices=table,
            agent=agent,
            model=model,
            tool=tool,
            first_day=first_day,
            last_day=last_day,
        )
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(found))
        return
    from chatsnapshot.cli.metrictable import metric_summary, metric_table

    metric_summary(out, found)
    if by is not None:
        out.line()
        metric_table(out, found, by)
