"""Records every agent of the process: what goes around ``Agent.iter``, which all ways of running an agent come to."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatsnapshot.adapters.pydantic_ai.recorder import PydanticAIRecorder

__all__ = ["put"]

_lock = threading.Lock()
_recorders: list[PydanticAIRecorder] = []
_around: dict[str, Any] = {}
"""``before``: what ``Agent.iter`` was; ``now``: what was put there."""


def put(recorder: PydanticAIRecorder) -> Callable[[], None]:
    """Give every run the capability of this recorder; gives what undoes it."""
    from pydantic_ai import Agent

    holder: Any = Agent
    with _lock:
        _recorders.append(recorder)
        if not _around:
            before = holder.__dict__["iter"]
            _around.update(before=before, now=_with_capabilities(before))
            holder.iter = _around["now"]

    def undo() -> None:
        with _lock:
            if recorder in _recorders:
                _recorders.remove(recorder)
            if _around and not _recorders and holder.__dict__["iter"] is _around["now"]:
                holder.iter = _around["before"]
                _around.clear()

    return undo


def _with_capabilities(before: Any) -> Any:
    @functools.wraps(before)
    def iter(self: Any, *args: Any, **options: Any) -> Any:
        given = options.get("capabilities")
        if _recorders and (given is None or isinstance(given, (list, tuple))) and not _is_durable(self):
            had = list(map(id, given or ()))  # capabilities of two recorders are equal
            ours = [one.capability for one in _recorders if id(one.capability) not in had]
            options = {**options, "capabilities": [*(given or ()), *ours]}
        return before(self, *args, **options)

    return iter


def _is_durable(agent: Any) -> bool:
    """Whether an engine such as Temporal runs the agent again and again: it refuses capabilities of a single run."""
    found: list[bool] = []
    try:
        agent.root_capability.apply(lambda one: found.append(".durable_exec." in type(one).__module__))
    except Exception:
        return False
    return any(found)
