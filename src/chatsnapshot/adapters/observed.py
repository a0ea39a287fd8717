"""One run of an observed runtime: builds its events and knows which event is the cause of the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from chatsnapshot.adapters.payloads import arguments_of
from chatsnapshot.adapters.places import Parent, Token, enter, leave, process_mark
from chatsnapshot.adapters.plain import describe_error, header_text, plain
from chatsnapshot.adapters.policy import Event, new_event
from chatsnapshot.clock import idempotent_uuid, uuid_text

__all__ = ["Earlier", "ObservedRun", "Unanswered", "error_facts"]


THE_AGENT = ""
"""Whoever acts in the run at that moment."""


class Earlier(NamedTuple):
    """What the run before this one in the conversation left open."""

    cause: str | None = None
    """What a resumed run follows from: the answer, else the question, else the last event."""
    calls: Mapping[str, str] = {}
    """Tool calls without a result: call id to the event of the call."""
    questions: Mapping[str, str] = {}
    """Questions without an answer: question id to the event of the question."""
    run_id: str | None = None
    """The run that left it."""
    names: Mapping[str, str] = {}
    """Names of the tools of the open calls, by call id."""


class Unanswered(NamedTuple):
    """What the next message of a model is an answer to, in one of several lines of work beside each other in a run."""

    results: tuple[str, ...] = ()
    """Results of tools that no model was asked with."""
    call: str | None = None
    """The call of a model whose message has not come."""


class ObservedRun:
    """A run between its first and its last event. Every method builds events; none records.

    Causes, unless ``cause`` names another: a tool result's is its call; a call's the message that asked for it; a
    message's or a model call's what it answers (the last tool result, with those beside it as ``links``); an answer's
    its question; that of a resumed run the answer; that of a child run the tool call of its parent; otherwise the event
    before it in this run.

    The last keyword arguments of every method go into the payload, but for these: ``cause`` (an event id), ``links``
    (further causes), ``attributes``, ``at_ns`` (when it happened, nanoseconds since 1970) and ``native_id`` (an id of
    the runtime for this event: recorded again, it is the same event; for runs whose ``run_id`` is the runtime's too).
    """

    def __init__(
        self,
        *,
        runtime: str,
        ledger: Any,
        key: str,
        run_id: str,
        correlation_id: str,
        agent: str,
        parent: Parent | None = None,
        cause: str | None = None,
        resumed: bool = False,
        earlier: Earlier | None = None,
        native_run_id: str | None = None,
    ) -> None:
        self.runtime = runtime
        self.ledger = ledger
        self.key = key
        self.run_id = run_id
        self.native_run_id = native_run_id or run_id
        """What ids that follow from a ``native_id`` are made of."""
        self.correlation_id = correlation_id
        self.agent = agent
        """The agent that acts; change it where another one takes over inside the run."""
        self.parent = parent
        self.resumed = resumed
        self.ended: str | None = None
        """The terminal event, once there is one."""
        self.last: str | None = None
        """The event built last."""
        self.calls: dict[str, str] = dict(earlier.calls) if earlier else {}
        """Tool call id to the event of the call, while it has no result."""
        self.names: dict[str, str] = dict(earlier.names) if earlier else {}
        self.asked: dict[str, str] = {}
        """Tool call id to the message that asked for it."""
        self.questions: dict[str, str] = dict(earlier.questions) if earlier else {}
        """Question id to the event of the question, while it has no answer."""
        self.started_event: str | None = None
        self._cause = cause
        self._earlier = earlier
        self._answer: str | None = None
        self._results: list[str] = []
        self._replying: str | None = None

    @property
    def unanswered(self) -> Unanswered:
        """What the next message of a model answers; set it before what is built for another line of work."""
        return Unanswered(tuple(self._results), self._replying)

    @unanswered.setter
    def unanswered(self, unanswered: Unanswered) -> None:
        self._results, self._replying = [*unanswered.results], unanswered.call

    # --- the life of the run ------------------------------------------------------------------------------

    def started(self, input: Any = None, **facts: Any) -> Event:
        """``execution.run_started``, or ``run_resumed`` for a run that goes on with an earlier one."""
        cause = facts.pop("cause", None) or self._answer
        if cause is None and self.parent is not None:
            cause = self.parent.cause
        if cause is None and self.resumed and self._earlier is not None:
            cause = self._earlier.cause
        known = {
            "name": self.agent,
            "parent_run_id": self.parent.run_id if self.parent else None,
            "input": plain(input),
            "native": {"run_id": self.native_run_id} if self.native_run_id != self.run_id else None,
        }
        if "native_id" not in facts:  # such an event is the same one in whatever process
            facts["attributes"] = {**process_mark(), **(facts.get("attributes") or {})}
        kind = "execution.run_resumed" if self.resumed else "execution.run_started"
        made = self.event(kind, {**known, **facts}, cause=cause or self._cause)
        self.started_event = made["event_id"]
        return made

    def completed(self, output: Any = None, **facts: Any) -> Event | None:
        """``execution.run_completed``; ``None`` when the run has ended already."""
        return self._end("completed", {"output": plain(output)}, facts)

    def failed(self, error: Any, **facts: Any) -> Event | None:
        """``execution.run_failed``; ``None`` when the run has ended already."""
        return self._end("failed", {"error": error_facts(error)}, facts)

    def cancelled(self, reason: str | None = None, **facts: Any) -> Event | None:
        """``execution.run_cancelled``; ``None`` when the run has ended already."""
        return self._end("cancelled", {"reason": reason}, facts)

    def paused(self, reason: str | None = None, **facts: Any) -> Event | None:
        """``execution.run_paused``: it waits for somebody and will be resumed; ``None`` when it has ended already."""
        return self._end("paused", {"reason": reason}, facts)

    def _end(self, how: str, payload: dict[str, Any], facts: dict[str, Any]) -> Event | None:
        if self.ended is not None:
            return None
        made = self.event(f"execution.run_{how}", {**payload, **facts})
        self.ended = made["event_id"]
        return made

    # --- what happens in it -------------------------------------------------------------------------------

    def message(
        self, role: str, parts: list[dict[str, Any]], *, name: str | None = None, **more: Any
    ) -> Event:
        """A message; ``parts`` are those of :mod:`chatsnapshot.adapters.payloads`, tool calls among them.

        ``name`` is who speaks: the agent for the assistant unless it is given, otherwise who is known.
        """
        asking = role == "assistant"
        speaker = name or (self.agent if asking else None)
        facts: dict[str, Any] = {"role": role, "name": speaker, "parts": parts}
        if asking:
            self._answering(more, replying=True)
        else:
            facts["recipient"] = self.agent
        made = self.event("execution.message", {**facts, **more}, by=speaker)
        for part in parts:
            if part.get("type") == "tool_call" and part.get("id"):
                self.asked[str(part["id"])] = made["event_id"]
        return made

    def model_call(self, **facts: Any) -> Event:
        """One call of a model, told once, at its end: ``model``, ``provider``, ``usage``, ``duration_ns``, ``error`` …"""
        if facts.get("error") is not None:
            facts["error"] = error_facts(facts["error"])
        self._answering(facts, replying=False)
        made = self.event("execution.model_call", facts)
        self._replying = made["event_id"]
        return made

    def tool_call(self, call_id: str | None, name: str | None, arguments: Any, **more: Any) -> Event:
        """A tool is being called; its cause is the message whose parts hold ``call_id``."""
        more.setdefault("cause", self.asked.get(call_id or ""))
        facts = {"name": name, "call_id": call_id, "arguments": plain(arguments_of(arguments))}
        made = self.event("execution.tool_call", {**facts, **more})
        if call_id:
            self.calls[call_id] = made["event_id"]
            if name:
                self.names[call_id] = name
        return made

    def tool_result(
        self,
        call_id: str | None,
        name: str | None = None,
        *,
        result: Any = None,
        error: Any = None,
        **more: Any,
    ) -> Event:
        """A tool answered, or failed with ``error`` (an exception, a text or its facts)."""
        more.setdefault("cause", self.calls.pop(call_id or "", None))
        facts: dict[str, Any] = {
            "name": name or self.names.pop(call_id or "", None),
            "call_id": call_id,
            "is_error": bool(more.pop("is_error", error is not None)),
        }
        if error is not None:
            facts["error"] = error_facts(error)
        if result is not None or error is None:
            facts["result"] = plain(result)
        made = self.event("execution.tool_result", {**facts, **more})
        self._results.append(made["event_id"])
        return made

    def handoff(self, to: str, *, call_id: str | None = None, **more: Any) -> Event:
        """The work goes to another agent; ``call_id`` names the tool call that says so, where there is one."""
        if call_id is not None:
            more.setdefault("cause", self.calls.get(call_id) or self.asked.get(call_id))
        return self.event("execution.handoff", {"from": more.pop("from_agent", self.agent), "to": to, **more})

    def question(
        self,
        question_id: str,
        *,
        kind: str = "question",
        prompt: Any = None,
        call_id: str | None = None,
        **more: Any,
    ) -> Event:
        """A person is asked: ``kind`` is ``question``, ``approval`` (of the tool call ``call_id``) or ``edit``."""
        if call_id is not None:
            more.setdefault("cause", self.calls.get(call_id) or self.asked.get(call_id))
        facts = {"question_id": question_id, "kind": kind, "question": plain(prompt), "call_id": call_id}
        made = self.event("execution.human_input_requested", {**facts, **more})
        self.questions[question_id] = made["event_id"]
        return made

    def answer(
        self, question_id: str, *, content: Any = None, decision: str | None = None, **more: Any
    ) -> Event:
        """A person answered: ``decision`` is ``approved``, ``rejected`` or ``edited``, where it was no question.

        Built before :meth:`started` on a run that is resumed, it is the cause of the resumption; it belongs to the run
        that asked then.
        """
        asked = self.questions.pop(question_id, None)
        if asked is None and self.last is None and self._earlier is not None:
            asked = self._earlier.cause  # answered once more: it follows from where the conversation stood
        more.setdefault("cause", asked)
        facts: dict[str, Any] = {"recipient": self.agent, "answers": question_id, "decision": decision}
        if content is not None or decision is None:
            facts["answer"] = plain(content)
        if self.started_event is None and self._earlier is not None and self._earlier.run_id:
            facts["run_id"] = self._earlier.run_id
        made = self.event("execution.human_input_received", {**facts, **more}, by=more.get("user"))
        self._answer = made["event_id"]
        return made

    def state(self, name: str, **facts: Any) -> Event:
        """A step, node, agent or variable changed."""
        return self.event("execution.state_change", {"name": name, **facts})

    def event(
        self, event_type: str, payload: Mapping[str, Any], *, by: str | None = THE_AGENT, **options: Any
    ) -> Event:
        """Any other event of the run; ``by`` is who acted where it was not the agent (``None``: nobody that is known).

        Members of the payload that are ``None`` are left out; ``cause``, ``links``, ``attributes``, ``at_ns`` and
        ``native_id`` may stand in it or beside it.
        """
        actor = self.agent if by is THE_AGENT else by
        own = {"agent": self.agent} if actor == self.agent else {}
        facts = {"run_id": self.run_id, **own, **payload, **options}
        cause, links = facts.pop("cause", None), facts.pop("links", None)
        attributes, at_ns = dict(facts.pop("attributes", None) or {}), facts.pop("at_ns", None)
        native_id, event_id = facts.pop("native_id", None), None
        if native_id is not None:
            name = f"{self.runtime}|{self.native_run_id}|{native_id}|{event_type}"
            event_id = uuid_text(idempotent_uuid(self.correlation_id, name))
        if links:
            attributes["links"] = [*links]
        made = new_event(
            event_type,
            {key: value for key, value in facts.items() if value is not None or key == "result"},
            correlation_id=self.correlation_id,
            causation_id=cause if cause is not None else self.last,
            source={
                "origin": _ORIGINS.get(event_type.partition(".")[0], "system"),
                "runtime": self.runtime,
                "name": _name_of(actor),
            },
            attributes=attributes or None,
            event_id=event_id,
            at_ns=None if at_ns is None else int(at_ns),
        )
        if native_id is not None and at_ns is None:
            made["timestamp"] = None  # the ledger's, which is not compared when it is recorded again
        self.last = made["event_id"]
        return made

    def _answering(self, more: dict[str, Any], *, replying: bool) -> None:
        """Fill in what a message of the model or a model call answers."""
        before, self._replying = self._replying, None
        if more.get("cause") is None:
            if replying and before is not None:
                more["cause"] = before
            elif self._results:
                more["cause"], beside = self._results[-1], self._results[:-1]
                if beside:
                    more["links"] = [*(more.get("links") or ()), *beside]
        self._results = []

    # --- what runs inside of a tool -----------------------------------------------------------------------

    def enter(self, call_id: str | None) -> Token | None:
        """From here on, in this context, what is recorded is caused by this tool call; for hooks before a tool.

        The user's own events get the correlation and the cause; an agent of any recorded runtime becomes a child run.
        """
        cause = self.calls.get(call_id or "") or self.last
        return enter(self.ledger, self.correlation_id, cause, self.run_id, self.agent)

    def leave(self, token: Token | None) -> None:
        """Undo :meth:`enter`; for hooks after a tool. In another context, or twice, it does nothing."""
        leave(token)

    @contextmanager
    def inside(self, call_id: str | None) -> Iterator[None]:
        """:meth:`enter` and :meth:`leave` around a block."""
        token = self.enter(call_id)
        try:
            yield
        finally:
            self.leave(token)

    def left(self) -> Earlier:
        """What this run leaves open for one that goes on with it."""
        question = next(reversed(self.questions.values()), None) if self.questions else None
        return Earlier(
            question or self.ended or self.last,
            dict(self.calls),
            dict(self.questions),
            self.run_id,
            dict(self.names),
        )


_known_name = lru_cache(1_024)(header_text)
"""Every event has a name, and a process has few."""


def _name_of(actor: Any) -> str | None:
    if actor is None:
        return None
    return _known_name(actor) if type(actor) is str else header_text(actor)


_ORIGINS = {"execution": "agent", "ui": "ui", "integration": "integration"}


def error_facts(error: Any) -> Any:
    """An exception, a text or the facts of an error as a payload holds them."""
    if isinstance(error, BaseException):
        return describe_error(error)
    return {"message": error} if isinstance(error, str) else plain(error)
