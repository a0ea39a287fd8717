"""What the last run of a conversation left open, as the ledger has it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from chatsnapshot.adapters.looking import looked
from chatsnapshot.adapters.observed import Earlier

__all__ = ["aleft_in", "left_in"]

_LOOKED_AT_MAX = 500
_BEGINNING = "execution.run_started"
"""A run that was resumed may leave open what the one before it left open, so a resumption is no beginning."""


def left_in(ledger: Any, correlation_id: str, seconds_max: float, agent: str | None = None) -> Earlier | None:
    """What is open in a conversation; ``None`` when the ledger does not know it or gives no answer in that time.

    Where the last run is not one of ``agent``, it is what the last one of that agent waits for, if it does.
    """

    def look() -> Earlier | None:
        entries = ledger.read(correlation_id=correlation_id, reverse=True, limit=_LOOKED_AT_MAX)
        return _of_agent(entries, agent)

    return looked(seconds_max, look)


async def aleft_in(ledger: Any, correlation_id: str, seconds_max: float) -> Earlier | None:
    """As :func:`left_in`, without blocking the event loop."""
    try:
        return await asyncio.wait_for(_read(ledger, correlation_id), seconds_max)
    except Exception:
        return None


async def _read(ledger: Any, correlation_id: str) -> Earlier | None:
    entries: list[Any] = []
    async for entry in ledger.aread(correlation_id=correlation_id, reverse=True, limit=_LOOKED_AT_MAX):
        entries.append(entry)
        if entry.event_type == _BEGINNING:
            break
    return _fold(entries)


def _of_agent(newest_first: Iterable[Any], agent: str | None) -> Earlier | None:
    seen: list[Any] = []
    entries = iter(newest_first)

    def kept() -> Iterator[Any]:
        for entry in entries:
            seen.append(entry)
            yield entry

    last = _fold(kept())
    if last is None or agent is None:
        return last
    seen.extend(entries)
    begun = next(
        (one for one in seen if one.event_type == _BEGINNING and _facts(one).get("name") == agent), None
    )
    run_id = None if begun is None else _facts(begun).get("run_id")
    if run_id is None or run_id == last.run_id:
        return last
    own = _fold(one for one in seen if _facts(one).get("run_id") == run_id)
    return own if own is not None and own.questions else last


def _facts(entry: Any) -> Any:
    return entry.payload if isinstance(entry.payload, dict) else {}


def _fold(newest_first: Iterable[Any]) -> Earlier | None:
    last: str | None = None
    run_id: str | None = None
    answer: str | None = None
    answered: set[Any] = set()
    calls: dict[str, str] = {}
    names: dict[str, str] = {}
    questions: dict[str, str] = {}
    for entry in newest_first:
        last = last or entry.event_id
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        kind = entry.event_type
        if run_id is None and isinstance(payload.get("run_id"), str):
            run_id = payload["run_id"]
        if kind == "execution.tool_result":
            answered.update((payload.get("call_id"), entry.causation_id))
        elif kind == "execution.human_input_received":
            answered.update((payload.get("answers"), entry.causation_id))
            answer = answer or entry.event_id
        elif kind == "execution.human_input_requested":
            asked = payload.get("question_id") or entry.event_id
            if not answered.intersection({asked, entry.event_id}):
                questions.setdefault(str(asked), entry.event_id)
        elif kind == "execution.tool_call":
            call_id = payload.get("call_id")
            if isinstance(call_id, str) and not answered.intersection({call_id, entry.event_id}):
                calls.setdefault(call_id, entry.event_id)
                if isinstance(payload.get("name"), str):
                    names.setdefault(call_id, payload["name"])
        elif kind == _BEGINNING:
            break
    if last is None:
        return None
    # The order of asking, as a run keeps them.
    open_questions = dict(reversed(questions.items()))
    question = next(reversed(open_questions.values()), None) if open_questions else None
    # An answer counts as the cause while the tool that asked for it has no result.
    cause = question or (answer if calls else None) or last
    return Earlier(cause, dict(reversed(calls.items())), open_questions, run_id, names)
