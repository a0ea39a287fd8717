"""Scopes: what the events recorded inside have in common, carried by the context (threads by a helper)."""

from __future__ import annotations

import contextvars
import functools
import inspect
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from chatsnapshot.clock import uuid_bytes

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.ledger import Ledger

__all__ = [
    "Frame",
    "Scope",
    "Within",
    "current_frame",
    "in_context",
    "in_context_async",
    "in_copied_context",
    "innermost_frame",
    "new_frame",
    "scope_owner",
]

F = TypeVar("F", bound=Callable[..., Any])


class Frame(NamedTuple):
    """What a scope fills in, its own and what it inherits."""

    owner: int
    correlation_id: str | None
    source_json: str | None
    cause: bytes | None
    run_id: str | None
    outer: Frame | None = None
    mark: object = None
    """Which scope object it is of, so that leaving finds it again, in this context and in no other."""


class Within:
    """The mark of a scope that only holds where ``here()`` is true.

    For hooks that enter a scope in the context of their caller and are not called in that context when it is over.
    """

    __slots__ = ("here",)

    def __init__(self, here: Callable[[], bool]) -> None:
        self.here = here


_numbers = itertools.count()
_innermost: contextvars.ContextVar[Frame | None] = contextvars.ContextVar("chatsnapshot_scope", default=None)


def current_frame(owner: int) -> Frame | None:
    """The innermost scope of one ledger in this context."""
    frame = _innermost.get()
    while frame is not None and (frame.owner != owner or not _holds(frame)):
        frame = frame.outer
    return frame


def innermost_frame() -> Frame | None:
    """The innermost scope of this context, of whichever ledger."""
    frame = _innermost.get()
    while frame is not None and not _holds(frame):
        frame = frame.outer
    return frame


def _holds(frame: Frame) -> bool:
    return not isinstance(frame.mark, Within) or frame.mark.here()


def scope_owner(ledger_id: str) -> int:
    """What tells the scopes of one ledger from those of every other one; the same where it is opened twice."""
    # Behind a spool the id is not known before the service has answered.
    return int.from_bytes(uuid_bytes(ledger_id), "big") if ledger_id else -1 - next(_numbers)


def new_frame(
    owner: int, correlation_id: str | None, source_json: str | None, cause: bytes | None, run_id: str | None
) -> Frame:
    """A frame of one ledger; what is ``None`` comes from the innermost one of here and now."""
    outer = current_frame(owner)
    if outer is None:
        return Frame(owner, correlation_id, source_json, cause, run_id)
    return Frame(
        owner,
        outer.correlation_id if correlation_id is None else correlation_id,
        outer.source_json if source_json is None else source_json,
        outer.cause if cause is None else cause,
        outer.run_id if run_id is None else run_id,
    )


def _without(frame: Frame | None, mark: object) -> Frame | None:
    """The frames without the innermost one of that mark; scopes may be left in any order."""
    if frame is None:
        return None
    if frame.mark is mark:
        return frame.outer
    rest = _without(frame.outer, mark)
    return frame if rest is frame.outer else frame._replace(outer=rest)


class Scope:
    """A context manager (``with`` and ``async with``) that fills in correlation, source and cause. It records nothing.

    The cause is the one given, for every event inside, not the event before. Scopes nest: what an inner one leaves out
    comes from the outer one. The scope's own :meth:`record` works wherever the scope object goes, also in threads.
    """

    def __init__(self, ledger: Ledger, frame: Frame, mark: object = None) -> None:
        self._ledger = ledger
        self._frame = frame
        self._mark = object() if mark is None else mark

    @property
    def correlation_id(self) -> str | None:
        """The correlation that events inside belong to."""
        return self._frame.correlation_id

    def record(self, event_type: str, payload: Any = None, **options: Any) -> Any:
        """As ``ledger.record``, with what this scope fills in."""
        return self._ledger._record(self._frame, event_type, payload, options, options.pop("wait", True))

    async def arecord(self, event_type: str, payload: Any = None, **options: Any) -> LedgerEntry:
        """As ``ledger.arecord``, with what this scope fills in."""
        return await self._ledger._arecord(self._frame, event_type, payload, options)

    def _enter(self) -> None:
        _innermost.set(self._frame._replace(outer=_innermost.get(), mark=self._mark))

    def _leave(self) -> None:
        # Not found: left in another context (an async generator closed by the loop), and that context ends with it.
        _innermost.set(_without(_innermost.get(), self._mark))

    def __enter__(self) -> Scope:
        self._enter()
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    async def __aenter__(self) -> Scope:
        self._enter()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._leave()


def in_copied_context(function: F) -> F:
    """Bind a callable to a copy of the caller's context, so that scopes hold in other threads and in generators.

    Works for functions, coroutine functions, generator functions and async generator functions. Each call gets a copy of
    the context of the moment of binding; a generator runs in its own copy and never leaks a scope to its consumer.
    """
    bound = contextvars.copy_context()
    wrapper: Callable[..., Any]
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return in_context_async(function(*args, **kwargs), bound.run(contextvars.copy_context))

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return in_context(function(*args, **kwargs), bound.run(contextvars.copy_context))

    elif inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await _Stepped(function(*args, **kwargs), bound.run(contextvars.copy_context))

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return bound.run(contextvars.copy_context).run(function, *args, **kwargs)

    return wrapper  # type: ignore[return-value]


class _Stepped:
    """An awaitable whose every step runs in one given context."""

    def __init__(self, awaitable: Awaitable[Any], context: contextvars.Context) -> None:
        self._awaitable = awaitable
        self._context = context

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Generator[Any, Any, Any] = self._awaitable.__await__()
        run: Callable[..., Any] = self._context.run
        send: Any = None
        failure: BaseException | None = None
        while True:
            try:
                if failure is None:
                    waited_for = run(steps.send, send)
                else:
                    failure, raised = None, failure
                    waited_for = run(steps.throw, raised)
            except StopIteration as stop:
                return stop.value
            try:
                send = yield waited_for
            except BaseException as error:
                failure = error


async def in_context_async(
    generator: AsyncGenerator[Any, Any], context: contextvars.Context
) -> AsyncGenerator[Any, Any]:
    """Hand every step (``asend``, ``athrow``, ``aclose``) on to a generator whose steps run in one context."""
    step: Callable[..., Awaitable[Any]] = generator.asend
    given: Any = None
    while True:
        try:
            item = await _Stepped(step(given), context)
        except StopAsyncIteration:
            return
        try:
            given = yield item
            step = generator.asend
        except GeneratorExit:
            await _Stepped(generator.aclose(), context)
            raise
        except BaseException as error:
            step, given = generator.athrow, error


def in_context(generator: Generator[Any, Any, Any], context: contextvars.Context) -> Generator[Any, Any, Any]:
    """Hand every step (``send``, ``throw``, ``close``) on to a generator whose steps run in one context."""
    step: Callable[..., Any] = generator.send
    given: Any = None
    while True:
        try:
            item = context.run(step, given)
        except StopIteration as stop:
            return stop.value
        try:
            given = yield item
            step = generator.send
        except GeneratorExit:
            context.run(generator.close)
            raise
        except BaseException as error:
            step, given = generator.throw, error
