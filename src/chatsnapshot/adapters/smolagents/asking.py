"""Listens to models while recorded runs use them: ``generate`` and ``generate_stream`` of that very object."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from chatsnapshot.adapters.smolagents.calls import PLACE, Call

__all__ = ["listen"]

_lock = threading.Lock()
_heard: dict[int, _Ears] = {}


class _Ears:
    """What was put around one model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.runs = 0
        self._before: dict[str, Any] = {}
        self._put: dict[str, Any] = {}

    def put(self) -> None:
        for name, around in _AROUND.items():
            function = getattr(self.model, name, None)
            if not callable(function):
                continue
            had = vars(self.model)
            if name in had:
                self._before[name] = had[name]
            self._put[name] = around(self.model, function)
            setattr(self.model, name, self._put[name])

    def take_away(self) -> None:
        had = vars(self.model)
        for name, put in self._put.items():
            if had.get(name) is not put:
                continue  # somebody has gone around it since
            if name in self._before:
                setattr(self.model, name, self._before[name])
            else:
                delattr(self.model, name)


def listen(model: Any) -> Callable[[], None]:
    """Listen to a model; gives what ends it. The model is as it was when the last that listens ends.

    Raises where the model takes no attributes: then the steps tell of its answers.
    """
    with _lock:
        ears = _heard.get(id(model))
        if ears is None:
            ears = _Ears(model)
            ears.put()
            _heard[id(model)] = ears
        ears.runs += 1

    def end() -> None:
        with _lock:
            ears.runs -= 1
            if not ears.runs and _heard.get(id(model)) is ears:
                del _heard[id(model)]
                ears.take_away()

    return end


def _asked(model: Any) -> Call | None:
    """The run that asks this model now; ``None`` for a tool, or for a run with another one."""
    place = PLACE.get()
    if place is None or place.busy or place.in_code or place.call.model is not model:
        return None
    return place.call


def _around_generate(model: Any, function: Any) -> Any:
    @functools.wraps(function)
    def generate(*args: Any, **kwargs: Any) -> Any:
        call = _asked(model)
        if call is None:
            return function(*args, **kwargs)
        call.asks()
        since = (time.time_ns(), time.monotonic_ns())
        try:
            with call.asking():
                answer = function(*args, **kwargs)
        except BaseException as error:
            call.fails(since, error)
            raise
        call.answers(since, answer)
        return answer

    return generate


def _around_stream(model: Any, function: Any) -> Any:
    @functools.wraps(function)
    def generate_stream(*args: Any, **kwargs: Any) -> Any:
        call = _asked(model)
        if call is None:
            return function(*args, **kwargs)
        return _streamed(call, lambda: function(*args, **kwargs))

    return generate_stream


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


_END = object()
_AROUND = {"generate": _around_generate, "generate_stream": _around_stream}


def _whole(deltas: list[Any]) -> Any:
    from smolagents.models import agglomerate_stream_deltas

    try:
        return agglomerate_stream_deltas(deltas)
    except Exception:
        return None  # the agent says so itself, to its caller
