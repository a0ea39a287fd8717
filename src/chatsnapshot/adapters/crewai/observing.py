"""Which event of CrewAI begins a run, ends one or happens in one; flows that are resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.crewai import steps
from chatsnapshot.adapters.crewai.answers import error_of
from chatsnapshot.adapters.crewai.scopes import Acting, Scope, Scopes
from chatsnapshot.adapters.custom import ObservedRun, Parent
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.crewai.recorder import CrewAIRecorder

__all__ = ["Observing"]

_RUNS = {
    "crew_kickoff_started": ("crew_kickoff_completed", "crew_kickoff_failed"),
    "flow_started": ("flow_finished", "flow_failed", "flow_paused"),
    "lite_agent_execution_started": ("lite_agent_execution_completed", "lite_agent_execution_error"),
    "agent_execution_started": ("agent_execution_completed", "agent_execution_error"),
}
_HELD_MAX = 1_000


class Observing:
    """The state of one recorder; :meth:`told` is called under its lock, in the thread that emits."""

    def __init__(self, recorder: CrewAIRecorder) -> None:
        self._recorder = recorder
        self._scopes = Scopes()
        self._failed: dict[str, Any] = {}
        """Run key to the class of the error of its last failed task."""
        self._held: dict[str, list[tuple[Any, Any]]] = {}
        """Events of resumed flows, by the event that began them, until the person's answer is told."""
        self._holding: dict[str, str] = {}
        self._waited: dict[str, Any] = {}
        """What those flows waited for."""

    def told(self, source: Any, event: Any) -> list[Event | None]:
        """What an event becomes."""
        if self._holds(source, event):
            return self._let_go(event) if self._answered(event) else []
        return self._events(source, event)

    def _events(self, source: Any, event: Any) -> list[Event | None]:
        kind = event.type
        if event.started_event_id:
            scope = self._scopes.closed(event)
            if scope is None or scope.run.ended is not None:
                return []
            scope.run.leave(scope.token)
            if scope.opens_run:
                return list(self._end(scope, source, event))
            if event.type == "task_failed":
                self._failed[scope.run.key] = getattr(event, "error_type", None)
            return list(steps.closed(scope, source, event))
        above = self._scopes.around(event)
        if kind in _RUNS and self._begins(source, event, above):
            return list(self._begin(source, event, above))
        if above is None or above.run.ended is not None:
            return []
        if kind.endswith("_started"):
            scope = self._scopes.add(Scope(event.event_id, kind, above.run, above, at=event.timestamp))
            return list(steps.opened(scope, source, event))
        return list(steps.happened(above, source, event))

    # --- runs ---------------------------------------------------------------------------------------------

    def _begins(self, source: Any, event: Any, above: Scope | None) -> bool:
        if event.type == "flow_started":
            return type(source).__name__ != "AgentExecutor"  # how CrewAI runs an agent
        if event.type == "agent_execution_started":
            return event.parent_event_id is None or (above is not None and above.kind == "tool_usage_started")
        return True

    def _begin(self, source: Any, event: Any, above: Scope | None) -> Iterator[Event | None]:
        name, given = _facts(source, event)
        flow_id = getattr(source, "flow_id", None) if event.type == "flow_started" else None
        options: dict[str, Any] = {"correlation_id": flow_id or event.event_id, "key": event.event_id}
        if above is not None:
            run, acting = above.run, above.agent
            agent = acting.name if acting else run.agent
            options["parent"] = Parent(run.run_id, above.here or run.last, agent, run.correlation_id, True)
            if event.type == "agent_execution_started":
                yield steps.acting_in(above).handoff(name, cause=above.cause, at_ns=_ns(event))
        pending = self._waited.pop(event.event_id, None)
        begun = self._recorder.begin(name, resumed=pending is not None, **options)
        if begun is None:
            return
        scope = Scope(
            event.event_id, event.type, begun, above, opens_run=True, name=begun.agent, at=event.timestamp
        )
        native = {"event": event.event_id, "fingerprint": event.source_fingerprint}
        facts = {"native": {key: one for key, one in native.items() if one}, "at_ns": _ns(event)}
        if pending is not None:
            yield _answer(begun, pending, source)
        started = begun.started(given, **facts)
        yield started
        scope.cause = started["event_id"]
        self._scopes.add(scope)
        if (task := _current_task()) is not None:
            # CrewAI tells nobody of a cancellation.
            task.add_done_callback(lambda task: self._recorder.left(begun, task))
        if event.type == "crew_kickoff_started":
            yield from steps.scheduled(scope, source)
        elif "agent" in event.type:
            scope.acting = Acting(name, last=started["event_id"])
            yield _asked(scope, event)

    def left(self, run: ObservedRun, reason: str) -> Event | None:
        """The end of a run that nobody drives any more, if it has none."""
        ended = run.cancelled(reason)
        self._scopes.drop(run)
        self._recorder.end(run)
        return ended

    def _end(self, scope: Scope, source: Any, event: Any) -> Iterator[Event | None]:
        run, kind, at = scope.run, event.type, _ns(event)
        run.agent = scope.name
        if kind == "flow_paused":
            yield run.paused("waits for a person", at_ns=at)
        elif kind.endswith(("_failed", "_error")):
            yield run.failed(error_of(event.error, self._failed.pop(run.key, None)), at_ns=at)
        else:
            output = event.result if kind == "flow_finished" else event.output
            yield run.completed(_raw(output), at_ns=at)
        self._failed.pop(run.key, None)
        self._scopes.drop(run)
        self._recorder.end(run)

    # --- flows that go on ---------------------------------------------------------------------------------

    def _holds(self, source: Any, event: Any) -> bool:
        """Whether an event belongs to a resumed flow whose answer is not told yet."""
        root = self._holding.get(event.parent_event_id or event.started_event_id or "")
        pending = _pending(source) if event.type == "flow_started" else None
        if pending is not None and len(self._held) < _HELD_MAX:
            root = event.event_id
            self._waited[root] = pending
        if root is None:
            return False
        self._held.setdefault(root, []).append((source, event))
        self._holding[event.event_id] = root
        return True

    def _answered(self, event: Any) -> bool:
        return event.type in (
            "method_execution_finished",
            "method_execution_failed",
            "flow_failed",
            "flow_finished",
        )

    def _let_go(self, event: Any) -> list[Event | None]:
        root = self._holding[event.event_id]
        held = self._held.pop(root)
        self._holding = {one: other for one, other in self._holding.items() if other != root}
        return [made for source, one in held for made in self._events(source, one)]


