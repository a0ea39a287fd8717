"""What ``backup`` and ``restore`` have in common: a copy is made, and it is said what was copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.cli.failures import CORRUPT, OK, NoLedger, tell
from chatsnapshot.cli.progress import Progress
from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, bold
from chatsnapshot.cli.wording import size
from chatsnapshot.errors import Corrupt, NotFound

if TYPE_CHECKING:
    from chatsnapshot.backup import Copy

__all__ = ["make_copy"]


def make_copy(make: Callable[[Progress], Copy], as_json: bool) -> int:
    """Run ``make`` and show the copy; the exit code."""
    try:
        with Progress() as progress:
            copy = make(progress)
    except NotFound as error:
        raise NoLedger(str(error)) from None
    except Corrupt as error:
        tell(error)
        return CORRUPT
    out = Terminal.stdout()
    if as_json:
        out.json_line(msgspec.json.encode(copy))
        return OK
    out.line(
        bold(out.one_line(copy.path)), "  ", f"verified, {size(copy.bytes)}, of {out.one_line(copy.source)}"
    )
    table(
        out,
        (Column("LEDGER"), Column("HEAD", right=True), Column("ROOT", gives=2), Column("ID", gives=2)),
        [(found.name, f"{found.head:,}", found.root, found.ledger_id) for found in copy.ledgers],
        indent="  ",
    )
    if copy.kept is not None:
        out.line("  ", f"what was there before is kept: {out.one_line(copy.kept)}")
    return OK
