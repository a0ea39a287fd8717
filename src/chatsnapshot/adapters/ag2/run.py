"""One run as it is being recorded: its ids, and which event is the cause of the next."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from chatsnapshot.adapters.custom import which_ledger
from chatsnapshot.adapters.policy import Event, new_event
from chatsnapshot.clock import uuid7, uuid_text

__all__ = ["CURRENT", "Parent", "Place", "Run", "forget", "open_run", "remember", "root_of"]


class Run:
    """A run between its first and its last event.

    Causes: a result's is its call, a call's the message that asked for it, an answer's its question, a
    model call's what it answers; otherwise the event before it in this run.
    """

    def __init__(
        self,
        *,
        ledger: Any,
        correlation_id: str,
        agent: str,
        parent: Parent | None = None,
        run_id: str | None = None,
        inside: bool = False,
    ) -> None:
        self.ledger = ledger
        self.run_id = run_id or uuid_text(uuid7()[0])
        self.correlation_id = correlation_id
        self.agent = agent
        self.parent = parent
        self.inside = inside
        """Whether another recorded run waits for this one."""
        self.stored = False
        """Whether a storage records this run, for want of the middleware."""
        self.continues: str | None = None
        """The event that this run goes on from, when the process that began it was killed."""
        self.again: Any = None
        """The event that it goes on with, which is on record already."""
        self.variables: Any = None
        """The variables that were recorded last."""
        self.last: str | None = None
        """The event recorded last."""
        self.calls: dict[str, str] = {}
        """Tool call id to the event of the call."""
        self.results: list[str] = []
        """Tool results that the next model call answers."""
        self.answered: set[str] = set()
        """Ids of the tool calls and questions that have a result or an answer."""
        self.approvals: set[str] = set()
        """Ids of the questions that ask for an approval."""
        self.questions: dict[str, str] = {}
        """Question id to the event of the question; an answered one is gone."""
        self.asking: dict[str, str] = {}
        """Tool call id to the question that was asked inside of it."""
        self.tasks: dict[str, str] = {}
        """Task id to the event of its start."""
        self.asked_by: str | None = None
        """The message whose tool calls are being made."""
        self.replying: str | None = None
        """The model call whose response has not been seen yet."""
        self.compacting = False
        """Whether AG2 is rewriting its history and will say so."""
        self.usage_seen = 0
        """Model calls recorded whose usage event is still to come."""
        self.attempt = 1

    def event(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        cause: str | None = None,
        links: list[str] | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> Event:
        """An event that the run's agent brought about; it becomes the run's last."""
        return self._made(event_type, {"agent": self.agent, **payload}, self.agent, cause, links, attributes)

    def said_to_agent(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        by: str | None = None,
        cause: str | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> Event:
        """An event that somebody else brought about: ``by`` names them where they are known."""
        known = {"recipient": self.agent, **payload} | ({"name": by} if by else {})
        return self._made(event_type, known, by, cause, None, attributes)

    def _made(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        name: str | None,
        cause: str | None,
        links: list[str] | None,
        attributes: dict[str, Any] | None,
    ) -> Event:
        known = dict(attributes or {})
        if links:
            known["links"] = links
        made = new_event(
            event_type,
            {"run_id": self.run_id, **payload},
            correlation_id=self.correlation_id,
            causation_id=cause if cause is not None else self.last,
            source={"origin": _origin(event_type), "runtime": "ag2", "name": name},
            attributes=known or None,
        )
        self.last = made["event_id"]
        return made

    def model_causes(self) -> tuple[str | None, list[str]]:
        """What a model call answers: the last tool result, linked with those beside it, or the last event."""
        if not self.results:
            return self.last, []
        return self.results[-1], self.results[:-1]


class Parent(NamedTuple):
    """What a run was started by: another run, the event in it, and the agent whose tool it was."""

    run_id: str | None
    cause: str | None
    agent: str | None = None


class Place(NamedTuple):
    """Where code runs: inside this run, because of this event."""

    run: Run
    cause: str | None


CURRENT: ContextVar[Place | None] = ContextVar("chatsnapshot_ag2_place", default=None)
"""The tool call that is being executed; an agent that is asked inside it is a child run."""

_open: weakref.WeakValueDictionary[tuple[str, object], Run] = weakref.WeakValueDictionary()
"""By stream and ledger: recorders of two ledgers each have a run of their own."""


def remember(stream_id: str, run: Run) -> None:
    """Say that ``run`` records the turn on this stream."""
    _open[stream_id, which_ledger(run.ledger)] = run


def forget(stream_id: str, run: Run) -> None:
    """Say that the turn on this stream is over."""
    key = (stream_id, which_ledger(run.ledger))
    if _open.get(key) is run:
        del _open[key]


def open_run(stream_id: str, ledger: Any) -> Run | None:
    """The run that records the turn on this stream in this ledger, if any."""
    return _open.get((stream_id, which_ledger(ledger)))


def root_of(context_type: type) -> str:
    """The module that AG2 is imported as: ``ag2`` or ``autogen.beta``."""
    for kind in context_type.__mro__:
        if kind.__name__ in ("ConversationContext", "Context") and kind.__module__.endswith(".context"):
            return kind.__module__.rpartition(".")[0]
    raise TypeError(f"{context_type.__qualname__} is no context of AG2 1.x")


def _origin(event_type: str) -> str:
    return "system" if event_type.startswith("system.") else "agent"
