"""The audit trail of one run, with the ledger's own facts that concern it, or of a whole ledger; by actor and outcome."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec

from chatsnapshot.errors import NotFound
from chatsnapshot.events.catalogue import LEDGER_CORRELATION
from chatsnapshot.projections.audit import AuditProjection, AuditState, shape_audit
from chatsnapshot.projections.auditshapes import Audit, AuditLine
from chatsnapshot.projections.latest import newest
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
    if correlation_id is None:
        states, places = _states(ledger, ledger.read(until=until))
        wanted = None
    else:
        wanted = unicodedata.normalize("NFC", str(correlation_id))
        states, places = _states(ledger, ledger.replay(wanted, until=until, children=children))
        if wanted not in states:
            raise NotFound(f"no events under correlation {wanted!r}; `chatsnapshot runs` lists what there is")
    projection = AuditProjection()
    starts = {key: projection.start(state) for key, state in states.items()}
    found = links(starts, places.get)
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


def _states(ledger: Any, entries: Any) -> tuple[dict[str, AuditState], dict[str, tuple[str, int]]]:
    projection = AuditProjection()
    states: dict[str, AuditState] = {}
    places: dict[str, tuple[str, int]] = {}
    for entry in newest(ledger, entries):
        key = entry.correlation_id
        places[entry.event_id] = key, entry.position
        state = states[key] if key in states else projection.initial()
        states[key] = projection.apply(state, entry)
    return states, places


def _concerning(ledger: Any, states: dict[str, AuditState], until: Any) -> list[AuditLine]:
    """The ledger's own facts about these correlations."""
    try:
        facts, _ = _states(ledger, ledger.replay(LEDGER_CORRELATION, until=until))
    except NotFound:
        return []
    erased = {position for state in states.values() for position in state.erased}
    return [
        act.line
        for state in facts.values()
        for act in state.acts
        if not erased.isdisjoint(act.said.erases) or not states.keys().isdisjoint(act.said.concerns)
    ]
