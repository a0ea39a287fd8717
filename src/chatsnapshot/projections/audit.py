"""The ``audit`` projection: who did what, on whose authority, approved by whom, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.projections.auditmarks import Said, attributes_of, read_mark, subjects_of
from chatsnapshot.projections.auditshapes import Audit, AuditLine
from chatsnapshot.projections.base import register
from chatsnapshot.projections.lineage import Link, Start, depths, take_late, upwards
from chatsnapshot.projections.lines import short
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.pairing import Edge, Pairs

__all__ = ["Act", "AuditProjection", "AuditState", "shape_audit"]


class Act(msgspec.Struct):
    """A line while it grows: what its entries say, and what ties an approval to the call that it is for.

    ``answer`` is the event id of the answer to a question, ``cause`` that of what led to the act.
    """

    line: AuditLine
    said: Said
    event: str
    cause: str | None
    answer: str | None = None


class AuditState(msgspec.Struct):
    """The acts of one correlation so far, those without an end by kind, and whose authority its run names."""

    correlation_id: str = ""
    first_position: int = 0
    last_position: int = 0
    cause: str | None = None
    late: str | None = None
    acts: list[Act] = []
    pairs: dict[str, Pairs] = {}
    principal: str | None = None
    principal_position: int | None = None
    erased: list[int] = []


@register
class AuditProjection:
    """Key: the correlation, also that of the ledger's own facts. A call and its result are one act."""

    name = "audit"
    version = 4
    correlated = True

    def key(self, entry: LedgerEntry) -> str | None:
        """The correlation."""
        return entry.correlation_id

    def initial(self) -> AuditState:
        """No act."""
        return AuditState()

    def apply(self, state: AuditState, entry: LedgerEntry) -> AuditState:
        """Append the entry's act, or complete the one that it ends."""
        return self.take_once(state, Once(entry))

    def take_once(self, state: AuditState, once: Once) -> AuditState:
        """As :meth:`apply`."""
        if not state.correlation_id:
            state.correlation_id = once.correlation_id
            state.first_position = once.position
            state.cause = once.causation_id if once.sequence == 1 else None
        elif state.cause is not None:
            take_late(state, once)
        state.last_position = once.position
        if once.erased:
            state.erased.append(once.position)
        said = read_mark(once.entry, once.payload)
        if said is None:
            return state
        act = _act(once, said)
        if said.kind in ("run", "workflow") and said.edge == "start":
            if said.kind == "run" and not ("run" in state.pairs and state.pairs["run"].open.held):
                for kind in ("tool", "service", "question"):
                    state.pairs.setdefault(kind, Pairs()).forget_waiting()
            named = act.line.principal or said.user
            if named is not None and (state.principal is None or said.kind == "run"):
                state.principal, state.principal_position = named, once.position
        number = len(state.acts)
        state.acts.append(act)
        if said.edge == "whole":
            return state
        pairs = state.pairs.setdefault(said.kind, Pairs())
        edge = Edge(number, said.id, said.name, once.event_id, _cause(said, once))
        if said.kind in ("run", "workflow") and edge.id is None and once.correlation_id in pairs.open.by_id:
            edge.id = once.correlation_id
        if said.edge == "start":
            match = pairs.start(edge)
            pair = (number, match[0].index) if match else None
        else:
            match = pairs.end(edge, lone=said.kind not in ("tool", "service"))
            pair = (match[0].index, number) if match else None
        if pair:
            _join(state, *pair)
        return state

    def result(self, state: AuditState) -> Audit:
        """The acts of this correlation alone."""
        return shape_audit(
            {state.correlation_id: state}, {state.correlation_id: Link("root")}, state.correlation_id
        )

    def start(self, state: AuditState) -> Start:
        """How this correlation began."""
        return Start(state.first_position, state.cause, state.late)

    def compose(
        self, states: Mapping[str, AuditState], links: Mapping[str, Link], correlation_id: str
    ) -> Audit:
        """The acts of a correlation and of its children, in order."""
        return shape_audit(states, links, correlation_id)


def _cause(said: Said, once: Once) -> str | None:
    """The event that an end may belong to."""
    return once.causation_id or (said.id if said.kind == "question" else None)


