"""``CrewAIRecorder``: records crews, flows and agents of CrewAI by the events of its bus."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.crewai.bus import RUNTIME, tell, tell_no_more
from chatsnapshot.adapters.crewai.observing import Observing
from chatsnapshot.adapters.custom import ObservedRun, RuntimeRecorder

__all__ = ["CrewAIRecorder", "install"]


class CrewAIRecorder(RuntimeRecorder):
    """Records everything that CrewAI runs in this process, from :meth:`attach` to :meth:`detach`.

    >>> recorder = CrewAIRecorder(ledger)
    >>> recorder.attach()
    >>> crew.kickoff()

    Also as ``with CrewAIRecorder(ledger): …``. CrewAI has one event bus a process, so there is nothing to attach to a
    single crew. A kickoff is a run with a correlation of its own; a flow's is its ``flow_id``, so that it goes on under
    it when it is resumed. The arguments are those of :class:`RuntimeRecorder`.
    """

    runtime = RUNTIME
    adapter = RUNTIME

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        self._observing = Observing(self)
        self._mutex = threading.RLock()

    def attach(self) -> Callable[[], None]:
        """Record from now on; gives :meth:`detach`. Twice is once.

        Raises :class:`MissingExtra` without CrewAI, :class:`LedgerError` when its version lacks what recording needs.
        """
        tell(self._take)
        return self.detach

    def detach(self) -> None:
        """Record nothing more."""
        tell_no_more(self._take)

    def __enter__(self) -> CrewAIRecorder:
        self.attach()
        return self

    def __exit__(self, *error: object) -> None:
        self.detach()

    def left(self, run: ObservedRun, task: asyncio.Task[Any]) -> None:
        """End a run whose task has ended without it; called on the event loop."""
        with self.guarded():
            if run.ended is None and self.run(run.key) is run:
                with self._mutex:
                    ended = self._observing.left(
                        run, "the task was cancelled" if task.cancelled() else "the task ended"
                    )
                if ended is not None:
                    self.safe.hand_over(ended)

    def _take(self, source: Any, event: Any) -> None:
        with self.guarded():
            with self._mutex:
                made = self._observing.told(source, event)
            self.record(*made)


def install(recorder: CrewAIRecorder) -> Callable[[], None]:
    """Record every run of the process; gives the function that undoes it.

    Raises :class:`TypeError` for another kind of recorder.
    """
    if not isinstance(recorder, CrewAIRecorder):
        raise TypeError(f"install() needs a CrewAIRecorder, not {type(recorder).__name__}")
    return recorder.attach()
