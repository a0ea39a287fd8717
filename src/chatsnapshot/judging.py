"""What is said about a run afterwards: evaluations of runs and events, and the end of one whose process died."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from chatsnapshot.clock import uuid_bytes
from chatsnapshot.envelope import EventEnvelope, LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound, SequenceConflict
from chatsnapshot.events.catalogue import RUN_ENDS, RUN_STARTS, WORKFLOW_ENDS, WORKFLOW_STARTS
from chatsnapshot.events.fields import payload_of
from chatsnapshot.events.normaliser import read_run
from chatsnapshot.fields import correlation_text
from chatsnapshot.pending import Pending
from chatsnapshot.run import Run

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["KINDS", "STATUSES", "end", "evaluation"]

KINDS = ("human", "model", "code")
"""Who evaluates."""

STATUSES = ("cancelled", "failed", "completed", "paused")
"""How a run may be ended from outside."""

_LIFECYCLE = [*RUN_STARTS, *RUN_ENDS, *WORKFLOW_STARTS, *WORKFLOW_ENDS]
_SYSTEM = {"origin": "system", "runtime": "none"}

Recording = tuple[str, dict[str, Any], dict[str, Any]]
"""Event type, payload, and options of ``record``."""


def evaluation(
    ledger: Ledger,
    target: object,
    name: str,
    score: object,
    label: object,
    facts: dict[str, Any],
    options: dict[str, Any],
) -> Recording:
    """The event that says how well a run or an event did; it stands in the target's correlation."""
    if not isinstance(name, str) or not name:
        raise InvalidEvent("an evaluation has a name: what is judged, such as correctness", path="name")
    if score is None and label is None:
        raise InvalidEvent("an evaluation has a score or a label", path="score")
    if score is not None and (
        isinstance(score, str) or (isinstance(score, float) and not math.isfinite(score))
    ):
        raise InvalidEvent(f"score is a finite number, not {score!r:.80}; a word is a label", path="score")
    if label is not None and not isinstance(label, str):
        raise InvalidEvent(f"label is text, not {type(label).__name__}; a number is a score", path="label")
    if facts.get("kind") not in (None, *KINDS):
        raise InvalidEvent(f"kind is one of {', '.join(KINDS)}, not {facts['kind']!r:.80}", path="kind")
    known = {"name": name, "score": score, "label": label, **facts}
    payload = {key: value for key, value in known.items() if value is not None}
    entry = _event(ledger, target)
    if entry is not None:
        correlation = entry.correlation_id
        payload = {"target_event_id": entry.event_id, **_run_around(ledger, entry), **payload}
        cause: object = entry
    else:
        correlation, run_id, cause = _run(ledger, target, options.pop("correlation_id", None))
        payload = {"run_id": run_id, **payload}
    return "execution.evaluation", payload, {"correlation_id": correlation, "causation_id": cause, **options}


def _event(ledger: Ledger, target: object) -> LedgerEntry | None:
    """The entry that is judged; ``None`` when the target names a run."""
    if isinstance(target, LedgerEntry):
        return target
    if isinstance(target, Run):
        return None
    if isinstance(target, (EventEnvelope, Pending)):
        return ledger.get(target)
    try:
        uuid_bytes(target)
    except InvalidEvent:
        return None
    try:
        return ledger.get(target)
    except NotFound:
        return None


def _run_around(ledger: Ledger, entry: LedgerEntry) -> dict[str, str]:
    """The id of the run that an entry belongs to, where it is not the correlation's own."""
    named = payload_of(entry).get("run_id")
    if isinstance(named, str):
        return {"run_id": named}
    before = ledger.read(
        correlation_id=entry.correlation_id,
        event_type=list(RUN_STARTS),
        until=entry.position,
        limit=1,
        reverse=True,
    )
    for start in before:
        run_id = read_run(payload_of(start)).run_id
        if run_id is not None:
            return {"run_id": run_id}
    return {}


def _run(ledger: Ledger, target: object, correlation_id: object) -> tuple[str, str, LedgerEntry]:
    """Correlation, id and start (else first event) of the run that is judged: the same at every time."""
    if isinstance(target, Run):
        correlation_id, target = target.correlation_id, target.run_id
    run_id = correlation_text(target, ledger.limits)
    correlation = run_id if correlation_id is None else correlation_text(correlation_id, ledger.limits)
    for entry in ledger.read(correlation_id=correlation, event_type=list(RUN_STARTS)):
        if (read_run(payload_of(entry)).run_id or correlation) == run_id:
            return correlation, run_id, entry
    for entry in ledger.read(correlation_id=correlation, limit=1):
        return correlation, run_id, entry
    raise NotFound(
        f"there is no event and no run {run_id!r} in {ledger.url}; name a run inside of another correlation "
        "with correlation_id, or list what there is with runs"
    )


def end(ledger: Ledger, run: object, status: str, reason: str | None, correlation_id: object) -> LedgerEntry:
    """End a run that was begun and not ended; see :meth:`chatsnapshot.Ledger.end`."""
    recording, sequence = _ending(ledger, run, status, reason, correlation_id)
    event_type, payload, options = recording
    try:
        return ledger.record(event_type, payload, expected_sequence=sequence, wait=True, **options)
    except SequenceConflict as error:
        raise InvalidEvent(
            f"run {run!r} goes on: something was recorded in it meanwhile ({error}); look again before ending it"
        ) from None


def _ending(
    ledger: Ledger, run: object, status: str, reason: str | None, correlation_id: object
) -> tuple[Recording, int]:
    """The end event, and the sequence at which its correlation must still be."""
    if status not in STATUSES:
        raise InvalidEvent(f"status is one of {', '.join(STATUSES)}, not {status!r:.80}", path="status")
    run_id = correlation_text(run, ledger.limits)
    correlation = run_id if correlation_id is None else correlation_text(correlation_id, ledger.limits)
    sequence = ledger._store.last_sequence(correlation)
    start: LedgerEntry | None = None
    end: LedgerEntry | None = None
    workflow = False
    for entry in ledger.read(correlation_id=correlation, event_type=_LIFECYCLE):
        of_workflow = entry.event_type in WORKFLOW_STARTS or entry.event_type in WORKFLOW_ENDS
        named = read_run(payload_of(entry), "workflow_id" if of_workflow else "run_id").run_id
        if (named or correlation) != run_id:
            continue
        if entry.event_type in RUN_STARTS or entry.event_type in WORKFLOW_STARTS:
            start, end, workflow = entry, None, of_workflow
        elif start is None or of_workflow == workflow:
            end = entry
    if end is not None and not (end.event_type.endswith("_paused") and status != "paused"):
        raise InvalidEvent(
            f"run {run_id!r} has ended with {end.event_type} at position {end.position}; a run has exactly one end"
        )
    if start is None:
        raise NotFound(f"no run {run_id!r} was begun in {ledger.url}; list what there is with runs")
    payload: dict[str, Any] = {}
    if run_id != correlation or workflow:
        payload["workflow_id" if workflow else "run_id"] = run_id
    if reason is not None:
        payload["reason"] = reason
    if status == "failed":
        payload["error"] = {"message": reason or "ended from outside"}
    event_type = f"system.workflow_{status}" if workflow else f"execution.run_{status}"
    options = {"correlation_id": correlation, "causation_id": start, "source": _SYSTEM}
    return (event_type, payload, options), sequence
