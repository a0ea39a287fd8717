"""What an earlier run of a conversation left open, when the conversation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chatsnapshot.adapters.ag2 import streamed
from chatsnapshot.adapters.ag2.run import Run

__all__ = ["Earlier", "Waiting", "left_by", "left_in", "result_of_nobody"]

_LOOKED_AT_MAX = 500
_BEGINNINGS = frozenset({"execution.run_started", "execution.run_resumed"})


class Waiting(NamedTuple):
    """A question without an answer that a tool call waits for."""

    question_id: str
    event: str
    """The event of the question."""
    run_id: str | None
    """The run that asked."""
    approval: bool = False


class Earlier(NamedTuple):
    """The end of the run before."""

    cause: str | None = None
    """What a resumed run follows from: the answer or the question that it waited for, else the last event."""
    calls: Mapping[str, str] = {}
    """Tool calls without a result: call id to the event of the call."""
    question: str | None = None
    """A question without an answer."""
    waiting: Mapping[str, Waiting] = {}
    """Open questions by the id of the tool call that asked them."""
    run_id: str | None = None
    """The run that left something open; ``None`` where nothing is."""


def left_by(run: Run, end: str) -> Earlier:
    """What a run that this process recorded left open; ``end`` is its last event."""
    calls = {call: event for call, event in run.calls.items() if call not in run.answered}
    question = next(reversed(run.questions.values()), None)
    waiting = {
        call: Waiting(asked, run.questions[asked], run.run_id, asked in run.approvals)
        for call, asked in run.asking.items()
        if asked in run.questions
    }
    return Earlier(question or end, calls, question, waiting, run.run_id if question or calls else None)


async def left_in(ledger: Any, correlation_id: str, seconds_max: float) -> Earlier | None:
    """The same from the ledger; ``None`` when it knows nothing of the conversation or does not answer."""
    try:
        return await asyncio.wait_for(_read(ledger, correlation_id), seconds_max)
    except Exception:
        return None


async def _read(ledger: Any, correlation_id: str) -> Earlier | None:
    last: str | None = None
    run_id: str | None = None
    answer: str | None = None
    question: str | None = None
    answered: set[str | None] = set()
    calls: dict[str, str] = {}
    asked: dict[str | None, Waiting] = {}
    async for entry in ledger.aread(correlation_id=correlation_id, reverse=True, limit=_LOOKED_AT_MAX):
        last = last or entry.event_id
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        kind = entry.event_type
        if run_id is None and isinstance(payload.get("run_id"), str):
            run_id = payload["run_id"]
        if kind == "execution.tool_result":
            answered.add(payload.get("call_id"))
            if entry.causation_id:
                answered.add(entry.causation_id)
        elif kind == "execution.human_input_received":
            answered.add(payload.get("answers"))
            answered.add(entry.causation_id)
            answer = answer or entry.event_id
        elif kind == "execution.human_input_requested":
            if not answered.intersection({payload.get("question_id"), entry.event_id}):
                question = question or entry.event_id
                asked.setdefault(entry.causation_id, _waiting(entry, payload))
        elif kind == "execution.tool_call":
            call_id = payload.get("call_id")
            if isinstance(call_id, str) and call_id not in answered:
                calls.setdefault(call_id, entry.event_id)
        elif kind in _BEGINNINGS:
            break
    if last is None:
        return None
    # An answer counts as the cause while the tool that asked for it has no result.
    waiting = {call: asked[event] for call, event in calls.items() if event in asked}
    cause = question or (answer if calls else None) or last
    return Earlier(cause, calls, question, waiting, run_id if question or calls else None)


def _waiting(entry: Any, payload: Mapping[str, Any]) -> Waiting:
    question_id = str(payload.get("question_id") or "")
    return Waiting(question_id, entry.event_id, payload.get("run_id"), payload.get("kind") == "approval")


def result_of_nobody(history: Iterable[Any], calls: Mapping[str, str]) -> list[Any]:
    """The results of open calls that stand in a history although no event of the stream showed them.

    AG2 closes the calls of a stopped turn in its history, without an event (``close_unanswered_tool_calls``).
    """
    return [
        result
        for event in history
        if "ToolResultsEvent" in streamed.kinds(event)
        for result in event.results
        if result.parent_id in calls
    ]
