"""The way into the runner: while there are recorders, ``Runner.run``, ``run_sync``, ``run_streamed`` tell of each call.

Runs inside of runs (agents as tools, guardrails that ask an agent, tools that run one) go the same way, so they need no
line of their own. A call that nobody records passes through as it came; signatures, results and errors stay the same.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.openai_agents.calls import CURRENT, Call
from chatsnapshot.adapters.openai_agents.failing import with_formatter
from chatsnapshot.adapters.openai_agents.given import Given
from chatsnapshot.adapters.openai_agents.hooking import hooks_of, is_ours
from chatsnapshot.adapters.openai_agents.spans import listen

if TYPE_CHECKING:
    from chatsnapshot.adapters.openai_agents.recorder import OpenAIAgentsRecorder

__all__ = ["Entrance", "entrance", "recording"]

_ASKED: ContextVar[tuple[OpenAIAgentsRecorder, ...]] = ContextVar("chatsnapshot_openai_agents_by", default=())
"""Recorders whose own ``run`` is being called: they record the next call of the runner."""

_NAMES = ("run", "run_sync", "run_streamed")


@contextmanager
def recording(recorder: OpenAIAgentsRecorder) -> Iterator[None]:
    """Around a call of the runner that this recorder records."""
    token = _ASKED.set((*_ASKED.get(), recorder))
    try:
        yield
    finally:
        _ASKED.reset(token)


class Entrance:
    """The functions around those of ``Runner``: there while there is a recorder, and gone with the last one."""

    def __init__(self) -> None:
        self.installed: list[OpenAIAgentsRecorder] = []
        """Recorders of every call in the process."""
        self._lock = threading.RLock()  # the garbage collector may close in the middle of an opening
        self._opened = 0
        self._before: dict[str, Any] = {}
        self._put: dict[str, Any] = {}

    def open(self) -> None:
        """A recorder more."""
        from agents import Runner

        listen()
        with self._lock:
            self._opened += 1
            if self._put:
                return  # also where somebody has gone around it since
            for name in _NAMES:
                before = Runner.__dict__[name]
                self._before[name] = before
                self._put[name] = classmethod(_AROUND[name](before.__func__))
                setattr(Runner, name, self._put[name])

    def close(self) -> None:
        """One less; what was around the runner goes with the last, unless somebody else went around it."""
        from agents import Runner

        with self._lock:
            self._opened -= 1
            if self._opened or any(Runner.__dict__[name] is not self._put[name] for name in self._put):
                return
            for name, before in self._before.items():
                setattr(Runner, name, before)
            self._before.clear()
            self._put.clear()


entrance = Entrance()


def _entered(
    function: Any, cls: Any, args: Any, kwargs: Mapping[str, Any], streamed: bool
) -> tuple[Call, inspect.BoundArguments] | None:
    """The recorded call that begins here; ``None`` where nobody records it."""
    asked, around = _ASKED.get(), CURRENT.get()
    inherited = [watch.recorder for watch in around.watches] if around is not None else []
    try:
        bound = inspect.signature(function).bind(cls, *args, **kwargs)
    except TypeError:
        return None  # the runner says so better
    recorders = [*asked, *inherited, *entrance.installed]
    try:
        hooks = bound.arguments.get("hooks")
        if (ours := is_ours(hooks)) is not None:
            recorders.insert(0, ours)
            hooks = None
        recorders = list(dict.fromkeys(recorders))
        if not recorders:
            return None
        listen()
        call = Call(recorders, Given(bound.arguments, streamed=streamed))
        if not call.watches:
            return None
        if hooks is None or _are_hooks(hooks):
            bound.arguments["hooks"] = hooks_of(call, hooks)
            bound.arguments["run_config"] = with_formatter(bound.arguments.get("run_config"))
        return call, bound
    except Exception as error:
        for recorder in recorders[:1]:
            recorder.note(error)
        return None


def _are_hooks(hooks: Any) -> bool:
    from agents.lifecycle import RunHooksBase

    return isinstance(hooks, RunHooksBase)


class _Inside:
    """Around a recorded call: what runs inside belongs to it, and an error that leaves it is told as its end."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        self._current, self._asked = CURRENT.set(self._call), _ASKED.set(())

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                self._call.record(self._call.broke(error))
        finally:
            CURRENT.reset(self._current)
            _ASKED.reset(self._asked)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None and not isinstance(error, asyncio.CancelledError):
                await self._call.arecord(self._call.broke(error))
                error = None
        finally:
            self.__exit__(kind, error, trace)


def _around_run(function: Any) -> Any:
    @functools.wraps(function)
    async def run(cls: Any, *args: Any, **kwargs: Any) -> Any:
        entered = _entered(function, cls, args, kwargs, False)
        if entered is None:
            return await function(cls, *args, **kwargs)
        call, bound = entered
        async with _Inside(call):
            await call.open()
            result = await function(*bound.args, **bound.kwargs)
        await call.arecord(call.finished(result))
        return result

    return run


def _around_plain(function: Any, streamed: bool) -> Any:
    @functools.wraps(function)
    def run(cls: Any, *args: Any, **kwargs: Any) -> Any:
        entered = _entered(function, cls, args, kwargs, streamed)
        if entered is None:
            return function(cls, *args, **kwargs)
        call, bound = entered
        with _Inside(call):
            call.open_now()
            result = function(*bound.args, **bound.kwargs)
        if streamed:
            result.run_loop_task.add_done_callback(functools.partial(_stream_ended, call, result))
        else:
            call.record(call.finished(result))
        return result

    return run


def _stream_ended(call: Call, result: Any, task: asyncio.Task[Any]) -> None:
    """The background task of a stream is over; what its consumer is told last may still be on the way."""
    if task.cancelled():
        call.record(call.broke(asyncio.CancelledError()))
        return
    error = task.exception()
    if error is None:
        error = getattr(result, "_stored_exception", None)
    call.record(call.finished(result) if error is None else call.broke(error))


_AROUND: dict[str, Callable[[Any], Any]] = {
    "run": _around_run,
    "run_sync": functools.partial(_around_plain, streamed=False),
    "run_streamed": functools.partial(_around_plain, streamed=True),
}
