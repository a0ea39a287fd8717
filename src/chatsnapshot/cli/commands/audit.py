"""``chatsnapshot audit``: who did what, on whose authority, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chatsnapshot.cli.opening import open_to_read, open_to_view
from chatsnapshot.cli.options import Until, json_option, last_option, ledger_option, until_option
from chatsnapshot.cli.terminal import Terminal
from chatsnapshot.projections.finding import correlation_of

if TYPE_CHECKING:
    from chatsnapshot.projections.auditshapes import Audit


@click.command("audit")
@click.argument("run", required=False)
@click.option("--actor", metavar="NAME", help="Only what this one did.")
@click.option("--principal", metavar="NAME", help="Only what was done on this one's authority.")
@click.option("--kind", metavar="KIND", help="Only one kind of act, such as tool, approval or erasure.")
@click.option("--outcome", metavar="WORD", help="Only acts with this outcome, such as failed or open.")
@click.option("--children/--no-children", default=True, help="With child runs of RUN. [default: with]")
@last_option("acts")
@until_option
@json_option("the audit trail as a JSON object")
@ledger_option
def command(
    run: str | None,
    actor: str | None,
    principal: str | None,
    kind: str | None,
    outcome: str | None,
    children: bool,
    last: int | None,
    until: Until,
    as_json: bool,
) -> None:
    """Tell who did what on whose authority, and what came of it.

    RUN is a run or correlation id; without it the whole ledger is told, with its own facts. What an event's
    attributes say is told also when its payload was erased.
    """
    import msgspec

    from chatsnapshot.projections.auditreading import audit_of

    with open_to_view() if run is None else open_to_read() as ledger:
        found: Audit = audit_of(
            ledger,
            None if run is None else correlation_of(ledger, run),
            children=children,
            until=until,
            actor=actor,
            principal=principal,
            kind=kind,
            outcome=outcome,
        )
    earlier = max(0, len(found.lines) - last) if last else 0
    shown = msgspec.structs.replace(found, lines=found.lines[earlier:])
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(shown))
        return
    from chatsnapshot.cli.audittable import audit_table

    audit_table(out, shown, earlier=earlier)
