"""Runs of Agent Framework workflows: the events of their stream, and the agents in them as child runs."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.agent_framework import handoffs
from chatsnapshot.adapters.agent_framework.contents import (
    APPROVAL_REQUEST,
    answer_facts,
    approval_facts,
    as_facts,
)
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.places import enter, leave
from chatsnapshot.adapters.plain import header_text
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.requiring import version_of
from chatsnapshot.clock import uuid7, uuid_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatsnapshot.adapters.agent_framework.recorder import AgentFrameworkRecorder

__all__ = ["recorded_core"]

_ids: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_NOTHING_NEW = frozenset({"started", "status", "superstep_completed", "data"})


def recorded_core(
    recorder: AgentFrameworkRecorder, workflow: Any, core: Callable[..., Any]
) -> Callable[..., AsyncIterator[Any]]:
    """The event stream of a workflow's run, recorded while it is read; the events are handed on as they are."""

    async def run_core(message: Any = None, **options: Any) -> AsyncIterator[Any]:
        key = f"workflow-{id(workflow):x}"
        flow: _Flow | None = None
        if recorder.run(key) is None:
            with recorder.guarded():
                flow = await _Flow.begin(recorder, workflow, key, message, options)
        events = core(message, **options)
        if flow is None:
            async for event in events:
                yield event
            return
        try:
            while True:
                with flow.inside():
                    try:
                        event = await events.__anext__()
                    except StopAsyncIteration:
                        break
                await flow.saw(event)
                yield event
        except BaseException as error:
            await flow.broke(error)
            raise
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        await flow.done()

    return run_core


class _Flow:
    """One run of a workflow."""

    def __init__(self, recorder: AgentFrameworkRecorder, run: ObservedRun) -> None:
        self.recorder = recorder
        self.run = run
        self._calls: Counter[str] = Counter()
        """How often each executor was called."""
        self._begun: dict[str, str] = {}
        """Executor to the event that says it began."""
        self._superstep: str | None = None
        """The event that says that the executors of a superstep begin, which go on beside each other."""
        self._pending = False
        self._output: Any = None
        self._error: Any = None

    @classmethod
    async def begin(
        cls, recorder: AgentFrameworkRecorder, workflow: Any, key: str, message: Any, options: Any
    ) -> _Flow | None:
        responses = options.get("responses") or {}
        checkpoint = options.get("checkpoint_id")
        name = header_text(workflow.name or "workflow") or "workflow"
        workflow_id = _id_of(workflow)
        begin: dict[str, Any] = {"key": key, "correlation_id": workflow_id, "resumed": message is None}
        parent = recorder.parent_here()
        if message is None and (parent is None or not parent.inside_tool):
            begin["earlier"] = await recorder.aleft_open(recorder.correlation_id or workflow_id)
        run = recorder.begin(name, **begin)
        if run is None:
            return None
        flow = cls(recorder, run)
        made = [run.answer(str(asked), **answer_facts(answer)) for asked, answer in responses.items()]
        facts = {
            "workflow_id": workflow_id,
            "description": getattr(workflow, "description", None),
            "checkpoint_id": str(checkpoint) if checkpoint is not None else None,
            "runtime_version": version_of("agent-framework-core"),
        }
        made.append(run.started(as_facts(message), **{key: value for key, value in facts.items() if value}))
        await recorder.arecord(*made)
        return flow

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What runs here, agents among it, is a child of the workflow's run."""
        run = self.run
        token = enter(run.ledger, run.correlation_id, run.last, run.run_id, run.agent)
        try:
            yield
        finally:
            leave(token)

    async def saw(self, event: Any) -> None:
        """Record one event of the stream; nothing is raised."""
        with self.recorder.guarded():
            await self.recorder.arecord(self._made(event))

    def _made(self, event: Any) -> Event | None:
        kind, executor = str(event.type), event.executor_id
        if kind == "status":
            self._pending = getattr(event.state, "name", "") == "IDLE_WITH_PENDING_REQUESTS"
        if kind in _NOTHING_NEW:
            return None
        if kind == "superstep_started":
            made = self.run.state("superstep", value=event.iteration)
            self._superstep = made["event_id"]
            return made
        if kind.startswith("executor_"):
            return self._task(kind, executor, event)
        cause = self._begun.get(executor or "")
        if kind == "request_info":
            return self._question(event)
        if kind in ("output", "intermediate"):
            if kind == "output":
                self._output = as_facts(event.data)
            return self.run.event(
                "execution.output", {"output": as_facts(event.data), "name": executor, "cause": cause}
            )
        if kind == "handoff_sent":
            return self._handoff(event.data)
        if kind == "failed":
            self._error = _details(event.details)
            return None
        return self.run.state(kind, value=as_facts(event.data), executor=executor, cause=cause)

    def _question(self, event: Any) -> Event:
        asking = self._begun.get(event.source_executor_id)
        if getattr(event.data, "type", None) == APPROVAL_REQUEST:
            return self.run.question(event.request_id, cause=asking, **approval_facts(event.data))
        return self.run.question(event.request_id, prompt=as_facts(event.data), cause=asking)

    def _task(self, kind: str, executor: str, event: Any) -> Event | None:
        """A call of an executor begins or ends."""
        begins = kind == "executor_invoked"
        self._calls[executor] += begins
        task = {"task_id": f"{executor}-{self._calls[executor]}", "name": executor}
        task["workflow_id"] = self.run.run_id
        if begins:
            facts = {**task, "input": as_facts(event.data), "cause": self._superstep}
            made = self.run.event("system.task_started", facts)
            self._begun[executor] = made["event_id"]
            return made
        task["cause"] = self._begun.pop(executor, "") or None  # type: ignore[assignment]
        if kind == "executor_failed":
            return self.run.event("system.task_failed", {**task, "error": _details(event.details)})
        if kind == "executor_completed":
            return self.run.event("system.task_completed", {**task, "output": as_facts(event.data)})
        return self.run.state(kind, value=executor)

    def _handoff(self, data: Any) -> Event | None:
        """The handoff, unless the agent's own run has told of it."""
        target = str(data.target)
        if handoffs.told(self.run.run_id, target):
            return None
        made = self.run.handoff(target, from_agent=str(data.source))
        handoffs.tell(self.run.run_id, target, made["event_id"])
        return made

    async def done(self) -> None:
        """The stream is at its end."""
        if self._pending:
            await self._over(lambda: self.run.paused("waits for answers"))
        elif self._error is not None:
            await self._over(lambda: self.run.failed(self._error))
        else:
            await self._over(lambda: self.run.completed(self._output))

    async def broke(self, error: BaseException) -> None:
        """The workflow raised, or nobody reads its stream any more."""
        if isinstance(error, GeneratorExit):
            await self._over(lambda: self.run.cancelled("the stream was closed before its end"))
        elif isinstance(error, asyncio.CancelledError):
            await self._over(lambda: self.run.cancelled("cancelled"))
        else:
            await self._over(lambda: self.run.failed(error))

    async def _over(self, end: Callable[[], Event | None]) -> None:
        with self.recorder.guarded():
            event = end()
            self.recorder.end(self.run)
            handoffs.forget(self.run.run_id)
            await self.recorder.arecord(event)


def _id_of(workflow: Any) -> str:
    """The id of a workflow; one that is made of a function has none, and gets one as long as it lives."""
    known = getattr(workflow, "id", None)
    return str(known) if known else _ids.setdefault(workflow, uuid_text(uuid7()[0]))


def _details(details: Any) -> dict[str, Any]:
    return {"type": str(details.error_type), "message": str(details.message)}
