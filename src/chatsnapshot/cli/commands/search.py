"""``chatsnapshot search``: words in everything that was recorded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import Until, json_option, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal, Text, cyan, dim, yellow
from chatsnapshot.cli.wording import moment

if TYPE_CHECKING:
    from chatsnapshot.projections.search.searching import Hit

LIMIT_DEFAULT = 20


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=10_000),
    default=LIMIT_DEFAULT,
    metavar="N",
    help=f"The best N hits. [default: {LIMIT_DEFAULT}]",
)
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@click.option("--correlation", metavar="ID", help="Only events of this correlation.")
@click.option(
    "--type", "event_type", metavar="TYPE", help="Only this event type; execution.* is a whole domain."
)
@click.option("--origin", metavar="ORIGIN", help="Only of this origin: agent, system, ui or integration.")
@click.option("--runtime", metavar="NAME", help="Only of this runtime.")
@click.option("--name", metavar="NAME", help="Only of the source with this name.")
@click.option("--after", type=click.IntRange(min=0), metavar="POSITION", help="Only after this position.")
@until_option
@json_option("one hit a line as a JSON object")
@ledger_option
def command(
    query: tuple[str, ...],
    limit: int,
    newest: bool,
    after: int | None,
    until: Until,
    as_json: bool,
    **given: Any,
) -> None:
    """Find words in everything that was recorded.

    QUERY is words that must all be there, in any order; "a phrase" (in quotes that reach the command), begin*,
    and, after --, -without. Case and accents do not matter. The index is a file beside the ledger,
    NAME.search (of one on a server in the user's cache), that is made and caught up here and can be deleted.
    """
    import msgspec

    from chatsnapshot.projections.search.searching import search

    given["correlation_id"] = given.pop("correlation")
    with open_to_read() as ledger:
        found = search(
            ledger,
            " ".join(query),
            limit=limit,
            order="newest" if newest else "best",
            after=after or 0,
            until=until,
            keep=True,
            **given,
        )
    out = Terminal.stdout()
    if as_json:
        for hit in found:
            out.json_line(msgspec.json.encode(hit))
        return
    for hit in found:
        _write(out, hit)
    if not found.hits:
        out.line(dim("nothing found"))
    if found.note:
        out.line(dim(found.note))


def _write(out: Terminal, hit: Hit) -> None:
    head: list[Text] = [f"{hit.position:>6}  ", dim(moment(hit.at, digits=0)), "  "]
    head += [cyan(out.one_line(hit.correlation_id)), "  ", hit.event_type]
    if hit.who:
        head += ["  ", out.one_line(hit.who)]
    out.line(*head)
    pieces: list[Text] = [" " * 8]
    at = 0
    for first, last in hit.marks:
        pieces += [_flat(hit.snippet[at:first]), yellow(_flat(hit.snippet[first:last]))]
        at = last
    out.line(*pieces, _flat(hit.snippet[at:]))


def _flat(text: str) -> str:
    """The text with every run of blanks and line ends as one blank."""
    return re.sub(r"\s+", " ", text)
