"""One run of the classic line as it is being recorded: its ids, and which event is the cause of the next."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chatsnapshot.adapters.ag2.events import map_event, normalize
from chatsnapshot.adapters.ag2.run import Parent
from chatsnapshot.adapters.plain import describe_error, header_text
from chatsnapshot.adapters.policy import Event, new_event

__all__ = ["ClassicRun", "about", "derived_id"]

_EXECUTOR = "_Group_Tool_Executor"
"""AG2's own agent that runs the tools of a group: no speaker that work is handed to."""

_FROM_A_TOOL = frozenset({"reply_result_transition", "on_condition_l_l_m_transition"})
_TRANSITIONS = _FROM_A_TOOL | {"after_works_transition", "on_context_condition_transition"}
_MESSAGES = frozenset({"text", "tool_call", "function_call", "tool_response", "function_response"})


class ClassicRun:
    """A run between its first and its last event.

    Causes: a tool result's is its call, a call's the message that asked for it, a tool's response its result,
    an answer's its question, a handoff's the tool call or message that made it; otherwise the event before it
    in this run. Ids: that of AG2's event (``content.uuid``), or one derived from it, so that the same events
    give the same ids. Payloads are those of :func:`normalize`, with ``run_id`` where the run does not carry
    the name of its correlation.
    """

    def __init__(
        self,
        *,
        ledger: Any,
        correlation_id: str,
        agents: Sequence[str] = (),
        run_id: str | None = None,
        name: str | None = None,
        parent: Parent | None = None,
        dated: bool = True,
    ) -> None:
        self.ledger = ledger
        self.correlation_id = correlation_id
        self.run_id = run_id or correlation_id
        self.agents = list(agents)
        self.agent = name or _together(self.agents)
        self._named = name is not None
        self.parent = parent
        self.begun = False
        self.ended = False
        self.last: str | None = None
        """The event that the next one follows: the last of this run, or the end of a chat inside it."""
        self.own: str | None = None
        """The last event of this run itself."""
        self.said: Any = None
        """The text that was said last."""
        self.calls: dict[str, str] = {}
        """Tool call id, or tool name where there is none, to the event of the call."""
        self._asked: dict[str, str] = {}
        """The same to the message that asked for the call."""
        self._results: dict[str, str] = {}
        self._message: str | None = None
        self._call: str | None = None
        self._speaker: str | None = None
        self._handed_on = False
        self._continues: str | None = None
        self._again: tuple[str, Any] | None = None
        self._dated = dated

    def goes_on(
        self,
        cause: str,
        *,
        message: str,
        asked: Sequence[str],
        results: Mapping[str, str],
        again: tuple[str, Any] | None,
    ) -> None:
        """Take over from the record of a process that was killed.

        ``cause`` is what the resumed run follows from, ``message`` the event of the last message, ``asked`` the ids of
        its tool calls, ``results`` the events of their results. ``again`` is sender and content of that message where
        AG2 will send it once more: it is on record already.
        """
        self._continues, self._message, self._again = cause, message, again
        self._asked = dict.fromkeys(asked, message)
        self._results = dict(results)

    # --- beginning and end --------------------------------------------------------------------------------

    def opened(
        self, first: Any, *, at: str | None = None, cause: str | None = None, version: str | None = None
    ) -> Event:
        """The first event of the run, which began ``at`` that time; ``first`` is AG2's own first event."""
        self.begun, self.ended = True, False
        if not self.agents and getattr(first, "type", None) in _MESSAGES:
            self.agents = [str(first.content.sender), str(first.content.recipient)]
            self.agent = self.agent if self._named else _together(self.agents)
        payload = {"name": self.agent, "agents": self.agents, "runtime_version": version}
        if self.parent is not None and self.parent.run_id:
            payload["parent_run_id"] = self.parent.run_id
        event_type, event_id = "execution.run_started", derived_id(first, f"start of {self.run_id}")
        if getattr(first, "type", None) == "group_chat_resume":
            event_type, event_id = map_event(first), derived_id(first)
            payload |= normalize(first)
        if self._continues is not None:
            event_type = "execution.run_resumed"
        made = self.event(event_type, {key: value for key, value in payload.items() if value}, event_id)
        made["causation_id"] = self._continues or cause or (self.parent.cause if self.parent else None)
        if at is not None and self._dated:
            made["timestamp"] = at
        return made

    def went_on(self, first: Any) -> Event:
        """A run that was taken for ended shows another event: AG2 went on with it."""
        self.ended = False
        payload = {"name": self.agent, "reason": "the runtime went on"}
        return self.event("execution.run_resumed", payload, derived_id(first, f"{self.run_id} goes on"))

    def completed(self, payload: Mapping[str, Any], event_id: str | None = None) -> Event:
        """The end of a run that AG2 has no event for."""
        return self._end("execution.run_completed", {"status": "ok", **payload}, event_id)

    def ended_by(self, error: BaseException | Mapping[str, Any], event_id: str | None = None) -> Event:
        """The end of a run that raised: failed, or cancelled when it was stopped from outside."""
        if isinstance(error, Mapping):
            return self._end("execution.run_failed", {"error": dict(error)}, event_id)
        if isinstance(error, Exception):
            return self._end("execution.run_failed", {"error": describe_error(error)}, event_id)
        return self._end("execution.run_cancelled", {"reason": type(error).__name__}, event_id)

    def _end(self, event_type: str, payload: Mapping[str, Any], event_id: str | None) -> Event:
        self.ended = True
        return self.event(event_type, {key: value for key, value in payload.items() if value}, event_id)

    # --- between ------------------------------------------------------------------------------------------

    def seen(self, event: Any, *, inside: str | None = None) -> list[Event]:
        """What to record for an event of AG2; ``inside`` is the tool call in which it happened."""
        kind = event.type
        if self._again is not None and kind in _MESSAGES:
            known, self._again = self._again, None
            if known == (event.content.sender, event.content.content):
                return []
        payload = normalize(event)
        cause, links = self._cause(event, payload, inside)
        made = self.event(map_event(event), payload, derived_id(event), cause=cause, by=about(event, payload))
        if links:
            made["attributes"] = {"links": links}
        self._learn(event, payload, made["event_id"])
        more = self._speaks(event, payload) if kind == "group_chat_run_chat" else None
        return [made, more] if more else [made]

    def answered(self, question: str, answer: Any, *, secret: bool) -> Event:
        """What a person answered, also when it is empty; a password is not told."""
        payload = {"answers": question, "answer": answer}
        if secret:
            payload = {"answers": question, "answer": None, "secret": True}
        event_id = str(uuid.uuid5(uuid.UUID(question), "answer"))
        return self.event("execution.human_input_received", payload, event_id, cause=question)

    def event(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        event_id: str | None = None,
        *,
        cause: str | None = None,
        by: str | None = None,
    ) -> Event:
        """An event of this run; it becomes the run's last."""
        own = {} if self.run_id == self.correlation_id else {"run_id": self.run_id}
        made = new_event(
            event_type,
            {**own, **payload},
            correlation_id=self.correlation_id,
            causation_id=cause if cause is not None else self.last,
            source={"origin": "agent", "runtime": "ag2", "name": header_text(by) if by else None},
        )
        if event_id is not None:
            made["event_id"] = event_id
        if not self._dated:
            made["timestamp"] = None
        self.last = self.own = made["event_id"]
        return made

    def variables(self, event: Any, data: Mapping[str, Any]) -> Event:
        """The context variables that the agents share, where ``event`` shows them changed."""
        payload = {"name": "context_variables", "variables": data}
        return self.event("execution.state_change", payload, derived_id(event, "context variables"))

    def _cause(
        self, event: Any, payload: Mapping[str, Any], inside: str | None
    ) -> tuple[str | None, list[str]]:
        kind = event.type
        if kind == "execute_function":
            return self._asked.get(_call_key(event)), []
        if kind == "executed_function":
            key = _call_key(event)
            return self.calls.get(key) or self._asked.get(key), []
        if kind in ("tool_response", "function_response"):
            known = [self._results[key] for key in _answered_keys(event) if key in self._results]
            return (known[-1], known[:-1]) if known else (None, [])
        if kind in _FROM_A_TOOL:
            return self._call, []
        if kind in _TRANSITIONS:
            return self._message, []
        return inside, []

    def _learn(self, event: Any, payload: Mapping[str, Any], event_id: str) -> None:
        kind = event.type
        learn = _LEARNT.get(kind)
        if learn is not None:
            learn(self, event, event_id)
        if kind in _MESSAGES:
            self._message = event_id
        if kind == "text":
            self.said = event.content.content
        elif kind in _TRANSITIONS:
            self._handed_on = True
        elif kind in ("run_completion", "error"):
            self.ended = True

    def _asks(self, event: Any, event_id: str) -> None:
        for call in event.content.tool_calls or ():
            self._asked[call.id or call.function.name] = event_id

    def _asks_plainly(self, event: Any, event_id: str) -> None:
        self._asked[event.content.function_call.name] = event_id

    def _called(self, event: Any, event_id: str) -> None:
        self.calls[_call_key(event)] = self._call = event_id

    def _executed(self, event: Any, event_id: str) -> None:
        key = _call_key(event)
        self._results[key] = event_id
        self._call = self.calls.get(key, event_id)

    def _speaks(self, event: Any, payload: Mapping[str, Any]) -> Event | None:
        """A handoff where another agent gets the word and no transition said so."""
        speaker = payload.get("speaker")
        if not isinstance(speaker, str) or speaker.startswith(_EXECUTOR):
            return None
        before, self._speaker = self._speaker, speaker
        handed_on, self._handed_on = self._handed_on, False
        if before in (None, speaker) or handed_on:
            return None
        payload = {"from": before, "to": speaker, "kind": "next_speaker"}
        event_id = derived_id(event, "handoff")
        return self.event("execution.handoff", payload, event_id, cause=self._message, by=before)


