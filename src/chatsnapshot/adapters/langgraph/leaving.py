"""Calls whose task was cancelled before LangGraph tells of their end, as when ``astream_events`` is left at its start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["when_cancelled"]


def when_cancelled(then: Callable[[], None]) -> Callable[[], None] | None:
    """Call ``then`` when the task of here and now ends as a cancelled one; gives what takes that back.

    A task that ends otherwise says nothing: the next step of a stream may be asked for by another one.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    if task is None:
        return None

    def ended(task: asyncio.Task[object]) -> None:
        if task.cancelled():
            then()

    task.add_done_callback(ended)

    def undo() -> None:
        task.remove_done_callback(ended)

    return undo