def _facts(source: Any, event: Any) -> tuple[str, Any]:
    """What a run is called and what it is given."""
    if event.type == "crew_kickoff_started":
        return event.crew_name or "crew", event.inputs
    if event.type == "flow_started":
        return event.flow_name, event.inputs
    if event.type == "lite_agent_execution_started":
        return header_text(event.agent_info.get("role")) or "agent", plain(event.messages)
    return steps.role_of(event) or "agent", steps.task_of(event)


def _asked(scope: Scope, event: Any) -> Event | None:
    given = event.messages if event.type == "lite_agent_execution_started" else steps.task_of(event)
    if isinstance(given, list):
        said = [one.get("content") for one in given if isinstance(one, dict) and one.get("role") == "user"]
        given = said[-1] if said else None
    return steps.asked(scope, given, at_ns=_ns(event))


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _pending(source: Any) -> Any:
    """What a resumed flow was waiting for, until CrewAI has taken the answer in."""
    return getattr(source, "_pending_feedback_context", None) if hasattr(source, "resume_async") else None


def _answer(run: ObservedRun, pending: Any, source: Any) -> Event:
    question = next(reversed(run.questions), None) or f"{pending.flow_id}/{pending.method_name}"
    return steps.answer(run, question, getattr(source, "last_human_feedback", None))


def _raw(output: Any) -> Any:
    """The text of a crew's or a task's output; other outputs as plain data."""
    raw = getattr(output, "raw", None)
    return raw if isinstance(raw, str) else plain(output)


def _ns(event: Any) -> int:
    return steps.ns(event.timestamp)
