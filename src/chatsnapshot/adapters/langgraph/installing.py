"""Switches recording on for everything that LangGraph and LangChain do in this process."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from chatsnapshot.adapters.langgraph.handler import has_langgraph
from chatsnapshot.adapters.langgraph.recorder import LangGraphRecorder
from chatsnapshot.adapters.requiring import need

__all__ = ["install"]

_LIFECYCLE = ("get_sync_graph_callback_manager_for_config", "get_async_graph_callback_manager_for_config")


def install(recorder: LangGraphRecorder) -> Callable[[], None]:
    """Record every call of a graph, runnable, model or tool from now on; gives the function that undoes it.

    LangChain adds the handler to every call by a hook of its own, ``register_configure_hook``. Interrupts LangGraph
    tells only handlers that are in the config, so the two functions that look for those are wrapped.

    Raises :class:`MissingExtra` where LangChain is not installed, ``TypeError`` for another recorder.
    """
    if not isinstance(recorder, LangGraphRecorder):
        raise TypeError(f"install takes a LangGraphRecorder, not {type(recorder).__name__}")
    context: Any = need(
        "langchain_core.tracers.context",
        "register_configure_hook",
        extra="langgraph",
        versions="langchain-core>=1.0",
        what="LangChain",
    )
    handler = recorder.handler
    everywhere: ContextVar[Any] = ContextVar("chatsnapshot_langgraph", default=handler)
    context.register_configure_hook(everywhere, inheritable=True)
    undone = _told_of_interrupts(handler)

    def undo() -> None:
        undone()
        hooks = getattr(context, "_configure_hooks", None)
        if isinstance(hooks, list):
            hooks[:] = [hook for hook in hooks if hook[0] is not everywhere]

    return undo


def _told_of_interrupts(handler: Any) -> Callable[[], None]:
    if not has_langgraph():
        return lambda: None
    module = importlib.import_module("langgraph.pregel.main")
    before = {name: made for name in _LIFECYCLE if (made := getattr(module, name, None)) is not None}

    def wrapped(make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            manager = make(*args, **kwargs)
            if handler not in manager.handlers:
                manager.handlers = [*manager.handlers, handler]
            return manager

        return made

    ours = {name: wrapped(make) for name, make in before.items()}
    for name, make in ours.items():
        setattr(module, name, make)

    def undo() -> None:
        for name, make in before.items():
            if getattr(module, name, None) is ours[name]:
                setattr(module, name, make)

    return undo
