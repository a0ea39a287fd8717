"""Runs functions at the same moment on threads or tasks, and gives what each returned or raised."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from chatsnapshot.testing.expecting import Failed

__all__ = ["in_tasks", "in_threads", "run_async"]

T = TypeVar("T")

JOIN_SECONDS_MAX = 45.0


def in_threads(functions: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Call each on a thread of its own, all let go at once; a list of results, or the error where one was raised."""
    gate = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)

    def run(place: int, function: Callable[[], T]) -> None:
        gate.wait()
        try:
            results[place] = function()
        except Exception as error:
            results[place] = error

    threads = [
        threading.Thread(target=run, args=(place, function), daemon=True)
        for place, function in enumerate(functions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS_MAX)
        if thread.is_alive():
            raise Failed(f"a thread is not over after {JOIN_SECONDS_MAX:g} s: it hangs")
    return results


def in_tasks(functions: Sequence[Callable[[], Awaitable[T]]]) -> list[T | BaseException]:
    """Await all in one event loop of their own."""

    async def gather() -> list[T | BaseException]:
        return list(await asyncio.gather(*[function() for function in functions], return_exceptions=True))

    found: list[T | BaseException] = run_async(gather())
    return found


def run_async(coroutine: Any) -> Any:
    """``asyncio.run`` with a limit, and nothing left behind: tasks that are still there are a failure."""

    async def bounded() -> Any:
        result = await asyncio.wait_for(coroutine, JOIN_SECONDS_MAX)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            raise Failed(f"tasks that nobody awaits are left: {left}")
        return result

    return asyncio.run(bounded())