_LEARNT: dict[str, Callable[[ClassicRun, Any, str], None]] = {
    "tool_call": ClassicRun._asks,
    "function_call": ClassicRun._asks_plainly,
    "execute_function": ClassicRun._called,
    "executed_function": ClassicRun._executed,
}


def derived_id(event: Any, what: str | None = None) -> str | None:
    """The id of an AG2 event, or of something else that follows from it; ``None`` where it has none."""
    known = getattr(getattr(event, "content", None), "uuid", None)
    if not isinstance(known, uuid.UUID):
        return None
    return str(known if what is None else uuid.uuid5(known, what))


def about(event: Any, payload: Mapping[str, Any]) -> str | None:
    """The name of the agent that an event is of."""
    for key in ("name", "agent", "from", "speaker", "last_speaker"):
        if key == "name" and "role" not in payload:
            continue
        if isinstance(name := payload.get(key), str):
            return name
    sender = getattr(event.content, "sender", None)
    return sender if isinstance(sender, str) else None


def _together(agents: Sequence[str]) -> str:
    return header_text(", ".join(agents[:4])) or "chat"


def _call_key(event: Any) -> str:
    return str(event.content.call_id or event.content.func_name)


def _answered_keys(event: Any) -> list[str]:
    inner = event.content
    if event.type == "function_response":
        return [str(inner.name)]
    return [str(one.tool_call_id) for one in inner.tool_responses]
