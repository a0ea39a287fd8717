"""A storage of AG2 1.x that records the streams nobody else records: those of sub-agents without the middleware."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from chatsnapshot.adapters.ag2 import steps, streamed
from chatsnapshot.adapters.ag2.run import CURRENT, Parent, Run, forget, open_run, remember
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["RecordingStorage"]

_KEPT = 1_000
_DRIVING = frozenset({"ModelRequest", "ToolResultsEvent"})
_ENDS = {
    "TaskCompleted": "execution.run_completed",
    "TaskFailed": "execution.run_failed",
    "TaskExpired": "execution.run_failed",
    "TaskCancelled": "execution.run_cancelled",
}


class _Task(NamedTuple):
    """A delegation that has begun: the sub-agent's stream is still to be seen."""

    agent: str
    objective: str
    parent: Parent


class RecordingStorage:
    """Keeps events where ``inner`` does, and records the streams that carry no middleware.

    A stream is seen from its first request. A sub-agent's run ends with its task; any other run ends with the response
    that asks for no tool. Questions that a hook answers and passing events never come here.
    """

    def __init__(self, recorder: AG2Recorder, inner: Any = None) -> None:
        self.inner = inner if inner is not None else _Memory()
        self._recorder = recorder
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._tasks: OrderedDict[str, _Task] = OrderedDict()
        self._task_of: OrderedDict[str, str] = OrderedDict()
        """Stream id to the id of the task that it works on."""
        self.save_event = _injected(self._save)
        """Record, then keep: what the runtime goes on with is durable."""

    async def _save(self, event: Any, context: Any) -> None:
        await self._record(event, context)
        await self.inner.save_event(event, context)

    async def get_history(self, stream_id: Any) -> Iterable[Any]:
        """What ``inner`` holds of a stream."""
        history: Iterable[Any] = await self.inner.get_history(stream_id)
        return history

    async def set_history(self, stream_id: Any, events: Iterable[Any]) -> None:
        """Replace a history; how many events were taken out and put in is recorded."""
        after = list(events)
        made = await self._replaced(stream_id, after)
        await self.inner.set_history(stream_id, after)
        if made is not None:
            await self._recorder.safe.arecord(made)

    async def drop_history(self, stream_id: Any) -> None:
        """Forget a stream."""
        self._runs.pop(str(stream_id), None)
        await self.inner.drop_history(stream_id)

    # --- recording ----------------------------------------------------------------------------------------------

    async def _record(self, event: Any, context: Any) -> None:
        try:
            events = await self._events(event, context)
        except Exception as error:
            self._recorder.safe.note(error)
            return
        if events:
            await self._recorder.safe.arecord(*events)

    async def _events(self, event: Any, context: Any) -> list[Event]:
        stream_id, names = str(context.stream.id), streamed.kinds(event)
        made: list[Event] = []
        known = open_run(stream_id, self._recorder.ledger)
        run = known if known is not None and known.stored else None
        if known is None and _DRIVING.intersection(names):
            run, started = await self._begin(stream_id, event, context)
            made.append(started)
        if run is not None:
            made += steps.seen(run, event, context)
            if "ModelResponse" in names and stream_id not in self._task_of and not _asks(event):
                made.append(self._end(stream_id, run, "execution.run_completed", _output(event)))
        self._follow_task(event, names, known or run, made)
        return made

    async def _begin(self, stream_id: str, event: Any, context: Any) -> tuple[Run, Event]:
        recorder = self._recorder
        asked = streamed.text_of(event)
        agent = recorder.agent_name(context)
        task_id = self._task_for(agent, asked)
        resumed = bool(list(await self.inner.get_history(context.stream.id)))
        run = recorder.new_run(context, resumed=resumed)
        run.stored = True
        if task_id is not None:
            task = self._tasks.pop(task_id)
            self._task_of[stream_id] = task_id
            if CURRENT.get() is None:
                run.parent, run.correlation_id = task.parent, stream_id
        self._runs[stream_id] = run
        while len(self._runs) > _KEPT:
            self._runs.popitem(last=False)  # a turn that failed: nobody says so to a storage
        remember(stream_id, run)
        earlier = await recorder.earlier(run) if resumed else None
        return run, recorder.opening(run, context, resumed=resumed, earlier=earlier)

    def _task_for(self, agent: str, asked: str) -> str | None:
        """The delegation that a stream's first request came from."""
        for task_id, task in self._tasks.items():
            if task.agent == agent and asked.startswith(task.objective):
                return task_id
        return None

    def _follow_task(self, event: Any, names: list[str], run: Run | None, made: list[Event]) -> None:
        """Learn of delegations and their ends from the stream of the agent that delegates."""
        task_id = getattr(event, "task_id", None)
        if run is None or not isinstance(task_id, str):
            return
        if "TaskStarted" in names:
            cause = run.calls.get(getattr(event, "parent_tool_call_id", None) or "") or run.tasks.get(task_id)
            self._tasks[task_id] = _Task(
                event.agent_name, event.objective, Parent(run.run_id, cause, run.agent)
            )
            while len(self._tasks) > _KEPT:
                self._tasks.popitem(last=False)
            return
        ending = next((_ENDS[name] for name in names if name in _ENDS), None)
        stream_id = next((stream for stream, task in self._task_of.items() if task == task_id), None)
        if ending is None or stream_id is None:
            return
        del self._task_of[stream_id]
        child = self._runs.get(stream_id)
        if child is not None:
            made.insert(0, self._end(stream_id, child, ending, _outcome(event)))

    def _end(self, stream_id: str, run: Run, event_type: str, payload: dict[str, Any]) -> Event:
        ended = run.event(event_type, payload)
        forget(stream_id, run)
        self._runs.pop(stream_id, None)
        self._recorder.ended(run, ended)
        return ended

    async def _replaced(self, stream_id: Any, after: list[Any]) -> Event | None:
        """A rewritten history as an event of the run that goes on, or of the conversation."""
        try:
            before = list(await self.inner.get_history(stream_id))
            if not before:
                return None
            kept = {id(event) for event in before} & {id(event) for event in after}
            payload = {
                "name": "history_replaced",
                "events_before": len(before),
                "events_after": len(after),
                "taken_out": len(before) - len(kept),
                "put_in": len(after) - len(kept),
            }
            if payload["taken_out"] == payload["put_in"] == 0:
                return None
            run = open_run(str(stream_id), self._recorder.ledger) or self._recorder.last_run(str(stream_id))
            if run is None or run.compacting:
                return None  # nobody's, or told by what AG2 says of its compaction
            return run.event("execution.state_change", payload)
        except Exception as error:
            self._recorder.safe.note(error)
            return None


