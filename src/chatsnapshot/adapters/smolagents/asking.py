"""What stands around models: ``generate`` and ``generate_stream`` tell the run that asks them, and nobody else.

They are put into the class that has them, and not into the model: a copy of a model is a model as any other.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from chatsnapshot.adapters.smolagents.calls import PLACE, Call

__all__ = ["around_generate", "around_generate_stream"]

_END = object()


def around_generate(function: Any) -> Any:
    """Around ``generate``."""

    @functools.wraps(function)
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _asks(self)
        if call is None:
            return function(self, *args, **kwargs)
        call.asks()
        since = (time.time_ns(), time.monotonic_ns())
        try:
            with call.asking():
                answer = function(self, *args, **kwargs)
        except BaseException as error:
            call.fails(since, error)
            raise
        call.answers(since, answer)
        return answer

    return generate


def around_generate_stream(function: Any) -> Any:
    """Around ``generate_stream``: the call is over with its last piece."""

    @functools.wraps(function)
    def generate_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _asks(self)
        if call is None:
            return function(self, *args, **kwargs)
        return _streamed(call, functools.partial(function, self, *args, **kwargs))

    return generate_stream


def _asks(model: Any) -> Call | None:
    """The run that asks this model now; ``None`` for a tool, or for a run with another one."""
    place = PLACE.get()
    if place is None or place.busy or place.in_code or place.call.model is not model:
        return None
    return place.call


def _streamed(call: Call, begin: Callable[[], Any]) -> Iterator[Any]:
    call.asks()
    since = (time.time_ns(), time.monotonic_ns())
    deltas: list[Any] = []
    try:
        with call.asking():
            stream = iter(begin())
        while True:
            with call.asking():
                delta = next(stream, _END)
            if delta is _END:
                break
            deltas.append(delta)
            yield delta
    except BaseException as error:
        call.fails(since, error)
        raise
    call.answers(since, _whole(deltas))


def _whole(deltas: list[Any]) -> Any:
    from smolagents.models import agglomerate_stream_deltas

    try:
        return agglomerate_stream_deltas(deltas)
    except Exception:
        return None  # the agent says so itself, to its caller
