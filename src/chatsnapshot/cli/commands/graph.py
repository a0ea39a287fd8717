"""``chatsnapshot graph``: what led to what in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.graphshapes import Graph


@click.command("graph")
@click.argument("run")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot"]),
    default="text",
    help="The form of it. [default: text]",
)
@click.option("--children/--no-children", default=True, help="With child runs. [default: with]")
@until_option
@json_option("the graph as a JSON object")
@ledger_option
def command(run: str, form: str, children: bool, until: Until, as_json: bool) -> None:
    """Show what led to what in a run, and which task waits for which.

    RUN is a run or correlation id. Each event stands below the one that led to it: what goes on at the same
    depth is one line of events, what is deeper branches off. Joins, late and missing causes are noted.
    """
    from chatsnapshot.projections.views import view

    with open_to_read() as ledger:
        found: Graph = view(ledger, "graph", correlation_of(ledger, run), until=until, children=children)
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(found))
    elif form == "text":
        from chatsnapshot.cli.graphtable import graph_table

        graph_table(out, found)
    else:
        from chatsnapshot.projections.graphdiagram import render_dot, render_mermaid

        out.block((render_mermaid if form == "mermaid" else render_dot)(found))
