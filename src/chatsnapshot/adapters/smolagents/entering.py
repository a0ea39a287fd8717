"""The way into agents: while there are recorders, what stands around ``run`` and the tools tells of each call.

Agents that other agents call go the same way, so they need no line of their own. What nobody records passes through as
it came; signatures, results and errors stay the same.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Generator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.smolagents.asking import around_generate, around_generate_stream
from chatsnapshot.adapters.smolagents.calls import PLACE, Call
from chatsnapshot.adapters.smolagents.executing import (
    around_agent,
    around_execute,
    around_process,
    around_tool,
)
from chatsnapshot.adapters.smolagents.watching import Given
from chatsnapshot.clock import uuid7, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.smolagents.recorder import SmolagentsRecorder

__all__ = ["Entrance", "entrance"]


class Entrance:
    """What was put around smolagents: there while there is a recorder, and gone with the last one."""

    def __init__(self) -> None:
        self.installed: list[SmolagentsRecorder] = []
        """Recorders of every agent in the process."""
        self._lock = threading.RLock()  # the garbage collector may close in the middle of an opening
        self._opened = 0
        self._put: dict[tuple[Any, str], tuple[Any, Any]] = {}
        """Where, and under which name, to what was there and what was put there."""
        self._attached: MutableMapping[Any, list[SmolagentsRecorder]] = weakref.WeakKeyDictionary()
        self._conversations: MutableMapping[Any, str] = weakref.WeakKeyDictionary()

    def open(self) -> None:
        """A recorder more."""
        from smolagents import MultiStepAgent, Tool, ToolCallingAgent, local_python_executor, tools

        with self._lock:
            self._opened += 1
            self._go_around(MultiStepAgent, "run", _around_run)
            self._go_around(MultiStepAgent, "_run_stream", _around_stream)
            self._go_around(MultiStepAgent, "__call__", around_agent)
            self._go_around(ToolCallingAgent, "process_tool_calls", around_process)
            self._go_around(ToolCallingAgent, "execute_tool_call", around_execute)
            for kind in (Tool, getattr(tools, "PipelineTool", Tool)):
                self._go_around(kind, "__call__", around_tool)
            if vars(local_python_executor).get("ThreadPoolExecutor") is ThreadPoolExecutor:
                self._go_around(local_python_executor, "ThreadPoolExecutor", lambda before: _Threads)

    def hear(self, model: Any) -> None:
        """Listen to the models of this class, from here on."""
        with self._lock:
            for name, around in _MODELS.items():
                holder = next((kind for kind in type(model).__mro__ if name in vars(kind)), None)
                if self._opened and holder is not None:
                    self._go_around(holder, name, around)

    def _go_around(self, holder: Any, name: str, around: Callable[[Any], Any]) -> None:
        before = vars(holder).get(name)
        if before is None or (holder, name) in self._put:
            return  # it is there, also where somebody has gone around it since
        put = around(before)
        setattr(holder, name, put)
        self._put[holder, name] = (before, put)

    def close(self) -> None:
        """One less; what was put around goes with the last, but for what somebody else has gone around."""
        with self._lock:
            self._opened -= 1
            if self._opened:
                return
            for (holder, name), (before, put) in list(self._put.items()):
                if vars(holder).get(name) is put:
                    setattr(holder, name, before)
                    del self._put[holder, name]

    def attach(self, agent: Any, recorder: SmolagentsRecorder) -> None:
        """Record the runs of an agent."""
        with self._lock:
            known = self._attached.setdefault(agent, [])
            if recorder not in known:
                known.append(recorder)

    def detach(self, agent: Any, recorder: SmolagentsRecorder) -> None:
        """Record it no more."""
        with self._lock:
            known = self._attached.get(agent, [])
            if recorder in known:
                known.remove(recorder)

    def recorders(self, agent: Any) -> list[SmolagentsRecorder]:
        """Who records a run of this agent that begins here."""
        outer = PLACE.get()
        around = outer.call.everybody.recorders if outer is not None else []
        return list(dict.fromkeys([*self._attached.get(agent, ()), *around, *self.installed]))

    def conversation(self, agent: Any, *, goes_on: bool) -> str:
        """The conversation of a run that begins: that of the run before where it goes on with it, else a new one."""
        with self._lock:
            known = self._conversations.get(agent) if goes_on else None
            if known is None:
                known = self._conversations[agent] = uuid_text(uuid7()[0])
            return known


_MODELS = {"generate": around_generate, "generate_stream": around_generate_stream}
entrance = Entrance()


def _entered(function: Any, agent: Any, args: Any, kwargs: Any) -> Call | None:
    """The recorded call that begins here; ``None`` where nobody records it."""
    recorders = entrance.recorders(agent)
    if not recorders:
        return None
    try:
        bound = inspect.signature(function).bind(agent, *args, **kwargs)
    except TypeError:
        return None  # the agent says so better
    call: Call | None = None
    with recorders[0].guarded():
        given = bound.arguments
        conversation = entrance.conversation(agent, goes_on=not given.get("reset", True))
        call = Call(recorders, Given.of(agent, given, conversation))
    return call


def _around_run(function: Any) -> Any:
    @functools.wraps(function)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _entered(function, self, args, kwargs)
        if call is None:
            return function(self, *args, **kwargs)
        if call.given.arguments.get("stream"):
            # It begins when its first step is asked for; until then only what goes wrong is told.
            try:
                with call.here():
                    return function(self, *args, **kwargs)
            except BaseException as error:
                call.begin()
                call.broke(error)
                raise
        call.begin()
        try:
            with call.here():
                result = function(self, *args, **kwargs)
        except BaseException as error:
            call.broke(error)
            raise
        call.finished(getattr(result, "output", result))
        return result

    return run


def _around_stream(function: Any) -> Any:
    @functools.wraps(function)
    def _run_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps = function(self, *args, **kwargs)
        place = PLACE.get()
        if place is None or place.busy or place.call.agent is not self or place.call.over:
            return steps
        return _driven(place.call, steps)

    return _run_stream


def _driven(call: Call, steps: Any) -> Generator[Any, Any, Any]:
    """The steps of a run, each looked at before it is given to whoever asked for it."""
    call.begin()
    _hear(call)
    advance: Callable[[], Any] = functools.partial(next, steps)
    while True:
        try:
            with call.here():
                item = advance()
        except StopIteration as stop:
            return stop.value
        except BaseException as error:
            call.broke(error)
            raise
        call.saw(item)
        try:
            sent = yield item
            advance = functools.partial(steps.send, sent)
        except GeneratorExit as stopped:
            try:
                with call.here():
                    steps.close()
            finally:
                call.broke(stopped)
            raise
        except BaseException as thrown:
            advance = functools.partial(steps.throw, thrown)


def _hear(call: Call) -> None:
    with call.everybody.recorders[0].guarded(), suppress(TypeError):
        entrance.hear(call.model)  # a class that takes nothing: the steps tell of the answers


class _Threads(ThreadPoolExecutor):
    """Where a model's code is executed with a time limit: in a thread, which knows here whose code that is."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As it is; what is recorded in the thread belongs to the code."""
        place = PLACE.get()
        if place is None or not place.in_code:
            return super().submit(fn, *args, **kwargs)
        call = place.call

        def inside() -> Any:
            with call.here():
                return fn(*args, **kwargs)

        return super().submit(inside)
