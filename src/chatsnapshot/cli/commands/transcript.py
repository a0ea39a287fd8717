"""``chatsnapshot transcript``: the conversation of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, last_option, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.shapes import Transcript


@click.command("transcript")
@click.argument("run")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    help="The form of it. [default: text]",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--children/--no-children", default=True, help="With child runs, where they began. [default: with]"
)
@last_option("items")
@until_option
@ledger_option
def command(run: str, form: str, as_json: bool, children: bool, last: int | None, until: Until) -> None:
    """Print the conversation of a run.

    RUN is a run or correlation id. Messages, tool calls with their results, questions with their answers,
    child runs at the place where they began.
    """
    from chatsnapshot.projections.render import render_markdown, render_text
    from chatsnapshot.projections.views import view

    with open_to_read() as ledger:
        found: Transcript = view(
            ledger, "transcript", correlation_of(ledger, run), until=until, children=children
        )
    if last:
        found = msgspec.structs.replace(found, items=found.items[-last:])
    out = Terminal.stdout()
    if as_json or form == "json":
        out.json_line(msgspec.json.encode(found))
    elif form == "markdown":
        out.block(render_markdown(found))
    else:
        out.block(render_text(found, width=out.width))
