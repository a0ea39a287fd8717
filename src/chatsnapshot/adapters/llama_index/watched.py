"""One run as the spans tell of it: built by one thread at a time, paused and gone on with, begun late where it must."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.observed import ObservedRun, Unanswered
from chatsnapshot.adapters.places import Parent, Token, enter, leave
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.surroundings import parent_of

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.recorder import LlamaIndexRecorder

__all__ = ["SILENT", "Place", "Watched", "begin"]

Start = Callable[[ObservedRun], Event]


class Watched:
    """A run of ours for one span: its stretches, one after the other, when it waits for somebody in between."""

    def __init__(self, recorder: LlamaIndexRecorder, run: ObservedRun, start: Start) -> None:
        self.recorder, self.run = recorder, run
        self.lock = threading.RLock()
        self.heard: set[tuple[str, str]] = set()
        """Who said what in it, for the prompts that models are asked with."""
        self.tells_prompts = True
        """Whether it tells what models are asked with: not where its own messages say so."""
        self.last_message: str | None = None
        """The last message of a model."""
        self.said: str | None = None
        """What that message says."""
        self.pending: list[dict[str, Any]] = []
        """The calls of tools that it asks for and nobody has made yet."""
        self.next_cause: str | None = None
        """What the next call of a model follows from, where something said so."""
        self.streams = 0
        """Answers that are still being read."""
        self.closing = False
        """Whether it ends with the last of these."""
        self.paused = False
        self.spans: set[str] = set()
        self.record: Callable[..., Any] = recorder.record
        """How events are recorded: handed over, where the garbage collector tells of the end."""
        self._start = start
        self._held: Start | None = start

    @property
    def held(self) -> bool:
        """Whether its start is not told yet: an answer may come before it."""
        return self._held is not None

    def open(self, events: list[Any]) -> None:
        """Tell of the start, where that was not done."""
        start, self._held = self._held, None
        if start is not None:
            events.append(start(self.run))

    def go_on(self) -> None:
        """Begin the stretch after a pause; its start is held."""
        if not self.paused:
            return
        self.paused = False
        before = self.run
        run = self.recorder.begin(
            before.agent,
            key=before.key,
            correlation_id=before.correlation_id,
            parent=before.parent,
            resumed=True,
            earlier=before.left(),
        )
        if run is not None:
            self.run, self._held = run, self._start

    @contextmanager
    def at(self, place: Place) -> Iterator[tuple[ObservedRun, list[Any]]]:
        """Build events of a place, after what was last in it; they are recorded at the end."""
        context = place.context
        with self.lock:
            events: list[Any] = []
            self.go_on()
            self.open(events)
            if context.last is not None:
                self.run.last = context.last
            over, beside = self.run.ended is not None, self.run.unanswered
            if not context.is_run:
                self.run.unanswered = context.unanswered
            yield self.run, events
            if not context.is_run:
                context.unanswered, self.run.unanswered = self.run.unanswered, beside
            if over:
                return
            if not context.is_run:
                context.last = self.run.last
            self.record(*events)

    def pause(self, reason: str, **facts: Any) -> None:
        """It waits for somebody; held or paused already, it goes on waiting."""
        with self.lock:
            if self.held or self.paused or self.run.ended is not None:
                return
            self.recorder.record(self.run.paused(reason, **facts))
            self.recorder.end(self.run)
            self.paused = True

    def end(self, make: Callable[[ObservedRun], Event | None], *, left_waiting: bool = False) -> None:
        """The run is over; ``left_waiting``: where it waits for somebody, it goes on doing so."""
        with self.lock:
            if not (left_waiting and (self.held or self.paused)):
                events: list[Any] = []
                self.go_on()
                self.open(events)
                self.record(*events, make(self.run))
            self.recorder.end(self.run)


class Place:
    """What a span is to us: a run, a step or a tool call in it, a call of a model, a search."""

    def __init__(
        self, kind: str, span_id: str, watched: Watched | None, above: Place | None, name: str = ""
    ) -> None:
        self.kind, self.span_id, self.name = kind, span_id, name
        self._watched = watched
        self.above = above
        self.last: str | None = None
        """The last event in this context; only of steps and tool calls."""
        self.unanswered = Unanswered()
        """What the next message of a model in this context answers; only of these, too."""
        self.token: Token | None = None
        self.call_id: str | None = None
        self.facts: dict[str, Any] = {}
        self.done = False

    @property
    def watched(self) -> Watched:
        """The run that it is in."""
        assert self._watched is not None
        return self._watched

    @property
    def is_run(self) -> bool:
        """Whether it is a run of its own."""
        return self.above is None or self.above._watched is not self._watched

    @property
    def context(self) -> Place:
        """The nearest step or tool call, or the run."""
        place = self
        while not place.is_run and place.kind not in ("step", "tool"):
            assert place.above is not None
            place = place.above
        return place

    def within(self, run: ObservedRun, cause: str | None) -> None:
        """From here on, in this context, what is recorded is caused by that event."""
        self.token = enter(run.ledger, run.correlation_id, cause, run.run_id, run.agent)

    def outside(self) -> None:
        """Undo :meth:`within`."""
        leave(self.token)


SILENT = Place("silent", "", None, None)
"""What another recorder tells of, and everything inside."""


def begin(
    recorder: LlamaIndexRecorder, span_id: str, name: str, above: Place | None, **options: Any
) -> ObservedRun | None:
    """A run begins: a child where it is inside of another one; ``None`` where another recorder tells of it."""
    if above is not None:
        outer = above.watched.run
        around = outer.parent.cause if outer.parent is not None else None
        found: Parent | None = parent_of(recorder.parent_here(), outer, around)
        if found is not None:
            options["parent"] = found
    return recorder.begin(name, key=span_id, **options)
