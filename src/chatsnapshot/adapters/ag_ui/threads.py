"""What is known of a thread of AG-UI: its messages, tool calls and questions, which later runs come back to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.looking import looked
from chatsnapshot.adapters.observed import Earlier, ObservedRun

__all__ = ["Thread"]

_MESSAGES = ("execution.message", "execution.tool_result")
_LOOKED_AT_MAX = 500
_LOOK_SECONDS_MAX = 0.25


class Thread:
    """Ids of the protocol to the events that tell of them; nothing is forgotten when it is answered."""

    def __init__(self) -> None:
        self.calls: dict[str, str] = {}
        self.names: dict[str, str] = {}
        """Tool call to the name of the tool."""
        self.questions: dict[str, str] = {}
        self.askers: dict[str, str] = {}
        """Question to the run that asked it: the one that goes on with the answer."""
        self.messages: dict[str, str] = {}
        """Message to the event that tells of it."""

    def earlier(self) -> Earlier:
        """The same, as a run that goes on takes it."""
        return Earlier(calls=dict(self.calls), names=dict(self.names), questions=dict(self.questions))

    def goes_on(self, resume: Any) -> str | None:
        """The run that goes on with these answers: the one that asked."""
        for entry in resume if isinstance(resume, list) else ():
            if isinstance(entry, dict) and (asker := self.askers.get(str(entry.get("interruptId")))):
                return asker
        return None

    def learn(self, run: ObservedRun) -> None:
        """What a run has told."""
        self.calls.update(run.calls)
        self.names.update(run.names)
        for question_id, event_id in run.questions.items():
            if self.questions.setdefault(question_id, event_id) == event_id:
                self.askers.setdefault(question_id, run.run_id)

    def look(self, ledger: Any, thread_id: str, note: Callable[[BaseException], None]) -> None:
        """What the ledger has of it; a ledger that does not answer soon has nothing."""

        def read() -> list[Any]:
            return list(ledger.read(correlation_id=thread_id, reverse=True, limit=_LOOKED_AT_MAX))

        for entry in reversed(looked(_LOOK_SECONDS_MAX, read, note) or ()):
            self._take(entry)

    def _take(self, entry: Any) -> None:
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        if entry.event_type == "execution.tool_call" and payload.get("call_id"):
            self.calls[str(payload["call_id"])] = entry.event_id
            self.names[str(payload["call_id"])] = str(payload.get("name"))
        elif entry.event_type == "execution.human_input_requested" and payload.get("question_id"):
            self.questions[str(payload["question_id"])] = entry.event_id
            self.askers[str(payload["question_id"])] = str(payload.get("run_id"))
        elif entry.event_type in _MESSAGES and payload.get("message_id"):
            self.messages.setdefault(str(payload["message_id"]), entry.event_id)
