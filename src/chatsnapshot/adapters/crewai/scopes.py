"""Where an event of CrewAI stands: inside which run, agent, tool or method, by the ids that CrewAI gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chatsnapshot.adapters.custom import ObservedRun

__all__ = ["Acting", "Scope", "Scopes"]


@dataclass
class Acting:
    """An agent at work: what it did last, for the causes of what it does next; agents may work beside each other."""

    name: str
    last: str | None = None
    results: list[str] = field(default_factory=list)
    wanted: list[tuple[str | None, str, Any]] = field(default_factory=list)
    """Tool calls that the model asked for and that have not begun: id, name, arguments."""
    told: bool = False
    """Whether its model tells of its calls; a model of one's own need not."""


@dataclass
class Scope:
    """What an event has opened and another one will close."""

    event_id: str
    kind: str
    run: ObservedRun
    above: Scope | None
    acting: Acting | None = None
    cause: str | None = None
    """Our event for what follows in here."""
    opens_run: bool = False
    name: str = ""
    """Of a run."""
    worker: Acting | None = None
    """Of a task: the agent that works on it."""
    known: dict[str, str] = field(default_factory=dict)
    """Of a run: our events for tasks (by their id) and for ends of methods (by CrewAI's event)."""
    done: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Of a run: our events for the ends of its tasks, by their id, in order; and whether others went on meanwhile."""
    call_id: str | None = None
    token: Any = None
    at: Any = None
    began: int = field(default_factory=time.monotonic_ns)

    def up(self) -> Iterator[Scope]:
        """This one and those around it, in this run."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = None if scope.opens_run else scope.above

    @property
    def agent(self) -> Acting | None:
        """The agent at work here."""
        scope = self
        while scope.acting is None and not scope.opens_run and scope.above is not None:
            scope = scope.above
        return scope.acting

    @property
    def root(self) -> Scope:
        """The one that opened the run."""
        scope = self
        while not scope.opens_run and scope.above is not None:
            scope = scope.above
        return scope

    @property
    def task(self) -> Scope | None:
        """The task that is worked on here."""
        return next((scope for scope in self.up() if scope.kind == "task_started"), None)

    @property
    def here(self) -> str | None:
        """Our event that this is inside of."""
        scope = self
        while scope.cause is None and not scope.opens_run and scope.above is not None:
            scope = scope.above
        return scope.cause

    @property
    def before(self) -> str | None:
        """Our event that what happens here follows from, whatever goes on beside it."""
        for scope in self.up():
            acting = scope.acting or scope.worker
            if acting is not None and acting.last is not None:
                return acting.last
            if scope.cause is not None:
                return scope.cause
        return None


class Scopes:
    """The open scopes of all runs, by CrewAI's event id."""

    def __init__(self) -> None:
        self._open: dict[str, Scope] = {}

    def add(self, scope: Scope) -> Scope:
        """Remember an open scope."""
        self._open[scope.event_id] = scope
        return scope

    def around(self, event: Any) -> Scope | None:
        """The scope that an event is in."""
        return self._open.get(event.parent_event_id or "")

    def closed(self, event: Any) -> Scope | None:
        """The scope that an event closes; it is forgotten."""
        return self._open.pop(event.started_event_id or "", None)

    def drop(self, run: ObservedRun) -> None:
        """Forget what is in a run that has ended."""
        for event_id, scope in list(self._open.items()):
            if scope.run is run:
                del self._open[event_id]
