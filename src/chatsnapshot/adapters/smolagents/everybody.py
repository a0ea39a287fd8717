"""Everybody who records one run: events are built for each of them, under one lock, and recorded."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.smolagents.watching import Given, Watch

if TYPE_CHECKING:
    from chatsnapshot.adapters.observed import ObservedRun
    from chatsnapshot.adapters.smolagents.recorder import SmolagentsRecorder

__all__ = ["Everybody", "harmless"]

F = TypeVar("F", bound=Callable[..., Any])
Events = Iterable[Event | None]


class Everybody:
    """The watches of one run. ``outer`` are those of the run around."""

    def __init__(
        self, recorders: Sequence[SmolagentsRecorder], given: Given, outer: Everybody | None
    ) -> None:
        self.lock = threading.RLock()
        """Tools run in threads."""
        self.recorders = list(recorders)
        self.watches: list[Watch] = []
        for recorder in recorders:
            with recorder.guarded():
                above = None if outer is None else outer.of(recorder)
                self.watches.append(Watch(recorder, given, above))

    def of(self, recorder: SmolagentsRecorder) -> Watch | None:
        """Who records the run in the ledger of this recorder."""
        return next((one for one in self.watches if one.recorder.ledger is recorder.ledger and one.run), None)

    def note(self, error: BaseException) -> None:
        """Count and log a mistake of the adapter."""
        self.recorders[0].note(error)

    def begin(self, key: str) -> None:
        """Begin the run."""
        self._each(lambda watch: watch.begin(key))

    def record(self, events: Callable[[ObservedRun], Events]) -> None:
        """Record what this makes of each run, with what was held."""
        self._each(lambda watch: events(watch.run) if watch.run is not None else ())

    def hold(self, events: Callable[[ObservedRun], Events]) -> None:
        """Keep what this makes of each run, to be recorded with the next events."""
        self._each(lambda watch: events(watch.run) if watch.run is not None else (), hold=True)

    def end(self) -> None:
        """Nothing more happens in the run."""
        for watch in self.watches:
            with watch.recorder.guarded():
                if watch.run is not None:
                    watch.recorder.end(watch.run)

    @contextmanager
    def inside(self, call_id: str | None) -> Iterator[None]:
        """Around what a tool call executes, in this thread; ``None``: around nothing of the kind."""
        with ExitStack() as stack:
            for watch in self.watches if call_id is not None else ():
                with watch.recorder.guarded():
                    if watch.run is not None:
                        stack.enter_context(watch.run.inside(call_id))
            yield

    def _each(self, events: Callable[[Watch], Events], *, hold: bool = False) -> None:
        for watch in self.watches:
            with watch.recorder.guarded():
                with self.lock:
                    made = [one for one in events(watch) if one is not None]
                    if hold:
                        watch.held += made
                        continue
                    made, watch.held = [*watch.held, *made], []
                watch.recorder.record(*made)


def harmless(method: F) -> F:
    """A method of something with ``everybody``: its own mistakes are counted, and it gives ``None`` then."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.everybody.note(error)
            return None

    return guarded  # type: ignore[return-value]
