"""``chatsnapshot copy``: a ledger in another store, once or followed live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from chatsnapshot.cli.failures import CORRUPT, OK, NoLedger, tell
from chatsnapshot.cli.following import Told
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.terminal import Terminal, bold
from chatsnapshot.cli.wording import count, size
from chatsnapshot.errors import Corrupt, NotFound

if TYPE_CHECKING:
    from chatsnapshot.copying import Copied
    from chatsnapshot.envelope import LedgerEntry


@click.command("copy")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--follow", is_flag=True, help="Go on with what is recorded later, until Ctrl-C (130).")
@click.option(
    "--promote", is_flag=True, help="Make a ledger of its own of the copy once it is whole, to record in."
)
@click.option(
    "--no-verify", is_flag=True, help="Compare size and root alone; do not read the whole copy again."
)
@json_option("what was copied as a JSON object; with --follow one object a line, each time that it moved")
@ledger_option
def command(source: str, target: str, follow: bool, promote: bool, no_verify: bool, as_json: bool) -> int:
    """Copy a ledger to another place or another kind of store.

    Whole entries are copied, with blobs and erasures, so TARGET has the same positions, leaves and root. SOURCE may be
    written to meanwhile. What is there of TARGET must be the beginning of SOURCE; only the rest is copied. TARGET takes
    entries from SOURCE alone until it is promoted.
    """
    if follow and (promote or no_verify):
        raise click.UsageError(f"--follow does not go with {'--promote' if promote else '--no-verify'}")
    from chatsnapshot import copying

    out = Terminal.stdout()
    try:
        if follow:
            told = Told(out, as_json)
            try:
                copying.follow(source, target, on_state=told.state)
            finally:
                told.end()
            return OK
        with Progress(lines=not as_json) as progress:
            made = copying.copy(source, target, verify=not no_verify, progress=progress.show)
        promoted = (
            copying.promote(target, reason=f"chatsnapshot copy --promote of {made.source}")
            if promote
            else None
        )
    except NotFound as error:
        raise NoLedger(str(error)) from None
    except Corrupt as error:
        tell(error)
        return CORRUPT
    if as_json:
        out.json_line(msgspec.json.encode(_document(made, promoted)))
    else:
        _show(out, made, promoted)
    return OK


def _document(made: Copied, promoted: LedgerEntry | None) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(made)
    if promoted is not None:
        found["promoted"] = {"position": promoted.position, "ledger_id": promoted.payload["ledger_id"]}
    return found


def _show(out: Terminal, made: Copied, promoted: LedgerEntry | None) -> None:
    checked = "verified" if made.verified else "root compared"
    out.line(
        bold(out.one_line(made.target)),
        "  ",
        f"{checked}, {count(made.entries, 'entry', 'entries')} ({size(made.bytes)}) copied from "
        f"{out.one_line(made.source)} in {made.seconds:,.1f} s",
    )
    out.line("  ", f"head {made.head:,}  root {made.root}")
    if promoted is None and made.waits:
        out.line("  ", "read-only: it takes entries from this source alone, until 'chatsnapshot promote'")
    if promoted is not None:
        out.line("  ", f"promoted at position {promoted.position:,}, id {promoted.payload['ledger_id']}")
