"""Which run of ours each run of LangChain is in: what all callbacks share."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.langgraph.place import Facts, Heard, Place, Tree
from chatsnapshot.adapters.langgraph.telling import Said, role_of, said
from chatsnapshot.adapters.places import Parent, Token, enter, leave
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.langgraph.recorder import LangGraphRecorder

__all__ = ["Watch"]

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

    # --- code inside of nodes and tools -----------------------------------------------------------------------

    def enter(self, place: Place) -> None:
        """From here on what is recorded in a node or tool is caused by it; called inside of the place.

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
            run.last,
            run.run_id,
            run.agent,
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

    def message(self, place: Place, message: Any, told: Said | None = None) -> Event | None:
        """The event of a message; ``None`` for one that was recorded, or is told as the result of a tool."""
        if place.heard.knows(message):
            return None
        told = told or said(message)
        place.heard.hear(message, told)
        if told.role == "tool" and told.call_id in place.heard.results:
            return None
        return place.run.message(told.role, told.parts, name=told.name)

    def given(self, place: Place, messages: Sequence[Any]) -> list[Event]:
        """The messages that a run is called with: in a thread those that are new in it, else all."""
        if place.facts.thread_id is not None:
            last = max((n for n, one in enumerate(messages) if role_of(one) == "assistant"), default=-1)
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
                event = self.message(place, one, told)
                if event is not None:
                    made.append(event)
        return made
