"""Auto mode for Strands Agents: every agent, swarm and graph of the process has the recorder's hooks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from chatsnapshot.adapters.strands.recorder import StrandsRecorder, hooks

__all__ = ["install"]


def install(recorder: StrandsRecorder) -> Callable[[], None]:
    """Record every agent, swarm and graph from here on, also those that exist; gives the function that undoes it.

    What has the recorder's hooks already is recorded once. Raises :class:`TypeError` for another kind of recorder.
    """
    if not isinstance(recorder, StrandsRecorder):
        raise TypeError(f"install() needs a StrandsRecorder, not {type(recorder).__name__}")
    registry: Any = hooks().HookRegistry
    before, after = recorder.callbacks()
    original = registry.get_callbacks_for
    active = True

    @functools.wraps(original)
    def get_callbacks_for(self: Any, event: Any) -> Iterator[Any]:
        recorded = active and self not in recorder.known
        if recorded and type(event) in before:
            yield before[type(event)]
        yield from original(self, event)
        if recorded and type(event) in after:
            yield after[type(event)]

    registry.get_callbacks_for = get_callbacks_for

    def undo() -> None:
        nonlocal active
        active = False
        if registry.get_callbacks_for is get_callbacks_for:
            registry.get_callbacks_for = original

    return undo
