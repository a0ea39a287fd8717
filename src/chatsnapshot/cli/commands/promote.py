"""``chatsnapshot promote``: a copy becomes a ledger of its own."""

from __future__ import annotations

import click
import msgspec

from chatsnapshot.cli.failures import OK, NoLedger
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.terminal import Terminal, bold
from chatsnapshot.cli.wording import moment
from chatsnapshot.errors import NotFound


@click.command("promote")
@click.argument("target", metavar="TARGET")
@click.option("--reason", metavar="TEXT", help="Why, as a part of the record.")
@json_option("one JSON object: target, position, ledger_id, copied_from")
@ledger_option
def command(target: str, reason: str | None, as_json: bool) -> int:
    """Make a ledger of its own of a copy, to record in.

    The next entry of TARGET says so (ledger.promoted); following it ends. See to it first that nobody records in its
    source any more. Promoting again changes nothing.
    """
    from chatsnapshot.copying import promote
    from chatsnapshot.stores.open import locate

    try:
        entry = promote(target, reason=reason)
    except NotFound as error:
        raise NoLedger(str(error)) from None
    url, payload = locate(target).url, entry.payload
    facts = {name: payload.get(name) for name in ("ledger_id", "copied_from", "reason")}
    out = Terminal.stdout()
    if as_json:
        facts = {"target": url, "position": entry.position, "recorded_at": entry.recorded_at, **facts}
        out.json_line(msgspec.json.encode(facts))
        return OK
    out.line(
        bold(out.one_line(url)), "  ", f"promoted at position {entry.position:,}, {moment(entry.recorded_at)}"
    )
    out.line("  ", f"id {facts['ledger_id']}; the entries before are of ledger {facts['copied_from']}")
    return OK
