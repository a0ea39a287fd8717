"""``AgentFrameworkRecorder``: records the agents of Microsoft Agent Framework through its three middlewares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from chatsnapshot.adapters.agent_framework.turns import Turn
from chatsnapshot.adapters.agent_framework.workflows import recorded_core
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.requiring import need, version_of

__all__ = ["AgentFrameworkRecorder", "framework", "install"]

_VERSIONS = "agent-framework-core>=1.20,<2"
_NEEDED = (
    "agent_middleware",
    "chat_middleware",
    "function_middleware",
    "AgentContext",
    "ResponseStream.with_pull_context_manager",
    "ResponseStream.with_cleanup_hook",
    "Workflow._run_core",
)

_turns: ContextVar[Mapping[int, Turn | None] | None] = ContextVar(
    "chatsnapshot_agent_framework_turns", default=None
)
"""The turn that this context is in, for each recorder (by identity); ``None`` where it keeps silent."""


def framework() -> Any:
    """The module ``agent_framework``; one clear error where it is missing or lacks what recording needs."""
    return need("agent_framework", *_NEEDED, extra="agent-framework", versions=_VERSIONS)


class AgentFrameworkRecorder(RuntimeRecorder):
    """Records Agent Framework agents and workflows into a ledger.

    >>> recorder = AgentFrameworkRecorder(ledger)
    >>> agent = Agent(client, name="triage", middleware=recorder.middleware)
    >>> workflow = recorder.attach(WorkflowBuilder(start_executor=...).build())

    Every call of ``agent.run`` is a run under ``correlation_id``, or else under the id of its session. An agent that is
    called in a tool of another recorded agent (``as_tool``) is a child run with a correlation of its own, caused by the
    tool call; one that runs in a recorded workflow is a child run of the workflow's.

    Nothing changes for the agents: see :class:`~chatsnapshot.adapters.custom.RuntimeRecorder` for the other arguments.
    """

    runtime = "agent_framework"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        self._middleware: list[Any] | None = None
        self._seen: set[int] = set()

    @property
    def middleware(self) -> list[Any]:
        """The three middlewares, for ``Agent(client, middleware=[*recorder.middleware, ...])``; put them first."""
        if self._middleware is None:
            af = framework()

            @af.agent_middleware  # type: ignore[untyped-decorator]
            async def record_agent(context: Any, call_next: Callable[[], Any]) -> None:
                await self._around_agent(context, call_next)

            @af.function_middleware  # type: ignore[untyped-decorator]
            async def record_function(context: Any, call_next: Callable[[], Any]) -> None:
                await self._around("function", context, call_next)

            @af.chat_middleware  # type: ignore[untyped-decorator]
            async def record_chat(context: Any, call_next: Callable[[], Any]) -> None:
                await self._around("chat", context, call_next)

            self._middleware = [record_agent, record_function, record_chat]
        return list(self._middleware)

    def attach(self, workflow: Any) -> Any:
        """Record every run of this workflow from here on, streamed or not; gives the workflow back.

        Agents in it are child runs of the workflow's where they have :attr:`middleware`. Raises :class:`TypeError` for
        anything that is no workflow.
        """
        af = framework()
        if not isinstance(workflow, _workflow_classes(af)):
            raise TypeError(f"attach() takes a Workflow of agent_framework, not {type(workflow).__name__}")
        workflow._run_core = recorded_core(self, workflow, workflow._run_core)
        return workflow

    # --- agents -------------------------------------------------------------------------------------------

    async def _around_agent(self, context: Any, call_next: Callable[[], Any]) -> None:
        key = f"{id(context):x}"
        if self.run(key) is not None:
            await call_next()  # attached twice
            return
        turn: Turn | None = None
        with self.guarded():
            turn = await Turn.begin(self, context, key)
        if turn is None:
            with self._in(None):
                await call_next()
            return
        try:
            with self._in(turn):
                await call_next()
        except BaseException as error:
            await turn.broke(error)
            raise
        if not context.stream:
            await turn.done(context.result)
            return
        with self.guarded():
            turn.follow(context, lambda: self._in(turn))

    @contextmanager
    def _in(self, turn: Turn | None) -> Iterator[None]:
        token = _turns.set({**(_turns.get() or {}), id(self): turn})
        try:
            yield
        finally:
            _turns.reset(token)

    # --- tools and models ---------------------------------------------------------------------------------

    async def _around(self, what: str, context: Any, call_next: Callable[[], Any]) -> None:
        turn = (_turns.get() or {}).get(id(self))
        mark = id(context)
        if turn is None or mark in self._seen:
            await call_next()
            return
        self._seen.add(mark)
        try:
            await getattr(turn, f"around_{what}")(context, call_next)
        finally:
            self._seen.discard(mark)


def install(recorder: AgentFrameworkRecorder) -> Callable[[], None]:
    """Record every agent and workflow of the process from here on; the result undoes it.

    The middlewares come last in the chain, so that a middleware of the program that answers by itself is seen by its
    result. Agents that have the recorder's middleware already are recorded once.
    """
    af = framework()
    layer: Any = next((base for base in af.Agent.__mro__ if base.__name__ == "AgentMiddlewareLayer"), None)
    if layer is None:
        raise TypeError(
            f"agent-framework-core {version_of('agent-framework-core')} has no AgentMiddlewareLayer"
        )
    run, ours = layer.run, recorder.middleware
    cores = {kind: kind._run_core for kind in _workflow_classes(af)}

    def run_recorded(self: Any, messages: Any = None, *args: Any, **options: Any) -> Any:
        given = options.get("middleware")
        present = [*(getattr(self, "middleware", None) or ()), *(given or ())]
        if not any(one is ours[0] for one in present):
            options["middleware"] = [*(given or ()), *ours]
        return run(self, messages, *args, **options)

    def core_recorded(core: Any) -> Any:
        def run_core(self: Any, *args: Any, **options: Any) -> Any:
            return recorded_core(recorder, self, core.__get__(self))(*args, **options)

        return _like(core, run_core)

    layer.run = _like(run, run_recorded)
    for kind, core in cores.items():
        kind._run_core = core_recorded(core)
    done: list[bool] = []

    def undo() -> None:
        if not done:
            done.append(True)
            layer.run = run
            for kind, core in cores.items():
                kind._run_core = core

    return undo


def _workflow_classes(af: Any) -> tuple[Any, ...]:
    """Workflows made of executors, and of a function."""
    functional = getattr(af, "FunctionalWorkflow", None)
    return (af.Workflow,) if functional is None else (af.Workflow, functional)


def _like(original: Any, wrapper: Any) -> Any:
    return functools.wraps(original)(wrapper)
