"""What an entry says that an audit keeps: its kind, who, on whose authority, which end it is, and of what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events import facts
from chatsnapshot.events.catalogue import RUN_ENDS, RUN_STARTS, WORKFLOW_ENDS, WORKFLOW_STARTS
from chatsnapshot.events.fields import failed, first, ident, name_of, strings, text_of
from chatsnapshot.events.normaliser import (
    call_id_of,
    read_answer,
    read_call,
    read_evaluation,
    read_question,
    read_result,
    read_run,
    read_service,
)

__all__ = ["Said", "attributes_of", "read_mark"]

ATTRIBUTES = ("actor", "principal", "outcome", "reason", "policy", "approver", "subjects")

_KINDS = {
    **dict.fromkeys([*RUN_STARTS, *RUN_ENDS], "run"),
    **dict.fromkeys([*WORKFLOW_STARTS, *WORKFLOW_ENDS], "workflow"),
    "execution.tool_call": "tool",
    "execution.tool_result": "tool",
    "integration.call": "service",
    "integration.response": "service",
    "integration.api_triggered": "service",
    "execution.human_input_requested": "question",
    "execution.human_input_received": "question",
    "execution.guardrail": "guardrail",
    "execution.handoff": "handoff",
    "execution.evaluation": "evaluation",
    "ui.interaction": "interaction",
    "system.limit_reached": "limit",
    "ledger.payload_erased": "erasure",
    "ledger.gap": "gap",
    "ledger.rejected": "rejected",
    "ledger.clock_behind": "clock",
    "ledger.promoted": "promotion",
    "ledger.key_created": "access",
    "ledger.key_revoked": "access",
    "ledger.access_refused": "access",
    "ledger.entries_read": "access",
}
_STARTS = {
    *RUN_STARTS,
    *WORKFLOW_STARTS,
    "execution.tool_call",
    "integration.call",
    "execution.human_input_requested",
}
_ENDS = {
    **RUN_ENDS,
    **WORKFLOW_ENDS,
    "execution.tool_result": None,
    "integration.response": None,
    "execution.human_input_received": None,
}


class Said(msgspec.Struct):
    """What one entry says; ``edge``: ``start``, ``end`` or ``whole``, ``id`` and ``name`` find the other one.

    ``call_id`` is that of a tool call, and of the call that an approval is for. ``concerns`` are correlations that a fact
    of the ledger is about, ``erases`` positions.
    """

    kind: str
    edge: str
    id: str | None = None
    name: str | None = None
    ask: str | None = None
    call_id: str | None = None
    decision: str | None = None
    approver: str | None = None
    outcome: str | None = None
    reason: str | None = None
    user: str | None = None
    concerns: tuple[str, ...] = ()
    erases: tuple[int, ...] = ()


def attributes_of(entry: LedgerEntry) -> dict[str, str]:
    """The attributes that an audit is made of, as text; they outlive the payload."""
    if entry.attributes_json is None:
        return {}
    try:
        said = entry.attributes
        found = {key: said.get(key) for key in ATTRIBUTES}
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return {}
    return {key: ", ".join(strings(value)) for key, value in found.items() if value not in (None, [], "")}


def subjects_of(entry: LedgerEntry) -> tuple[str, ...]:
    """The subjects that an entry names."""
    try:
        return strings(entry.attributes.get("subjects")) if entry.attributes_json is not None else ()
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return ()


def read_mark(entry: LedgerEntry, payload: Mapping[str, Any]) -> Said | None:
    """What an entry says, ``None`` for one that is no act and whose attributes name none."""
    event_type = entry.event_type
    kind = _KINDS.get(event_type)
    if kind is None:
        return Said("fact", "whole") if attributes_of(entry) else None
    edge = "start" if event_type in _STARTS else "end" if event_type in _ENDS else "whole"
    said = Said(kind, edge)
    _READ[kind](said, entry, payload)
    if entry.erased and edge != "start" and said.outcome in ("ok", None):
        said.outcome = "unknown"
    return said


def _run(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    read = read_run(payload, f"{said.kind}_id")
    said.id, said.name = read.run_id, read.name
    if said.edge == "start":
        said.id = said.id or entry.correlation_id
        said.user = read.user
    else:
        said.outcome = _ENDS[entry.event_type]
    said.reason = read.error or read.reason


def _tool(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    if said.edge == "start":
        call = read_call(payload)
        said.id = said.call_id = call.call_id
        said.name = call.name
        return
    result = read_result(payload)
    said.id, said.name, said.reason = result.call_id, result.name, result.error
    said.outcome = "ok" if result.error is None else "failed"


def _service(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    service = read_service(payload)
    said.id, said.name, said.reason = service.call_id, service.name, service.error
    if said.edge != "start":
        said.outcome = "ok" if service.error is None else "failed"


def _question(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    if said.edge == "start":
        asked = read_question(payload)
        said.id, said.ask, said.call_id = asked.question_id, asked.kind, call_id_of(payload)
        return
    answer = read_answer(payload)
    said.id = answer.answers
    said.decision = answer.decision
    said.approver = name_of(first(payload, "user", "name")) or entry.source.name
    said.reason = text_of(payload.get("comment")) or None
    said.outcome = answer.decision or "answered"
    if entry.erased:
        said.outcome = "unknown"


def _guardrail(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    read = facts.read_guardrail(payload)
    said.outcome = read.outcome or read.action or ("failed" if read.error else None)
    said.reason = read.message or read.error
    said.name = read.name


def _handoff(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    said.reason = text_of(payload.get("reason")) or None


def _evaluation(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    read = read_evaluation(payload)
    said.outcome = read.label or (None if read.score is None else f"{read.score:.6g}")
    said.reason = read.comment


def _limit(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    said.outcome = text_of(payload.get("action")) or None
    said.reason = facts.read_limit(payload).message


def _plain(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    said.outcome = "failed" if failed(payload) else None


def _erasure(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    read = facts.read_erasure(payload)
    said.erases, said.reason = read.positions, read.reason


def _promotion(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    said.reason = facts.read_promotion(payload).reason


def _access(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    said.id = ident(payload.get("key_id"))
    said.name, said.user = text_of(payload.get("name")) or None, text_of(payload.get("by")) or None
    said.outcome = "refused" if entry.event_type == "ledger.access_refused" else None


def _lost(said: Said, entry: LedgerEntry, payload: Mapping[str, Any]) -> None:
    one = ident(payload.get("correlation_id"))
    said.concerns = strings(payload.get("correlations")) + (() if one is None else (one,))
    said.reason = text_of(first(payload, "reason", "error")) or None


_READ: dict[str, Callable[[Said, LedgerEntry, Mapping[str, Any]], None]] = {
    "run": _run,
    "workflow": _run,
    "tool": _tool,
    "service": _service,
    "question": _question,
    "guardrail": _guardrail,
    "handoff": _handoff,
    "evaluation": _evaluation,
    "interaction": _plain,
    "limit": _limit,
    "erasure": _erasure,
    "gap": _lost,
    "rejected": _lost,
    "clock": _plain,
    "promotion": _promotion,
    "access": _access,
}
