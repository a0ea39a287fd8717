"""Which run of ours each run of LangChain is in, and what was heard there: what all callbacks share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.langgraph.telling import Said, is_message, said
from chatsnapshot.adapters.observed import ObservedRun, Unanswered
from chatsnapshot.adapters.places import Parent, Token, enter, leave
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.langgraph.recorder import LangGraphRecorder

__all__ = ["Facts", "Heard", "Place", "Tree", "Watch"]

DEFAULT_NAME = "LangGraph"
"""What a compiled graph is called that was given no name."""
_PLUMBING = frozenset({"agent", "model", "tools", "tool_node", "llm", "call_model", "chatbot"})
"""Nodes of agents that are made ready: they are no agents by themselves."""


class Facts:
    """What a callback tells of a run of LangChain when it starts."""

    def __init__(
        self,
        run_id: Any,
        parent_run_id: Any,
        tags: Sequence[str] | None,
        metadata: Mapping[str, Any] | None,
        name: str | None,
    ) -> None:
        self.run_id, self.parent_run_id = run_id, parent_run_id
        self.tags, self.metadata = list(tags or ()), metadata or {}
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
                if isinstance(known, str) and is_message(one):
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

    def __init__(
        self, kind: str, facts: Facts, above: Place | None, run: ObservedRun, tree: Tree, heard: Heard
    ) -> None:
        self.kind, self.facts, self.above = kind, facts, above
        self.run, self.tree, self.heard = run, tree, heard
        self.name = facts.name
        self.is_run = above is None or above.run is not run
        self.is_graph = False
        self.last: str | None = None
        """The last event in this context; only of runs, nodes and tool calls."""
        self.began_ns = time.time_ns()
        self.began = time.perf_counter_ns()
        self.token: Token | None = None
        self.call_id: str | None = None
        self.paused: str | None = None
        self.checkpoint_id: str | None = None
        self.query: str | None = None
        self.unanswered = Unanswered()
        """What the next message of a model in this context answers; only of runs, nodes and tool calls."""
        self.asked = False
        """Whether a model was asked in here; of a graph, in the step that goes on."""
        self.came: tuple[str, ...] = ()
        """Of a graph: results of tools in the step that goes on."""
        self.step_results: tuple[str, ...] = ()
        """Of a graph: results of tools that each node of the step may answer."""
        self.step: Any = None
        self.step_cause: str | None = None
        self.parties: set[str] = set()
        """Nodes of this graph that handed over or were handed over to: they are agents."""
        self.handed: set[str] = set()
        """To whom was handed over inside of here."""
        self.inner: list[Any] = []
        """Ids of the runs of LangChain inside, of a run."""
        self.unwatch: Callable[[], None] | None = None

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
            named = place.facts.metadata.get("lc_agent_name")
            if isinstance(named, str) and named and not place.is_run:
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


_entered: ContextVar[tuple[tuple[Any, Token], ...]] = ContextVar("chatsnapshot_langgraph_entered", default=())
"""The nodes and tools that were entered in this context and not left in it: run of LangChain, and how to leave."""


def _current_config() -> Any:
    import langchain_core.runnables.config

    return langchain_core.runnables.config.var_child_runnable_config.get()


class Watch:
    """The runs that a handler hears of."""

    def __init__(self, recorder: LangGraphRecorder) -> None:
        self.recorder = recorder
        self._places: dict[Any, Place | None] = {}
        self._paused: dict[tuple[str, str], str] = {}

    # --- places -------------------------------------------------------------------------------------------

    def above(self, facts: Facts) -> Place | None:
        """The place that it happens in; ``None`` for what the user called."""
        return self._places.get(facts.parent_run_id)

    def ignored(self, facts: Facts) -> bool:
        """Whether another recorder tells of it; then what is inside of it is ignored too."""
        if facts.parent_run_id in self._places and self._places[facts.parent_run_id] is None:
            self._places[facts.run_id] = None
            return True
        return False

    def find(self, run_id: Any) -> Place | None:
        """The place of a run that goes on."""
        return self._places.get(run_id)

    def leave(self, run_id: Any) -> Place | None:
        """The place of a run that is over; it is forgotten, and of a whole run everything inside."""
        place = self._places.pop(run_id, None)
        if place is not None:
            if place.token is not None:
                leave(place.token)
            if place.is_run:
                for inner in place.inner:
                    self._places.pop(inner, None)
        return place

    def put(self, place: Place) -> Place:
        """Know a place from now on."""
        self._places[place.facts.run_id] = place
        if place.above is not None:
            place.root.inner.append(place.facts.run_id)
            if place.is_run:
                place.above.root.inner.append(place.facts.run_id)
        return place

    # --- runs ---------------------------------------------------------------------------------------------

    def begin(
        self, kind: str, facts: Facts, name: str, *, resumed: bool = False
    ) -> tuple[Place, list[Event]] | None:
        """A run begins here, a child where it is inside of another; ``None`` where another recorder tells of it."""
        above = self.above(facts)
        thread_id, parent, again = facts.thread_id, None, None
        if above is not None:
            context = above.context
            if thread_id == above.root.facts.thread_id:
                thread_id = None  # inherited: it is the conversation of the parent
            again = self._paused.pop((above.run.correlation_id, context.call_id or context.name), None)
            if not above.run.resumed:
                again = None  # the thread went on without an answer, and this is another call
            parent = Parent(
                above.run.run_id, context.last or above.run.last, above.agent, above.run.correlation_id, True
            )
        options: dict[str, Any] = {} if parent is None else {"parent": parent}
        run = self.recorder.begin(
            name,
            key=str(facts.run_id),
            correlation_id=again or thread_id,
            resumed=resumed or again is not None,
            **options,
        )
        if run is None:
            self._places[facts.run_id] = None
            return None
        place = Place(kind, facts, above, run, above.tree if above else Tree(run), Heard())
        return self.put(place), []

    def started(self, place: Place, input: Any, **more: Any) -> Event:
        """The first event of a run."""
        facts = place.facts
        native = {"run_id": str(facts.run_id), "thread_id": facts.thread_id}
        event = place.run.started(
            input,
            tags=facts.own_tags or None,
            session=facts.thread_id,
            native={key: value for key, value in native.items() if value},
            **more,
        )
        place.last = place.run.last
        return event

    def end(self, place: Place, *events: Event | None) -> None:
        """Record the end of a run, with what led to it, and forget the run."""
        if place.unwatch is not None:
            place.unwatch()
        self.recorder.record(*events)
        self.recorder.end(place.run)

    def paused(self, place: Place) -> None:
        """A child run waits for what the run above is told: it goes on in the same correlation then."""
        if place.above is not None:
            context = place.above.context
            key = (place.above.run.correlation_id, context.call_id or context.name)
            self._paused[key] = place.run.correlation_id
            while len(self._paused) > 1_000:
                del self._paused[next(iter(self._paused))]

    @contextmanager
    def inside(self, place: Place) -> Iterator[ObservedRun]:
        """Build and record events of a place: one thread at a time, after what was last in it, by who acts there."""
        context, run = place.context, place.run
        with place.tree.lock:
            agent = run.agent
            run.last, run.agent = context.last or run.last, place.agent
            run.unanswered = context.unanswered
            try:
                yield run
            finally:
                context.last, run.agent = run.last, agent
                context.unanswered = run.unanswered

    # --- code inside of nodes and tools -----------------------------------------------------------------------

    def enter(self, place: Place) -> None:
        """From here on what is recorded in a node or tool is caused by it.

        This is called in the context of whoever calls the node; the code of the node runs in a copy of that. In an async
        graph the end is told in yet another copy, so the scope stays behind here: it holds only where LangChain's config
        says that code of the node runs, and the next one that is entered takes it away.
        """
        stack = _entered.get()
        while stack and stack[-1][0] not in self._places:
            leave(stack[-1][1])
            stack = stack[:-1]
        run, run_id = place.run, place.facts.run_id
        place.token = enter(
            self.recorder.ledger,
            run.correlation_id,
            place.last,
            run.run_id,
            place.agent,
            lambda: self.runs_in(run_id),
        )
        if place.token is not None:
            stack = (*stack, (run_id, place.token))
        _entered.set(stack)

    def runs_in(self, run_id: Any) -> bool:
        """Whether the code of here and now runs inside of a run of LangChain."""
        config = _current_config()
        inner = getattr((config or {}).get("callbacks"), "parent_run_id", None)
        if inner == run_id:
            return True
        place = self._places.get(inner)
        while place is not None and place.facts.run_id != run_id:
            place = place.above
        return place is not None

    # --- messages -----------------------------------------------------------------------------------------

    def message(self, place: Place, message: Any, **more: Any) -> Event | None:
        """The event of a message; ``None`` for one that was recorded, or is told as the result of a tool."""
        if place.heard.knows(message):
            return None
        told = said(message)
        place.heard.hear(message, told)
        if told.role == "tool" and told.call_id in place.heard.results:
            return None
        return place.run.message(told.role, told.parts, name=told.name, **more)

    def given(self, place: Place, messages: Sequence[Any]) -> list[Event]:
        """The messages that a run is called with: in a thread those that are new in it, else all."""
        messages = [one for one in messages if is_message(one)]
        if place.facts.thread_id is not None:
            last = max((n for n, one in enumerate(messages) if said(one).role == "assistant"), default=-1)
            for known in messages[: last + 1]:
                place.heard.hear(known, said(known))
            messages = messages[last + 1 :]
        return [event for one in messages if (event := self.message(place, one)) is not None]

    def prompted(self, place: Place, messages: Sequence[Any]) -> list[Event]:
        """The messages that a model is asked with, as far as they were made for it: those of a state have ids."""
        made: list[Event] = []
        for one in messages:
            if isinstance(getattr(one, "id", None), str):
                continue
            told = said(one)
            if told.role in ("system", "user") and not place.heard.said(told):
                event = self.message(place, one)
                if event is not None:
                    made.append(event)
        return made
