"""Taps on the streams of the classic line: they see every event and answer, and hand the same on.

A watched call is tapped where AG2 puts an event into the call's queue: in the agents' own thread or task,
before anybody else sees it and whether or not anybody reads. The user's loop stays the only reader.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

from chatsnapshot.adapters.ag2.nesting import Recording

__all__ = ["Passing", "heard", "mark", "recording_on", "tap"]

_MARK = "_chatsnapshot_recording"
_passing: ContextVar[tuple[Any, ...]] = ContextVar("chatsnapshot_ag2_passing", default=())


class Passing(AbstractContextManager[None]):
    """While a tee hands on what it has recorded, taps around it on the same ledger stay silent."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._before = _passing.get()
        _passing.set((*self._before, self._ledger))

    def __exit__(self, *error: object) -> None:
        _passing.set(self._before)


def recording_on(stream: Any, ledger: Any) -> Recording | None:
    """What records this stream into this ledger."""
    known = getattr(stream, _MARK, ())
    return next((one for one in known if one.recorder.ledger is ledger), None)


def mark(stream: Any, recording: Recording) -> None:
    """Say that this recording sees what goes over the stream."""
    setattr(stream, _MARK, (*getattr(stream, _MARK, ()), recording))


def tap(stream: Any, recording: Recording) -> None:
    """Record what AG2 puts into the stream's queue, what it holds already first, and what people answer."""
    mark(stream, recording)
    queue = stream.input_stream
    original = queue._put

    def put(item: Any) -> None:
        try:
            if not any(ledger is recording.recorder.ledger for ledger in _passing.get()):
                recording.take(item)
        finally:
            original(item)

    # Both queue modules give ``_put`` to be replaced; it is called with the queue's lock held, so that no event
    # is missed or taken twice.
    with getattr(queue, "mutex", None) or nullcontext():
        for item in list(queue.queue if hasattr(queue, "queue") else queue._queue):
            recording.take(item, here=False)
        queue._put = put
    answers = getattr(stream, "_output_stream", None)
    if answers is None:
        stream.input = heard(stream.input, recording)
        return
    give = answers._get

    def take() -> Any:
        # Whoever asked before we came waits here already, so ``input`` would be too late a place.
        answer = give()
        recording.answered(answer)
        return answer

    answers._get = take


def heard(original: Any, recording: Recording) -> Any:
    """An ``input`` that records the answer it gives, sync or async as the original."""
    if inspect.iscoroutinefunction(original):

        async def a_input(*args: Any, **kwargs: Any) -> Any:
            answer = await original(*args, **kwargs)
            recording.answered(answer)
            return answer

        return a_input

    def input(*args: Any, **kwargs: Any) -> Any:
        answer = original(*args, **kwargs)
        recording.answered(answer)
        return answer

    return input
