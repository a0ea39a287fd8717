"""A run of LangChain as a place in a run of ours: who acts there, what was last in it, what was heard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chatsnapshot.adapters.langgraph.telling import Said, is_message
from chatsnapshot.adapters.observed import ObservedRun, Unanswered
from chatsnapshot.adapters.places import Token

__all__ = ["Facts", "Heard", "Inside", "Place", "Tree"]

DEFAULT_NAME = "LangGraph"
"""What a compiled graph is called that was given no name."""
_PLUMBING = frozenset({"agent", "model", "tools", "tool_node", "llm", "call_model", "chatbot"})
"""Nodes of agents that are made ready: they are no agents by themselves."""


class Facts:
    """What a callback tells of a run of LangChain when it starts."""

    def __init__(
        self,
        run_id: Any,
        parent_run_id: Any = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        name: str | None = None,
        **_: Any,
    ) -> None:
        self.run_id, self.parent_run_id = run_id, parent_run_id
        self.tags, self.metadata = tags or (), metadata or {}
        self.name = name or DEFAULT_NAME

    @property
    def is_node(self) -> bool:
        """Whether it is a node of a graph."""
        return any(tag.startswith("graph:step:") for tag in self.tags)

    @property
    def thread_id(self) -> str | None:
        """The thread that it is in."""
        found = self.metadata.get("thread_id")
        return None if found is None else str(found)

    @property
    def own_tags(self) -> list[str]:
        """The tags that the user gave."""
        return [tag for tag in self.tags if not tag.startswith(("graph:step", "seq:step", "map:key"))]


class Heard:
    """The messages of one run that are recorded already."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._objects: dict[int, Any] = {}
        self._words: set[tuple[str, str]] = set()
        self.results: set[str] = set()
        """Tool calls that have a result."""

    def knows(self, message: Any) -> bool:
        """Whether this very message was recorded."""
        known = getattr(message, "id", None)
        return id(message) in self._objects or (isinstance(known, str) and known in self._ids)

    def know(self, state: Any) -> None:
        """Know the messages of a state by their ids: each was recorded when it came in."""
        for held in state.values() if isinstance(state, Mapping) else (state,):
            for one in held if isinstance(held, (list, tuple)) else (held,):
                known = getattr(one, "id", None)
                if isinstance(known, str) and known not in self._ids and is_message(one):
                    self._ids.add(known)

    def said(self, told: Said) -> bool:
        """Whether somebody of this role said these words."""
        return (told.role, told.text) in self._words

    def hear(self, message: Any, told: Said) -> None:
        """Remember a message."""
        self._objects[id(message)] = message
        if told.message_id:
            self._ids.add(told.message_id)
        self._words.add((told.role, told.text))


class Tree:
    """What the runs under one call of the user have in common."""

    def __init__(self, top: ObservedRun) -> None:
        self.top = top
        self.lock = threading.RLock()
        self.asked: set[str] = set()
        """Interrupts that are recorded as questions."""
        self.causes: dict[str, str] = {}
        """Interrupts inside of child runs: the event with which the child paused."""


class Place:
    """A run of LangChain: a whole run of ours, a node, a tool call, a model call, or plumbing in between."""

    is_graph = False
    last: str | None = None
    """The last event in this context; only of runs, nodes and tool calls."""
    token: Token | None = None
    call_id: str | None = None
    paused: str | None = None
    checkpoint_id: str | None = None
    query: str | None = None
    unanswered = Unanswered()
    """What the next message of a model in this context answers; only of runs, nodes and tool calls."""
    asked = False
    """Whether a model was asked in here; of a graph, in the step that goes on."""
    came: tuple[str, ...] = ()
    """Of a graph: results of tools in the step that goes on."""
    step_results: tuple[str, ...] = ()
    """Of a graph: results of tools that each node of the step may answer."""
    step: Any = None
    step_cause: str | None = None
    unwatch: Callable[[], None] | None = None

    def __init__(
        self, kind: str, facts: Facts, above: Place | None, run: ObservedRun, tree: Tree, heard: Heard
    ) -> None:
        self.kind, self.facts, self.above = kind, facts, above
        self.run, self.tree, self.heard = run, tree, heard
        self.name = facts.name
        self.is_run = above is None or above.run is not run
        self.began_ns = time.time_ns()
        self.began = time.perf_counter_ns()
        self.parties: set[str] = set()
        """Nodes of this graph that handed over or were handed over to: they are agents."""
        self.handed: set[str] = set()
        """To whom was handed over inside of here."""
        self.inner: list[Any] = []
        """Ids of the runs of LangChain inside, of a run."""

    @property
    def context(self) -> Place:
        """The nearest run, node or tool call."""
        place = self
        while place.above is not None and not place.is_run and place.kind not in ("node", "tool"):
            place = place.above
        return place

    @property
    def root(self) -> Place:
        """The place of the run that it is in."""
        place = self
        while not place.is_run:
            assert place.above is not None
            place = place.above
        return place

    @property
    def is_top(self) -> bool:
        """Whether its run is the one that the user called."""
        return self.run is self.tree.top

    @property
    def duration_ns(self) -> int:
        """How long it has taken."""
        return time.perf_counter_ns() - self.began

    @property
    def agent(self) -> str:
        """Who acts here: a named graph inside of the run, a node that is an agent, else the agent of the run."""
        place: Place | None = self
        node: str | None = None
        while place is not None:
            if not place.is_run:
                named = place.facts.metadata.get("lc_agent_name")
                if isinstance(named, str) and named:
                    return named
            if place.kind == "node":
                node = place.name
            elif place.is_graph or place.is_run:
                unnamed = place.name == DEFAULT_NAME
                if place.is_graph and not unnamed and not place.is_run:
                    return place.name
                if node is not None and (
                    node in place.parties or (unnamed and node.lower() not in _PLUMBING)
                ):
                    return node
                if place.is_run:
                    break
                node = None
            place = place.above
        return self.run.agent


class Inside:
    """Builds and records events of a place: one thread at a time, after what was last in it, by who acts there."""

    def __init__(self, place: Place) -> None:
        self._place, self._context = place, place.context

    def __enter__(self) -> ObservedRun:
        place, context, run = self._place, self._context, self._place.run
        place.tree.lock.acquire()
        try:
            self._agent = run.agent
            run.last, run.agent = context.last or run.last, place.agent
            run.unanswered = context.unanswered
        except BaseException:
            place.tree.lock.release()
            raise
        return run

    def __exit__(self, *error: object) -> None:
        context, run = self._context, self._place.run
        try:
            context.last, run.agent = run.last, self._agent
            context.unanswered = run.unanswered
        finally:
            self._place.tree.lock.release()
