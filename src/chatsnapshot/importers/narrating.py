"""One run as a transcript tells it: its events with their causes, the turns it goes through, its calls and questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chatsnapshot.importers.base import Piece, event_id
from chatsnapshot.importers.transcripts import Line

__all__ = ["Called", "Narration"]

LAST: Any = object()
"""The event before, as a cause."""


class Called(NamedTuple):
    """A tool call that was told: its event, the tool, and the event that asks a person, where it does."""

    event_id: str
    name: str | None
    question: str | None = None


class Narration:
    """Makes the events of one run. ``namespace`` is the program, ``agent`` who acts in it.

    ``last`` is the event that the next one follows from where nothing else is told, ``turn`` counts the turns, ``open``
    says whether one is under way, ``calls`` are tool calls by their ids, ``unanswered`` those without a result.
    ``first_holds`` is that of its pieces.
    """

    def __init__(
        self,
        namespace: str,
        correlation: str,
        agent: str,
        *,
        cause: str | None = None,
        first_holds: bool = False,
    ) -> None:
        self.namespace = namespace
        self.correlation = correlation
        self.agent = agent
        self.last = cause
        self.last_at: str | None = None
        self.first_holds = first_holds
        self.started = False
        self.name: str | None = None
        self.turn = 0
        self.open = False
        self.calls: dict[str, Called] = {}
        self.unanswered: dict[str, None] = {}

    def id_of(self, key: str) -> str:
        """The id of the event with that key; keys are unique in all files of the program."""
        return event_id(self.namespace, key)

    def piece(
        self,
        line: Line,
        event_type: str,
        key: str,
        payload: Mapping[str, Any],
        *,
        cause: str | None = LAST,
        origin: str = "agent",
        name: str | None = None,
        links: Sequence[str] = (),
        native: Mapping[str, Any] | None = None,
        at: str | None = LAST,
        aside: bool = False,
        first_holds: bool = False,
    ) -> Piece:
        """An event; members of the payload that are ``None`` are left out. ``aside``: nothing follows from it."""
        moment = line.at if at is LAST else at
        filled = {member: value for member, value in payload.items() if value is not None}
        more = {member: value for member, value in (native or {}).items() if value is not None}
        if moment is None:
            more["time"] = "unknown"
        if more:
            filled["native"] = more
        source = {"origin": origin, "runtime": self.namespace}
        speaker = self.agent if origin == "agent" and name is None else name
        if speaker is not None:
            source["name"] = speaker
        event: dict[str, Any] = {
            "event_type": event_type,
            "event_id": self.id_of(key),
            "correlation_id": self.correlation,
            "causation_id": self.last if cause is LAST else cause,
            "source": source,
            "payload": filled,
        }
        if moment is not None:
            event["timestamp"] = moment
        if links:
            event["attributes"] = {"links": list(links)}
        if not aside:
            self.last, self.last_at = event["event_id"], moment
        return Piece(line.offset, event, self.first_holds or first_holds)

    def starts(
        self, line: Line, payload: Mapping[str, Any], native: Mapping[str, Any], at: str | None = LAST
    ) -> Piece:
        """The run's first event, which begins its first turn when that comes."""
        self.started = True
        self.name = payload.get("name")
        return self.piece(
            line,
            "execution.run_started",
            f"{self.correlation} start",
            payload,
            origin="system",
            native=native,
            at=at,
            first_holds=True,  # of a file that lost its beginning the start says something else
        )

    def turns(
        self, line: Line, key: str, *, reason: str = "a new turn", cause: str | None = LAST
    ) -> list[Piece]:
        """A turn begins: the run goes on, except for its first turn, which its start began."""
        found = self.ends(line) if self.open else []
        self.turn += 1
        self.open = True
        if self.turn > 1:
            payload = {"name": self.name, "reason": reason}
            found.append(
                self.piece(
                    line, "execution.run_resumed", f"{key} turn", payload, cause=cause, origin="system"
                )
            )
        return found

    def ends(self, line: Line, status: str = "completed", **payload: Any) -> list[Piece]:
        """The turn is over: an end that follows from what was told so far alone, however it is noticed."""
        if not self.open:
            return []
        self.open = False
        self.unanswered.clear()
        key = f"{self.correlation} {status} after {self.last}"
        return [
            self.piece(
                line, f"execution.run_{status}", key, payload, origin="system", at=self.last_at, aside=True
            )
        ]

    def calls_tool(
        self,
        line: Line,
        key: str,
        call_id: str,
        name: str | None,
        arguments: Any,
        cause: str | None,
        native: Mapping[str, Any],
    ) -> Piece:
        """A tool call."""
        payload = {"name": name or "unknown", "call_id": call_id, "arguments": arguments}
        found = self.piece(line, "execution.tool_call", key, payload, cause=cause, native=native)
        self.calls[call_id] = Called(self.id_of(key), name)
        self.unanswered[call_id] = None
        return found

    def answers_tool(
        self,
        line: Line,
        key: str,
        call_id: str | None,
        result: Any,
        error: str | None,
        cause: str | None,
        native: Mapping[str, Any],
    ) -> Piece:
        """A tool's result; its cause is its call where that was told, else ``cause``."""
        call = self.calls.get(call_id or "")
        self.unanswered.pop(call_id or "", None)
        payload = {
            "name": None if call is None else call.name,
            "call_id": call_id,
            "result": "" if result is None else result,
            "is_error": True if error is not None else None,
            "error": error,
        }
        known = cause if call is None else call.event_id
        return self.piece(
            line, "execution.tool_result", key, payload, cause=known, origin="agent", native=native
        )

    def asks(self, line: Line, key: str, call_id: str, payload: Mapping[str, Any]) -> Piece:
        """A question that a tool call puts to a person."""
        call = self.calls[call_id]
        asked = {"question_id": call_id, "call_id": call_id, **payload}
        found = self.piece(
            line, "execution.human_input_requested", key, asked, cause=call.event_id, aside=True
        )
        self.calls[call_id] = call._replace(question=self.id_of(key))
        return found

    def answered(self, line: Line, key: str, call_id: str, payload: Mapping[str, Any]) -> Piece:
        """A person's answer to the question of a tool call."""
        question = self.calls[call_id].question
        given = {"answers": call_id, **payload}
        return self.piece(
            line, "execution.human_input_received", key, given, cause=question, origin="ui", aside=True
        )
