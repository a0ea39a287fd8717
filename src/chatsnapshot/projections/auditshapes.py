"""The shapes that readers of the audit trail get: who did what, on whose authority, with which outcome, and where."""

from __future__ import annotations

import msgspec

__all__ = ["Audit", "AuditLine"]


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """One act, with everything that was recorded of it; ``positions`` are the entries that say so.

    ``kind``: ``run``, ``workflow``, ``tool``, ``service``, ``question``, ``approval``, ``edit``, ``guardrail``,
    ``handoff``, ``evaluation``, ``interaction``, ``limit``; ``erasure``, ``gap``, ``rejected``, ``clock``,
    ``promotion``, ``access`` (facts of the ledger itself); ``fact`` (anything else whose attributes say who, why or
    with which outcome).

    ``actor`` did it. ``principal`` is on whose authority, as the entry or else the run (or the run above it) says, at
    ``principal_position``. ``decision`` and ``approver`` are those of an approval, edit or question, and of a tool call
    that was approved, at ``approval_position``. ``outcome``: what attributes say, else ``ok``, ``failed``, ``open`` (no
    end recorded), the status of a run, or ``unknown`` (the payload that would tell was erased). ``depth``: 0 for the
    correlation asked for, 1 for its children.
    """

    position: int
    positions: tuple[int, ...]
    correlation_id: str
    at: str | None
    kind: str
    what: str
    actor: str | None = None
    principal: str | None = None
    principal_position: int | None = None
    decision: str | None = None
    approver: str | None = None
    approval_position: int | None = None
    policy: str | None = None
    outcome: str | None = None
    reason: str | None = None
    subjects: tuple[str, ...] = ()
    depth: int = 0
    erased: bool = False


class Audit(msgspec.Struct, frozen=True):
    """The acts under one correlation and its children, or in the whole ledger, in order of their first positions.

    ``erased``: positions among them whose payloads are gone; what their attributes say is still there.
    """

    correlation_id: str | None
    last_position: int
    lines: tuple[AuditLine, ...]
    erased: tuple[int, ...]