def _act(once: Once, said: Said) -> Act:
    kept = attributes_of(once.entry)
    principal = kept.get("principal")
    approver = kept.get("approver") or said.approver
    made = AuditLine(
        position=once.position,
        positions=(once.position,),
        correlation_id=once.correlation_id,
        at=once.at,
        kind=said.ask if said.kind == "question" and said.ask in ("approval", "edit") else said.kind,
        what=once.what,
        actor=kept.get("actor") or once.who,
        principal=principal,
        principal_position=None if principal is None else once.position,
        decision=said.decision,
        approver=approver,
        policy=kept.get("policy"),
        outcome=kept.get("outcome") or ("open" if said.edge == "start" else said.outcome),
        reason=short(kept.get("reason") or said.reason or "") or None,
        subjects=subjects_of(once.entry),
        erased=once.erased,
    )
    answer = once.event_id if said.kind == "question" and said.edge == "end" else None
    return Act(made, said, once.event_id, once.causation_id, answer)


def _join(state: AuditState, start: int, end: int) -> None:
    """Make one act of two; the later of them in the list becomes empty and is passed over."""
    first, last = state.acts[start], state.acts[end]
    begun, ended = first.line, last.line
    kept = min(start, end)
    outcome = ended.outcome
    if begun.outcome not in (None, "open") and outcome in (None, "ok", "unknown", "answered"):
        # What attributes say of the start stands where the end says nothing of its own.
        outcome = begun.outcome
    merged = msgspec.structs.replace(
        begun,
        position=min(begun.position, ended.position),
        positions=tuple(sorted({*begun.positions, *ended.positions})),
        principal=begun.principal or ended.principal,
        principal_position=begun.principal_position or ended.principal_position,
        decision=ended.decision,
        approver=ended.approver or begun.approver,
        policy=begun.policy or ended.policy,
        outcome=outcome,
        reason=ended.reason or begun.reason,
        subjects=tuple(dict.fromkeys([*begun.subjects, *ended.subjects])),
        erased=begun.erased or ended.erased,
    )
    state.acts[kept] = Act(merged, first.said, first.event, first.cause, last.answer)
    gone = max(start, end)
    state.acts[gone] = msgspec.structs.replace(
        state.acts[gone], line=msgspec.structs.replace(state.acts[gone].line, positions=())
    )


def shape_audit(
    states: Mapping[str, AuditState],
    links: Mapping[str, Link],
    correlation_id: str | None,
    ledger_facts: Sequence[AuditLine] = (),
) -> Audit:
    """The audit trail of some correlations; ``ledger_facts`` are lines to put among theirs."""
    depth = depths(links)
    authority: dict[str, tuple[str | None, int | None]] = {}
    for key in reversed(upwards(links)):
        state, above = states[key], links[key].parent
        own = state.principal, state.principal_position
        authority[key] = authority[above] if own[0] is None and above in authority else own
    lines = list(ledger_facts)
    for key, state in states.items():
        lines += [msgspec.structs.replace(one, depth=depth[key]) for one in _lines(state, authority[key])]
    lines.sort(key=lambda one: one.position)
    return Audit(
        correlation_id,
        max((state.last_position for state in states.values()), default=0),
        tuple(lines),
        tuple(sorted(position for state in states.values() for position in state.erased)),
    )


def _lines(state: AuditState, authority: tuple[str | None, int | None]) -> list[AuditLine]:
    approvals: dict[str, AuditLine] = {}
    for act in state.acts:
        if act.line.positions and act.said.kind == "question" and act.answer is not None:
            approvals[act.answer] = act.line
            if act.said.call_id is not None and act.line.kind in ("approval", "edit"):
                approvals[f"call {act.said.call_id}"] = act.line
    found = []
    for act in state.acts:
        one = act.line
        if not one.positions:
            continue
        if one.principal is None and authority[0] is not None and one.correlation_id != "ledger":
            one = msgspec.structs.replace(one, principal=authority[0], principal_position=authority[1])
        if act.said.kind in ("tool", "service"):
            approval = approvals.get(act.cause or "") or approvals.get(f"call {act.said.call_id}")
            if approval is not None:
                one = msgspec.structs.replace(
                    one,
                    decision=approval.decision,
                    approver=one.approver or approval.approver,
                    approval_position=approval.positions[-1],
                )
        found.append(one)
    return found
