"""Follows one piece of a runtime's code to its end, be it a call, a coroutine or a stream, and changes nothing of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.policy import Event

__all__ = ["STOPPED", "Piece", "Told", "acalled", "astreamed", "called", "streamed"]

Told = list[tuple[RuntimeRecorder, list[Event | None]]]
"""What each recorder is to record."""

STOPPED = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""What ends a run from outside."""

_END = object()


class Piece:
    """What is recorded around one piece of code: before it, while it is inside, for what it yields, at its end.

    Nothing of a piece raises: its mistakes are counted by the recorder that they concern.
    """

    def begin(self) -> Told:
        """Before the code runs."""
        return []

    async def ready(self) -> None:
        """What is looked up before code of an event loop runs, without blocking the loop."""

    def inside(self) -> AbstractContextManager[Any]:
        """Around each stretch of the code, entered and left in one context."""
        return nullcontext()

    def saw(self, item: Any) -> None:
        """The code yielded this."""

    def over(self, result: Any, error: BaseException | None) -> Told:
        """The code came to its end; a stream gives no result."""
        return []

    def recorded(self) -> None:
        """What was told of its end is on record."""

    def goes_on(self, result: Any) -> Any:
        """What to hand on in place of a result that the piece is not over with; ``None``: it is over."""
        return None


def called(piece: Piece, work: Callable[[], Any]) -> Any:
    """Run ``work`` and give what it gives."""
    _tell(piece.begin())
    try:
        with piece.inside():
            result = work()
    except BaseException as error:
        _tell(piece.over(None, error))
        raise
    if (instead := piece.goes_on(result)) is not None:
        return instead
    _tell(piece.over(result, None))
    piece.recorded()
    return result


async def acalled(piece: Piece, work: Callable[[], Awaitable[Any]]) -> Any:
    """:func:`called`, for a coroutine."""
    await piece.ready()
    await _atell(piece.begin())
    try:
        with piece.inside():
            result = await work()
    except BaseException as error:
        await _ended(piece, error)
        raise
    if (instead := piece.goes_on(result)) is not None:
        return instead
    await _atell(piece.over(result, None))
    piece.recorded()
    return result


def streamed(piece: Piece, items: Iterable[Any], *, begin: bool = True) -> Generator[Any, None, Any]:
    """Hand on what ``items`` yields, and what it returns."""
    if begin:
        _tell(piece.begin())
    coming = iter(items)
    returned: Any = None
    try:
        while True:
            with piece.inside():
                try:
                    item = next(coming)
                except StopIteration as done:
                    returned = done.value
                    break
            piece.saw(item)
            yield item
    except BaseException as error:
        _close(piece, coming)
        _tell(piece.over(None, error))
        raise
    _tell(piece.over(None, None))
    piece.recorded()
    return returned


async def astreamed(piece: Piece, items: Any, *, begin: bool = True) -> AsyncIterator[Any]:
    """:func:`streamed`, for an asynchronous stream."""
    await piece.ready()
    if begin:
        await _atell(piece.begin())
    coming = items.__aiter__()
    try:
        while True:
            with piece.inside():
                item = await _next(coming)
            if item is _END:
                break
            piece.saw(item)
            yield item
    except BaseException as error:
        close = getattr(coming, "aclose", None)
        if close is not None:
            with piece.inside():
                await close()
        await _ended(piece, error)
        raise
    await _atell(piece.over(None, None))
    piece.recorded()


async def _next(coming: Any) -> Any:
    try:
        return await coming.__anext__()
    except StopAsyncIteration:
        return _END


def _close(piece: Piece, coming: Any) -> None:
    if inspect.isgenerator(coming):
        with piece.inside():
            coming.close()


async def _ended(piece: Piece, error: BaseException) -> None:
    told = piece.over(None, error)
    if isinstance(error, STOPPED):
        _tell(told)  # whoever stops the run does not wait
    else:
        await _atell(told)


def _tell(told: Told) -> None:
    for recorder, events in told:
        recorder.record(*events)


async def _atell(told: Told) -> None:
    for recorder, events in told:
        await recorder.arecord(*events)
