"""Decorates plain functions of all four kinds, so that each call is recorded and behaves as before."""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from chatsnapshot import jsonvalue
from chatsnapshot.scope import in_context, in_context_async

if TYPE_CHECKING:
    from chatsnapshot.calls import Call

__all__ = ["ITEMS_MAX", "decorated"]

F = TypeVar("F", bound=Callable[..., Any])
Begin = Callable[[str, "Mapping[str, Any] | None"], "Call"]

ITEMS_MAX = 1_000
"""Items of a generator that its result keeps; how many there were is always told."""


def decorated(function: F, name: str | None, begin: Begin) -> F:
    """The function, each of its calls inside of the call that ``begin`` makes of its name and arguments.

    Also for methods, and over ``staticmethod`` and ``classmethod``. A generator is a call from its first step to its
    end; its result is what it yielded.
    """
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(decorated(function.__func__, name, begin))
    called: str = name or getattr(function, "__name__", None) or type(function).__name__
    arguments = _reader(function)
    wrapper: Callable[..., Any]
    if _is(inspect.isasyncgenfunction, function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return _watched_async(begin(called, arguments(args, kwargs)), function(*args, **kwargs))

    elif _is(inspect.isgeneratorfunction, function):

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return _watched(begin(called, arguments(args, kwargs)), function(*args, **kwargs))

    elif _is(inspect.iscoroutinefunction, function):

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            async with begin(called, arguments(args, kwargs)) as call:
                return call.returns(await function(*args, **kwargs))

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with begin(called, arguments(args, kwargs)) as call:
                return call.returns(function(*args, **kwargs))

    return wrapper  # type: ignore[return-value]


def _is(test: Callable[[Any], bool], function: Any) -> bool:
    """Whether a function, or the ``__call__`` of an object, is of that kind."""
    return test(function) or (not inspect.isroutine(function) and test(getattr(function, "__call__", None)))  # noqa: B004


def _reader(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """Gives the arguments of a call by their names; ``self`` and ``cls`` are left out."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return _unnamed
    names = list(signature.parameters)
    own = names[0] if names and names[0] in ("self", "cls") else None
    by_kind = {one.kind: one.name for one in signature.parameters.values()}
    several = by_kind.get(inspect.Parameter.VAR_POSITIONAL)
    rest = by_kind.get(inspect.Parameter.VAR_KEYWORD)

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:
            return _unnamed(args, kwargs)  # the call itself says what is wrong
        if own is not None:
            bound.pop(own, None)
        if several in bound:
            bound[several] = list(bound[several])
        if rest is not None:
            bound.update(bound.pop(rest, {}))
        return bound

    return arguments


def _unnamed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"args": list(args), **kwargs} if args else dict(kwargs)


class _Items:
    """What a generator has yielded: copies of the first, and how many there were."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.count = 0

    def add(self, item: Any) -> None:
        self.count += 1
        if len(self.kept) < ITEMS_MAX:
            # The consumer may change the item before the generator ends.
            encoded = jsonvalue.encode(item)
            blobs = {f"sha256:{blob.digest.hex()}": blob.data for blob in encoded.blobs}
            value = jsonvalue.decode(encoded.json, blob=lambda ref: blobs[ref["$blob"]])
            self.kept.append(value if isinstance(item, Mapping) else value.get("value", value))

    def told(self, call: Call, returned: Any = None, closed: bool = False) -> None:
        more: dict[str, Any] = {"yielded": self.count}
        if returned is not None:
            more["returned"] = returned
        if closed:
            more["closed"] = True
        if self.count > len(self.kept):
            more["lossy"] = True
        call.returns(self.kept, **more)


def _watched(call: Call, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    items = _Items()
    context = contextvars.copy_context()
    context.run(call.__enter__)
    steps = in_context(generator, context)
    send: Any = None
    step: Callable[[Any], Any] = steps.send
    while True:
        try:
            item = step(send)
        except StopIteration as stop:
            items.told(call, stop.value)
            call.end()
            return stop.value
        except BaseException as error:
            call.end(error)
            raise
        items.add(item)
        try:
            send, step = (yield item), steps.send
        except GeneratorExit:
            try:
                steps.close()
            except BaseException as error:
                call.end(error)
                raise
            items.told(call, closed=True)
            call.end()
            raise
        except BaseException as error:
            send, step = error, steps.throw


async def _watched_async(call: Call, generator: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    items = _Items()
    context = contextvars.copy_context()
    await call.__aenter__()
    call._leave()
    context.run(call._enter)
    steps = in_context_async(generator, context)
    send: Any = None
    step: Callable[[Any], Any] = steps.asend
    while True:
        try:
            item = await step(send)
        except StopAsyncIteration:
            items.told(call)
            await call.aend()
            return
        except BaseException as error:
            await call.aend(error)
            raise
        items.add(item)
        try:
            send, step = (yield item), steps.asend
        except GeneratorExit:
            try:
                await steps.aclose()
            except BaseException as error:
                await call.aend(error)
                raise
            items.told(call, closed=True)
            await call.aend()
            raise
        except BaseException as error:
            send, step = error, steps.athrow