class _Memory:
    """AG2's own storage in memory, whichever AG2 it is."""

    def __init__(self) -> None:
        self._events: dict[Any, list[Any]] = {}

    async def save_event(self, event: Any, context: Any) -> None:
        self._events.setdefault(context.stream.id, []).append(event)

    async def get_history(self, stream_id: Any) -> Iterable[Any]:
        return self._events.setdefault(stream_id, [])

    async def set_history(self, stream_id: Any, events: Iterable[Any]) -> None:
        self._events[stream_id] = list(events)

    async def drop_history(self, stream_id: Any) -> None:
        self._events.pop(stream_id, None)


def _injected(save: Callable[[Any, Any], Awaitable[None]]) -> Callable[[Any, Any], Awaitable[None]]:
    """``save`` as a subscriber, which some streams make of it: AG2 reads the annotations to know what to hand in."""

    async def save_event(event: Any, context: Any) -> None:
        await save(event, context)

    for root in ("ag2", "autogen.beta"):
        if (module := sys.modules.get(f"{root}.annotations")) is not None:
            marks = getattr(module.Context, "__metadata__", ())
            # The type is left open, so that one storage serves both names of AG2.
            inside = (Any, *marks)
            save_event.__annotations__ = {"context": cast(Any, Annotated)[inside]} if marks else {}
            break
    return save_event


def _asks(response: Any) -> bool:
    return bool(getattr(response.tool_calls, "calls", None))


def _output(response: Any) -> dict[str, Any]:
    content = response.message.content if response.message is not None else None
    return {"status": "ok", **({"output": content} if content else {})}


def _outcome(event: Any) -> dict[str, Any]:
    place = streamed.place(event)
    told = place[1](event) if place else {}
    wanted = {name: told.get(name) for name in ("output", "error", "reason")}
    return {name: value for name, value in wanted.items() if value is not None}
