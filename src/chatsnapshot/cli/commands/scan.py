"""``chatsnapshot scan``: secrets in a ledger that exists: where they are, never what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from chatsnapshot.cli.failures import OK, PARTIAL, settle_stdout
from chatsnapshot.cli.opening import open_to_read
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, bold, cyan, dim, green, yellow
from chatsnapshot.cli.wording import count
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.redaction import Pattern
    from chatsnapshot.redaction.scanning import Finding

LISTED_DEFAULT = 50
NAMED_POSITIONS_MAX = 10
COLUMNS = (
    Column("POSITION", right=True),
    Column("EVENT", gives=2),
    Column("PATH", gives=1),
    Column("KIND"),
    Column("BEGINS"),
)


@click.command("scan")
@click.argument("run", required=False)
@click.option(
    "--patterns",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="Look for these too: KIND and a regular expression on each line; # begins a comment.",
)
@click.option(
    "--last",
    "listed",
    type=click.IntRange(min=1),
    default=LISTED_DEFAULT,
    metavar="N",
    help=f"List at most N places, the last ones. [default: {LISTED_DEFAULT}]",
)
@json_option("every place as a JSON object, one a line")
@ledger_option
def command(run: str | None, patterns: Any, listed: int, as_json: bool) -> int:
    """Look for secrets in what is recorded.

    The built-in patterns of redaction are looked for in payloads, blobs, attributes and source names of the ledger, or
    of one RUN. Nothing is changed. Exit codes: 0 nothing found, 10 something found.
    """
    from chatsnapshot.redaction import SECRETS, Redactor
    from chatsnapshot.redaction.scanning import scan

    redactor = Redactor((*SECRETS, *(_read(patterns) if patterns is not None else ())))
    out = Terminal.stdout()
    kinds: Counter[str] = Counter()
    positions: set[int] = set()
    last: list[Finding] = []
    with open_to_read() as ledger, Progress() as progress:
        correlation = None if run is None else correlation_of(ledger, run)
        head = ledger.head
        entries = _watched(ledger.read(until=head, correlation_id=correlation), progress, head)
        for found in scan(entries, redactor, ledger.limits):
            kinds[found.kind] += 1
            positions.add(found.position)
            if as_json:
                out.json_line(msgspec.json.encode(found))
            else:
                last.append(found)
                del last[:-listed]
    code = PARTIAL if kinds else OK
    try:
        if not as_json:
            _show(out, head, kinds, sorted(positions), last)
        out.flush()
    except BrokenPipeError:
        settle_stdout()  # whoever reads only the first lines must still learn the outcome
    return code


def _watched(entries: Iterable[LedgerEntry], progress: Progress, head: int) -> Iterator[LedgerEntry]:
    for entry in entries:
        if entry.position % 256 == 0:
            progress.show("scanning", entry.position, head)
        yield entry


def _read(file: Iterable[str]) -> Iterator[Pattern]:
    """The patterns of a file: a kind, a blank, a regular expression."""
    from chatsnapshot.redaction import Pattern

    for number, line in enumerate(file, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        kind, _, expression = text.partition(" ")
        if not expression.strip():
            raise click.UsageError(f"line {number} of the patterns is no KIND and regular expression")
        yield Pattern(kind, expression.strip())


def _show(out: Terminal, head: int, kinds: Counter[str], positions: list[int], last: list[Finding]) -> None:
    if not kinds:
        out.line(green("nothing found"), f"  in {count(head, 'event')}")
        return
    whole = kinds.total()
    out.line(yellow("found"), f"  {count(whole, 'secret')} in {count(len(positions), 'event')}")
    out.line()
    table(
        out,
        (Column("KIND"), Column("PLACES", right=True)),
        [(kind, f"{n:,}") for kind, n in kinds.most_common()],
    )
    out.line()
    rows = [
        (
            str(found.position),
            out.one_line(found.event_type),
            out.one_line(found.path),
            found.kind,
            out.one_line(found.shown + "…") if found.shown else dim(""),
        )
        for found in last
    ]
    table(out, COLUMNS, rows)
    if whole > len(last):
        out.line(dim(f"and {whole - len(last):,} before these (--json has them)"))
    named = ", ".join(map(str, positions[:NAMED_POSITIONS_MAX])) + (
        ", …" if len(positions) > NAMED_POSITIONS_MAX else ""
    )
    out.line()
    out.line("Change these secrets where they are valid: whoever could read the ledger may have them.")
    out.line("To erase the payloads: ", cyan(f'chatsnapshot.open(…).erase([{named}], reason="held secrets")'))
    out.line(bold("Attributes and source names stay"), " when a payload is erased.")
