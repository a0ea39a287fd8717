"""``A2ARecorder``: records A2A agents that are served, and the calls of clients."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.a2a.client import Calls
from chatsnapshot.adapters.a2a.task import TaskRun
from chatsnapshot.adapters.a2a.wire import as_wire
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.places import Parent, enter, leave
from chatsnapshot.adapters.plain import header_text
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.requiring import need
from chatsnapshot.adapters.web.carrying import Received, extract
from chatsnapshot.adapters.web.serving import Accept, believed

__all__ = ["A2ARecorder"]

_VERSIONS = "a2a-sdk>=1.3"
_STOPPED_MAX = 1_000


class A2ARecorder(RuntimeRecorder):
    """Records agents that speak the Agent2Agent protocol, at either end.

    >>> recorder = A2ARecorder(ledger)
    >>> handler = DefaultRequestHandler(recorder.executor(MyExecutor(), name="desk"), InMemoryTaskStore(), card)
    >>> client = recorder.attach(ClientFactory(ClientConfig()).create(card))

    At the server a task is a run under its ``contextId``; a task that asks for input is paused, and the message that
    answers resumes it. What the executor does, agents of any recorded runtime among it, is a child of the task's run.
    At the client a call is an ``integration.call`` with one ``integration.response``, in the scope it is made in. Its
    context goes along in the metadata of the message: a task of a recorded server is a child run of its caller.

    ``accept=False`` takes nobody's word for that, for servers that strangers reach; a function of the request's context
    decides. ``carry``: whether clients send it. For the other arguments see
    :class:`~chatsnapshot.adapters.custom.RuntimeRecorder`.
    """

    runtime = "a2a"

    def __init__(self, ledger: Any, *, accept: Accept = True, carry: bool = True, **options: Any) -> None:
        super().__init__(ledger, **options)
        self.carry = carry
        self._accept = accept
        self._working: dict[str, TaskRun] = {}
        self._stopped: OrderedDict[str, bool] = OrderedDict()
        """Tasks whose work was stopped: A2A asks the executor to cancel them then, and the run has ended."""

    def executor(self, inner: Any, *, name: str | None = None) -> Any:
        """An executor around ``inner`` (an ``AgentExecutor``), which records every task; ``name`` is the agent's.

        Raises :class:`TypeError` for anything that is no executor.
        """
        executors = need("a2a.server.agent_execution", "AgentExecutor", extra="a2a", versions=_VERSIONS)
        if not isinstance(inner, executors.AgentExecutor):
            raise TypeError(f"executor() takes an AgentExecutor of a2a, not {type(inner).__name__}")
        agent = name or header_text(type(inner).__name__.removesuffix("Executor")) or "agent"
        return _executor_class()(self, inner, agent)

    def attach(self, client: Any) -> Any:
        """Record what a client calls; gives it back. Attaching twice records once.

        Raises :class:`TypeError` for anything that is no client.
        """
        clients = need("a2a.client", "Client", extra="a2a", versions=_VERSIONS)
        if not isinstance(client, clients.Client):
            raise TypeError(f"attach() takes a Client of a2a, not {type(client).__name__}")
        Calls(self, client).follow()
        return client

    # --- tasks --------------------------------------------------------------------------------------------

    async def serve(
        self, agent: str, context: Any, queue: Any, act: Callable[[Any, Any], Any], what: str
    ) -> None:
        """Let an executor act on a task, and record it; raises what the executor raises."""
        task: TaskRun | None = None
        stopped_already = what == "cancel" and self._stopped.pop(str(context.task_id), False)
        with self.guarded():
            if not stopped_already:
                # One that is being cancelled while it works is still open: its run ends with that.
                working = self._working.get(str(context.task_id)) if what == "cancel" else None
                task = working or await self._begun(agent, context, what)
        if task is None:
            await act(context, queue)
            return
        run = task.run
        tap = _tap_class()(self, task, queue)
        token = enter(run.ledger, run.correlation_id, run.last, run.run_id, run.agent)
        try:
            await act(context, tap)
        except BaseException as error:
            leave(token)
            with self.guarded():
                stopped = isinstance(error, asyncio.CancelledError)
                if stopped:
                    self._was_stopped(task.task_id)
                await self.over(task, task.raised(error, cancelled=stopped))
            raise
        leave(token)
        with self.guarded():
            await self.over(task, task.returned())

    async def _begun(self, agent: str, context: Any, what: str) -> TaskRun | None:
        task_id, context_id = str(context.task_id), header_text(context.context_id or context.task_id)
        message = as_wire(context.message) if context.message is not None else None
        received = self._received(context, message)
        earlier = None
        if context.current_task is not None:
            conversation = context_id if received.cause else self.correlation_id or context_id
            earlier = await self.aleft_open(conversation or "")
        stretch = task_id if earlier is None else f"{task_id}:{(message or {}).get('messageId') or what}"
        options: dict[str, Any] = {}
        if received.cause is not None:
            options["parent"] = Parent(received.run_id, received.cause, None, received.correlation_id)
        run = self.begin(
            agent,
            key=f"{task_id}/{what}",
            correlation_id=context_id,
            run_id=task_id,
            native_run_id=stretch,
            resumed=earlier is not None,
            earlier=earlier,
            **options,
        )
        if run is None:
            return None
        task = self._working[task_id] = TaskRun(run, task_id)
        facts = {"task_id": task_id, "context_id": context_id, "attributes": received.attributes or None}
        asked = message if what == "execute" else None
        try:
            await self.arecord(*task.opening(asked, received.cause, **facts))
        except BaseException as error:  # cancelled meanwhile: the executor will not begin
            self._was_stopped(task_id)
            self.safe.hand_over(*task.raised(error, cancelled=True))
            await self.over(task, [])
            raise
        return task

    def _was_stopped(self, task_id: str) -> None:
        self._stopped[task_id] = True
        if len(self._stopped) > _STOPPED_MAX:
            self._stopped.popitem(last=False)

    def _received(self, context: Any, message: Any) -> Received:
        metadata = {**(context.metadata or {}), **((message or {}).get("metadata") or {})}
        received = extract({key: value for key, value in metadata.items() if isinstance(value, str)})
        if believed(self._accept, context, self.note):
            return received
        return Received(traceparent=received.traceparent, tracestate=received.tracestate)

    async def saw(self, task: TaskRun, event: Any) -> None:
        """Record what an agent tells, before it is handed on; nothing is raised."""
        with self.guarded():
            made = [] if task.run.ended is None else self._again(task)
            if task.run.ended is None:
                await self.over(task, [*made, *task.saw(event)])

    def _again(self, task: TaskRun) -> list[Event]:
        """An agent that waited goes on by itself, as when somebody gave a permission elsewhere: it is resumed."""
        before = task.run
        if not task.waits:
            return []  # nothing comes after the end of a task
        run = self.begin(
            before.agent,
            key=before.key,
            correlation_id=before.correlation_id,
            run_id=before.run_id,
            native_run_id=f"{task.task_id}:{task.told}",
            parent=before.parent,
            resumed=True,
            earlier=before.left(),
        )
        return [] if run is None else task.goes_on(run)

    async def over(self, task: TaskRun, events: list[Event]) -> None:
        """Record events; the run is over with the one that ends it."""
        if task.run.ended is not None:
            self.end(task.run)
            self._working.pop(task.task_id, None)
        await self.arecord(*events)


@functools.cache
def _tap_class() -> Any:
    """An event queue that records what it is given and hands it on."""
    base: Any = need("a2a.server.events", "EventQueue", extra="a2a", versions=_VERSIONS).EventQueue

    async def enqueue_event(self: Any, event: Any) -> None:
        await self.recorder.saw(self.task, event)
        await self.inner.enqueue_event(event)

    def made(self: Any, recorder: A2ARecorder, task: TaskRun, inner: Any) -> None:
        self.recorder, self.task, self.inner = recorder, task, inner

    members = {
        "__init__": made,
        "__getattr__": lambda self, name: getattr(self.inner, name),
        "enqueue_event": enqueue_event,
    }
    return type("RecordedEventQueue", (base,), members)


@functools.cache
def _executor_class() -> Any:
    base: Any = need(
        "a2a.server.agent_execution", "AgentExecutor", extra="a2a", versions=_VERSIONS
    ).AgentExecutor

    async def execute(self: Any, context: Any, event_queue: Any) -> None:
        await self.recorder.serve(self.agent, context, event_queue, self.inner.execute, "execute")

    async def cancel(self: Any, context: Any, event_queue: Any) -> None:
        await self.recorder.serve(self.agent, context, event_queue, self.inner.cancel, "cancel")

    def made(self: Any, recorder: A2ARecorder, inner: Any, agent: str) -> None:
        self.recorder, self.inner, self.agent = recorder, inner, agent

    members = {
        "__init__": made,
        "__getattr__": lambda self, name: getattr(self.inner, name),
        "execute": execute,
        "cancel": cancel,
    }
    return type("RecordedExecutor", (base,), members)
