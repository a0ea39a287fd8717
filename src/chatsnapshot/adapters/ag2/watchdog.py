"""The lost wake-up of ``run_iter``: AG2's agents wait for a step that was made, the reader for their event.

AG2's agents put an event into the queue, and only then clear the flag on which they wait for the next step
(``StepController.wait_for_step``); a reader that takes the event and steps in between is not heard, and both
wait for ever.
"""

from __future__ import annotations

import queue
from typing import Any

__all__ = ["WAKE_SECONDS", "wake_lost_steps"]

WAKE_SECONDS = 0.25
"""How long a reader waits for an event before its last step is made again."""


def wake_lost_steps(events: queue.Queue[Any], controller: Any) -> None:
    """Let a reader that waits for an event make its last step again from time to time.

    It changes nothing where none was lost. The step is made while the queue is locked and empty: either the
    agents wait for the step that the reader has made before it waited, or their next event is still to come,
    and they clear the flag after it. So they never get ahead of the reader.
    """
    get = events.get

    def patient(block: bool = True, timeout: float | None = None) -> Any:
        if not block or timeout is not None:
            return get(block, timeout)
        while True:
            try:
                return get(True, WAKE_SECONDS)
            except queue.Empty:
                with events.mutex:
                    if not events._qsize():
                        controller.step()

    events.get = patient  # type: ignore[method-assign]
