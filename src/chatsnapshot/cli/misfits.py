"""Payloads that do not fit their schemas, as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, red, yellow
from chatsnapshot.cli.wording import count

if TYPE_CHECKING:
    from chatsnapshot.misfits import Misfits

__all__ = ["misfit_table"]


def misfit_table(out: Terminal, found: Misfits, shown: int) -> None:
    """How many payloads fit, and the first ``shown`` that do not: position, type, version, path, reason."""
    out.line(
        "  ",
        f"{count(found.checked, 'payload')} held against schemas, {found.count:,} do not fit, "
        f"{found.unknown:,} of types without a schema, {found.erased:,} erased",
    )
    if found.stopped:
        out.line("  ", red(f"the rest could not be read: {out.one_line(found.stopped)}"))
    if not found.listed:
        return
    headings = (
        Column("POSITION", right=True),
        Column("TYPE", gives=2),
        Column("VERSION", right=True),
        Column("PATH", gives=2),
        Column("REASON", gives=1),
    )
    rows = [
        (
            str(one.position),
            out.one_line(one.event_type),
            str(one.version),
            out.one_line(one.path),
            red(out.one_line(one.reason)),
        )
        for one in found.listed[:shown]
    ]
    table(out, headings, rows, indent="  ")
    if found.count > shown:
        out.line("  ", yellow(f"and {found.count - shown:,} more (--json has the first 1,000)"))
