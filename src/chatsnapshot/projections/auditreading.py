"""The audit trail of one run, with the ledger's own facts that concern it, or of a whole ledger; by actor and outcome."""

from __future__ import annotations

import unicodedata
from functools import partial
from typing import Any

import msgspec

from chatsnapshot.errors import NotFound
from chatsnapshot.events.catalogue import LEDGER_CORRELATION
from chatsnapshot.projections.audit import AuditProjection, AuditState, shape_audit
from chatsnapshot.projections.auditshapes import Audit, AuditLine
from chatsnapshot.projections.everystate import states_of
from chatsnapshot.projections.lineage import Link, links

__all__ = ["audit_of"]


def audit_of(
    ledger: Any,
    correlation_id: object = None,
    *,
    children: bool = True,
    until: Any = None,
    actor: str | None = None,
    principal: str | None = None,
    kind: str | None = None,
    outcome: str | None = None,
) -> Audit:
    """Who did what under one correlation and its children, or in the whole ledger without ``correlation_id``.

    Beside what the view ``audit`` gives, the ledger's own facts that concern the correlation are in it: erasures of its
    payloads, gaps and refused events that name it. ``actor``, ``principal``, ``kind`` and ``outcome`` keep lines that say
    just this. Raises :class:`~chatsnapshot.errors.NotFound` for a correlation without entries.
    """
    wanted = None if correlation_id is None else unicodedata.normalize("NFC", str(correlation_id))
    projection = AuditProjection()
    states: dict[str, AuditState] = states_of(ledger, projection, wanted, until, children)
    starts = {key: projection.start(state) for key, state in states.items()}
    found = links(starts, partial(_place, ledger, states))
    if wanted is not None and found[wanted].parent is not None:
        found[wanted] = Link("cycle", None, found[wanted].position)
    told = [] if wanted in (None, LEDGER_CORRELATION) else _concerning(ledger, states, until)
    audit = shape_audit(states, found, wanted, told)
    kept = tuple(
        one
        for one in audit.lines
        if (actor is None or one.actor == actor)
        and (principal is None or one.principal == principal)
        and (kind is None or one.kind == kind)
        and (outcome is None or one.outcome == outcome)
    )
    return msgspec.structs.replace(audit, lines=kept)


def _place(ledger: Any, states: dict[str, AuditState], event_id: str) -> tuple[str, int] | None:
    """Where an event stands that is among what was asked for."""
    try:
        entry = ledger.get(event_id)
    except NotFound:
        return None
    state = states.get(entry.correlation_id)
    known = state is not None and entry.position <= state.last_position
    return (entry.correlation_id, entry.position) if known else None


def _concerning(ledger: Any, states: dict[str, AuditState], until: Any) -> list[AuditLine]:
    """The ledger's own facts about these correlations."""
    try:
        facts = states_of(ledger, AuditProjection(), LEDGER_CORRELATION, until, children=False)
    except NotFound:
        return []
    erased = {position for state in states.values() for position in state.erased}
    return [
        act.line
        for state in facts.values()
        for act in state.acts
        if not erased.isdisjoint(act.said.erases) or not states.keys().isdisjoint(act.said.concerns)
    ]
