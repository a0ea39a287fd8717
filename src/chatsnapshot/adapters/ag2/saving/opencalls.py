"""Tool calls that a talk was stopped in: which ones are open, and what the record holds of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.playback import RecordedFailure, recorded

__all__ = ["Answer", "OpenCall", "Results", "only", "open_calls", "tool_message", "unanswered"]


@dataclass(frozen=True)
class OpenCall:
    """A tool call without a result."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """What a tool gave, or the error that it failed with."""

    value: Any
    failure: RecordedFailure | None = None


class Results:
    """Where recorded results are looked for: what the caller gave, then the ledgers.

    ``given`` is a mapping from call id to result, a ledger, a pair of ledger and correlation, or a list of these. A
    ledger without a correlation is searched in the correlations named here: call ids repeat between runs.
    """

    def __init__(self, given: Any, own: Ledger | None, correlations: list[str]) -> None:
        self.explicit: dict[str, Any] = {}
        places = [(own, name) for name in correlations] if own is not None else []
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, Mapping):
                self.explicit.update({str(key): value for key, value in one.items()})
            elif isinstance(one, Ledger):
                places += [(one, name) for name in correlations]
            elif isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Ledger):
                places.append((one[0], str(one[1])))
            elif one is not None:
                raise InvalidEvent(
                    "results is a mapping from call id to result, a ledger, a pair of ledger and correlation, or a "
                    f"list of those, not {type(one).__name__}",
                    path="results",
                )
        self._places = list(dict.fromkeys(places))

    def find(self, call_id: str) -> Answer | None:
        """The result of a call, or ``None`` when nothing is recorded of it."""
        if not call_id:
            return None  # legacy function calls carry no id
        if call_id in self.explicit:
            return Answer(self.explicit[call_id])
        for ledger, correlation in self._places:
            try:
                return Answer(recorded(ledger, call_id, correlation))
            except RecordedFailure as failure:
                return Answer(None, failure)
            except NotFound:
                continue
        return None


def open_calls(messages: list[dict[str, Any]]) -> list[OpenCall]:
    """The calls of the last message that asks for tools, when nothing came after it."""
    if not messages or not messages[-1].get("tool_calls"):
        return []
    return [
        OpenCall(
            str(call.get("id") or ""),
            str((call.get("function") or {}).get("name") or ""),
            str((call.get("function") or {}).get("arguments") or ""),
        )
        for call in messages[-1]["tool_calls"]
    ]


def unanswered(calls: Sequence[OpenCall], results: Results) -> list[OpenCall]:
    """The calls whose results are on no record."""
    return [call for call in calls if results.find(call.call_id) is None]


def only(message: Mapping[str, Any], calls: Sequence[OpenCall]) -> dict[str, Any]:
    """A message that asks for tools, with these calls alone."""
    ids = {call.call_id for call in calls}
    return {**message, "tool_calls": [call for call in message["tool_calls"] if call.get("id") in ids]}


def tool_message(
    calls: Sequence[OpenCall], results: Results, author: str, made: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The message that answers these calls: recorded results, and those of the tool message ``made`` just now."""
    executed = {one.get("tool_call_id"): one for one in (made or {}).get("tool_responses", ())}
    responses = []
    for call in calls:
        answer = results.find(call.call_id)
        responses.append(
            executed.get(call.call_id)
            if answer is None
            else {"tool_call_id": call.call_id, "role": "tool", "content": _content(answer)}
        )
    told = [one for one in responses if one is not None]
    content = "\n\n".join(str(one["content"]) for one in told)
    return {"content": content, "tool_responses": told, "role": "tool", "name": author}


def _content(answer: Answer) -> str:
    """A result as the classic line gives it to the model."""
    if answer.failure is not None:
        return f"Error: {answer.failure.message or answer.failure.type}"
    return answer.value if isinstance(answer.value, str) else str(answer.value)
