"""``chatsnapshot context``: the past of runs within a token budget, for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.context.shapes import Context

BUDGET_DEFAULT = 4_000


@click.command("context")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--search", metavar="QUERY", help="What a search finds in these runs, or in all.")
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=BUDGET_DEFAULT,
    metavar="TOKENS",
    help=f"At most so many tokens, estimated. [default: {BUDGET_DEFAULT:,}]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "messages", "openai", "anthropic"]),
    default="markdown",
    help="The form of it; all but markdown are a JSON list. [default: markdown]",
)
@click.option("--near", metavar="EVENT_ID", help="What is close to this event, not to the newest.")
@click.option(
    "--children/--no-children", default=True, help="With child runs of the runs named. [default: with]"
)
@click.option("--bare", is_flag=True, help="Texts behind their citations, without fences around them.")
@click.option(
    "--json", "as_json", is_flag=True, help="Write an object with items, tokens and what was left out."
)
@until_option
@ledger_option
def command(
    runs: tuple[str, ...],
    search: str | None,
    budget: int,
    form: str,
    near: str | None,
    children: bool,
    bare: bool,
    as_json: bool,
    until: Until,
) -> None:
    """Give the past of runs within a token budget, for a model.

    RUN is a run or correlation id. What led to the newest event comes first, then what has the same
    causes, then the newest; calls stay with their results. Every record cites its position, and recorded
    text is fenced, so that a model can tell it from instructions.
    """
    from chatsnapshot.projections.context.making import context, to_json

    if not runs and search is None:
        raise click.UsageError("name a run, or say what to look for with --search")
    with open_to_read() as ledger:
        made: Context = context(
            ledger,
            [correlation_of(ledger, run) for run in runs] or None,
            budget_tokens=budget,
            format=form,
            search=search,
            near=near,
            until=until,
            children=children,
            quoted=not bare,
            keep=True,
        )
    out = Terminal.stdout()
    if as_json:
        out.json_line(to_json(made))
    elif form == "markdown":
        out.block(made.text)
    else:
        out.json_line(made.text.encode() or b"[]")
