"""An audit trail as a table: one act a row, with the positions that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, Text, dim, green, red, yellow
from chatsnapshot.cli.wording import count, moment

if TYPE_CHECKING:
    from chatsnapshot.projections.auditshapes import Audit, AuditLine

__all__ = ["audit_table"]

_STYLES = {
    "failed": red,
    "rejected": red,
    "blocked": red,
    "triggered": yellow,
    "cancelled": yellow,
    "open": yellow,
    "unknown": yellow,
    "approved": green,
    "completed": green,
    "ok": green,
}
_COLUMNS = (
    Column("POSITIONS", right=True),
    Column("TIME", spare=1),
    Column("ACTOR", gives=1, least=8),
    Column("FOR", gives=1, spare=1),
    Column("WHAT", gives=1, least=24),
    Column("DECIDED BY", gives=1),
    Column("OUTCOME", gives=1),
    Column("WHY", gives=1, spare=1),
)


def audit_table(out: Terminal, audit: Audit, *, earlier: int = 0) -> None:
    """Write the acts; ``earlier`` says how many stand before them."""
    if not audit.lines:
        out.line(dim("nothing to tell"))
        return
    if earlier:
        out.line(dim(f"{count(earlier, 'earlier act')} left out"))
    table(out, _COLUMNS, [_row(out, line) for line in audit.lines])
    if audit.erased:
        words = count(len(audit.erased), "payload is", "payloads are")
        out.line(dim(f"{words} erased; what attributes say is still there"))


def _row(out: Terminal, line: AuditLine) -> tuple[Text, ...]:
    outcome = out.one_line(line.outcome or "")
    style = _STYLES.get(line.outcome or "")
    what = "  " * line.depth + out.one_line(line.what)
    decided = " by ".join(filter(None, (line.decision, line.approver)))
    why = "; ".join(
        filter(
            None,
            (
                out.one_line(line.reason or ""),
                f"policy {out.one_line(line.policy)}" if line.policy else "",
                f"about {out.one_line(', '.join(line.subjects))}" if line.subjects else "",
            ),
        )
    )
    return (
        ",".join(map(str, line.positions)),
        dim(moment(line.at, digits=0)),
        out.one_line(line.actor or ""),
        out.one_line(line.principal or ""),
        dim(what) if line.erased else what,
        out.one_line(decided),
        style(outcome) if style is not None else outcome,
        why,
    )
