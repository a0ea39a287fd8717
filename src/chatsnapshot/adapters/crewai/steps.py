"""What happens in a run of CrewAI: tasks, agents, models, tools, methods of flows, people, guardrails, memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from chatsnapshot.adapters.crewai.answers import asked_calls, parts_of, same_name, usage_of
from chatsnapshot.adapters.crewai.scopes import Acting, Scope
from chatsnapshot.adapters.custom import ObservedRun
from chatsnapshot.adapters.payloads import arguments_of, text
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

__all__ = [
    "acting_in",
    "answer",
    "asked",
    "closed",
    "happened",
    "ns",
    "opened",
    "role_of",
    "scheduled",
    "task_of",
]

_ASIDE = ("memory_", "knowledge_", "llm_guardrail", "agent_reasoning", "agent_evaluation")
"""Scopes in which a model is asked for something that is not the agent's own answer."""


def opened(scope: Scope, source: Any, event: Any) -> Iterator[Event | None]:
    """An event that another one will close."""
    run, kind, at = acting_in(scope), scope.kind, ns(event.timestamp)
    if kind == "task_started":
        yield _task(scope, source, event, at)
    elif kind == "agent_execution_started":
        task = scope.task
        before = task.worker.last if task is not None and task.worker is not None else scope.here
        scope.acting = Acting(role_of(event) or run.agent, last=before)
        if task is not None:
            task.worker = scope.acting
        yield asked(scope, task_of(event), at_ns=at)
    elif kind == "tool_usage_started":
        yield _tool_call(run, scope, event, at)
    elif kind == "method_execution_started":
        cause = scope.root.known.get(event.triggered_by_event_id or "") or scope.here
        given = plain(event.params) or None
        made = run.state(event.method_name, to="started", input=given, cause=cause, at_ns=at)
        scope.cause = made["event_id"]
        scope.token = run.enter(None)
        yield made


def closed(scope: Scope, source: Any, event: Any) -> Iterator[Event | None]:
    """An event that closes what another one opened."""
    run, kind, at = acting_in(scope), event.type, ns(event.timestamp)
    if kind in ("task_completed", "task_failed"):
        facts = {
            "task_id": event.task_id,
            "name": header_text(event.task_name),
            "workflow_id": run.correlation_id,
        }
        if kind == "task_completed":
            facts["output"] = event.output.raw
        else:
            facts["error"] = {"message": str(event.error)}
        cause = scope.worker.last if scope.worker else scope.cause
        made = run.event(f"system.{kind}", {**facts, "at_ns": at}, cause=cause)
        beside = bool(getattr(source, "async_execution", False))
        scope.root.done[event.task_id or ""] = (made["event_id"], beside)
        yield made
    elif kind in ("llm_call_completed", "llm_call_failed"):
        yield from _model_answered(run, scope, source, event, at)
    elif kind in ("tool_usage_finished", "tool_usage_error"):
        yield _tool_result(run, scope, event, at)
    elif kind in ("method_execution_finished", "method_execution_failed"):
        facts = {"to": kind.rpartition("_")[2], "cause": scope.cause, "at_ns": at}
        if kind.endswith("failed"):
            facts["reason"] = str(event.error)
        else:
            facts |= {"output": plain(event.result), "variables": plain(event.state)}
        made = run.state(event.method_name, **facts)
        scope.root.known[event.event_id] = made["event_id"]
        yield made
    elif kind == "method_execution_paused":
        facts = {"choices": event.emit, "cause": scope.cause, "at_ns": at}
        yield run.question(
            f"{event.flow_id}/{event.method_name}/{event.event_id}", prompt=event.message, **facts
        )
    elif kind.startswith("llm_guardrail_"):
        yield _guardrail(scope, event)
    elif kind in _MEMORY:
        yield _remembered(scope, event)


def happened(above: Scope, source: Any, event: Any) -> Iterator[Event | None]:
    """An event that stands for itself."""
    run, kind, at = acting_in(above), event.type, ns(event.timestamp)
    if kind == "agent_logs_execution":
        acting = above.agent
        if acting is not None and not acting.told:
            # Its model tells nothing itself: this is what CrewAI read in the answer, told once it has acted on it.
            said = getattr(event.formatted_answer, "text", None) or getattr(
                event.formatted_answer, "output", None
            )
            if said is not None:
                said = said.partition("\nObservation:")[0] if isinstance(said, str) else said
                yield _said(above, acting, parts_of(said), cause=acting.last, at_ns=at)
    elif kind in ("human_feedback_requested", "flow_input_requested"):
        facts = {"choices": getattr(event, "emit", None), "content": plain(getattr(event, "output", None))}
        yield run.question(_question(event), prompt=event.message, cause=above.here, at_ns=at, **facts)
    elif kind == "human_feedback_received":
        yield answer(run, _question(event), event, at_ns=at)
    elif kind == "flow_input_received":
        yield run.answer(_question(event), content=event.response, at_ns=at)
    elif kind in ("tool_selection_error", "tool_validate_input_error"):
        facts = {"to": str(event.tool_name), "reason": str(event.error), "cause": above.before}
        yield run.state(kind, **facts, at_ns=at)


# --- tasks and agents -----------------------------------------------------------------------------------------


def scheduled(scope: Scope, crew: Any) -> Iterator[Event]:
    """The tasks of a crew, with those that each of them waits for."""
    for task in list(getattr(crew, "tasks", None) or ()):
        context = task.context if isinstance(getattr(task, "context", None), list) else []
        facts = {
            "task_id": str(task.id),
            "name": header_text(task.name or task.description),
            "depends_on": [str(one.id) for one in context] or None,
            "worker": header_text(getattr(task.agent, "role", None)) if task.agent else None,
            "workflow_id": scope.run.correlation_id,
        }
        made = scope.run.event("system.task_scheduled", facts, cause=scope.cause)
        scope.known[str(task.id)] = made["event_id"]
        yield made


def _task(scope: Scope, source: Any, event: Any, at: int) -> Event:
    given = {
        "description": getattr(source, "description", None),
        "expected_output": getattr(source, "expected_output", None),
        "context": event.context,
    }
    facts = {
        "task_id": event.task_id,
        "name": header_text(event.task_name),
        "worker": header_text(getattr(getattr(source, "agent", None), "role", None)),
        "input": {name: one for name, one in given.items() if one},
        "workflow_id": scope.run.correlation_id,
    }
    root = scope.root
    causes = _waited_for(root, source)
    cause = causes.pop() if causes else root.known.get(event.task_id) or scope.here
    more = {"cause": cause, "links": causes, "at_ns": at}
    made = scope.run.event("system.task_started", {**facts, **more})
    scope.cause = made["event_id"]
    return made


def _waited_for(root: Scope, task: Any) -> list[str]:
    """The ends of the tasks that a task waits for: its context, else those before it as CrewAI runs them."""
    context = getattr(task, "context", None)
    if isinstance(context, list):
        return [root.done[str(one.id)][0] for one in context if str(one.id) in root.done]
    found: list[str] = []
    for end, beside in reversed(root.done.values()):
        if not beside:
            return found or [end]
        if not getattr(task, "async_execution", False):
            found.insert(0, end)  # what was going on beside is waited for by the next that is not
    return found


def asked(scope: Scope, prompt: Any, **options: Any) -> Event | None:
    """What an agent is asked."""
    acting = scope.acting
    if acting is None or prompt is None:
        return None
    above = scope.run.parent
    asking = above.agent if above is not None and above.inside_tool and scope.opens_run else None
    made = acting_in(scope).message("user", [text(prompt)], name=asking, cause=acting.last, **options)
    acting.last = made["event_id"]
    return made


def acting_in(scope: Scope) -> ObservedRun:
    """The run of a scope, with the agent that acts in it."""
    acting = scope.agent
    scope.run.agent = acting.name if acting is not None else scope.root.name
    return scope.run


def task_of(event: Any) -> str | None:
    """What an agent is to do, in the words of the task, without the sentences that CrewAI puts around it."""
    said = getattr(event.task, "description", None) or event.task_prompt
    return said if isinstance(said, str) else None


def role_of(event: Any) -> str | None:
    """The role of the agent of an event: its name in the record."""
    return header_text((getattr(event.agent, "role", None) or event.agent_role or "").strip())


# --- models ---------------------------------------------------------------------------------------------------


def _model_answered(run: ObservedRun, scope: Scope, source: Any, event: Any, at: int) -> Iterator[Event]:
    acting = scope.agent
    aside = next((one.kind for one in scope.up() if one.kind.startswith(_ASIDE)), None)
    failed = event.type == "llm_call_failed"
    cause: str | None = scope.here
    links: list[str] = []
    if acting is not None:
        acting.told = True
        cause = acting.last or cause
        if acting.results:
            cause, links = acting.results[-1], acting.results[:-1]
    made = run.model_call(
        model=event.model,
        provider=header_text(getattr(source, "provider", None)),
        started_at=time_text(ns(scope.at)),
        duration_ns=time.monotonic_ns() - scope.began,
        usage=None if failed else usage_of(event.usage),
        finish_reason=None if failed else event.finish_reason,
        response_id=None if failed else event.response_id,
        error=str(event.error) if failed else None,
        purpose=aside and aside.removesuffix("_started"),
        cause=cause,
        links=links,
        at_ns=at,
    )
    yield made
    if failed or aside:
        return
    parts = parts_of(event.response)
    if acting is None:
        if parts:
            yield run.message("assistant", parts, cause=made["event_id"], at_ns=at)
        return
    acting.last, acting.results = made["event_id"], []
    acting.wanted = asked_calls(event.response)
    if parts:
        yield _said(scope, acting, parts, cause=made["event_id"], at_ns=at)


def _said(scope: Scope, acting: Acting, parts: list[dict[str, Any]], **options: Any) -> Event:
    made = acting_in(scope).message("assistant", parts, **options)
    acting.last = made["event_id"]
    return made


# --- tools ----------------------------------------------------------------------------------------------------


def _tool_call(run: ObservedRun, scope: Scope, event: Any, at: int) -> Event:
    acting = scope.agent
    arguments = arguments_of(event.tool_args)
    scope.call_id = _asked_id(acting, event.tool_name, arguments) or event.event_id
    facts: dict[str, Any] = {"attempt": event.run_attempts or None, "at_ns": at}
    cause = run.asked.get(scope.call_id) or (acting.last if acting else None) or scope.here
    made = run.tool_call(scope.call_id, event.tool_name, arguments, cause=cause, **facts)
    scope.cause = made["event_id"]
    scope.token = run.enter(scope.call_id)
    return made


def _asked_id(acting: Acting | None, name: str, arguments: Any) -> str | None:
    """The id that the model gave the call; CrewAI's own event has none."""
    if acting is None:
        return None
    same = [one for one in acting.wanted if same_name(one[1], name)]
    found = next((one for one in same if one[2] == arguments), same[0] if same else None)
    if found is None:
        return None
    acting.wanted.remove(found)
    return found[0]


def _tool_result(run: ObservedRun, scope: Scope, event: Any, at: int) -> Event:
    acting = scope.agent
    facts: dict[str, Any] = {
        "duration_ns": time.monotonic_ns() - scope.began,
        "at_ns": at,
        "cause": scope.cause,
    }
    if event.type == "tool_usage_error":
        facts["error"] = event.error
    else:
        facts["result"] = event.output
        if event.failure is not None:
            reason = getattr(event.failure, "reason", None)
            facts["error"] = {"type": getattr(reason, "value", reason), "message": event.failure.message}
        if event.from_cache:
            facts["native"] = {"from_cache": True}
    made = run.tool_result(scope.call_id, **facts)
    if acting is not None:
        acting.results.append(made["event_id"])
        acting.last = made["event_id"]
    return made


# --- people, guardrails, memory -------------------------------------------------------------------------------


def answer(run: ObservedRun, question_id: str, told: Any, **options: Any) -> Event:
    """What a person said; ``told`` has ``feedback`` and ``outcome``, or is ``None`` where CrewAI does not tell."""
    outcome = getattr(told, "outcome", None)
    decision = outcome if outcome in ("approved", "rejected") else None
    content = getattr(told, "feedback", None)
    more = {"outcome": outcome} if outcome and decision is None else {}
    return run.answer(question_id, content=content, decision=decision, **more, **options)


def _question(event: Any) -> str:
    return getattr(event, "request_id", None) or f"{event.flow_name}/{event.method_name}"


def _guardrail(scope: Scope, event: Any) -> Event:
    passed = event.type == "llm_guardrail_completed" and event.success
    worker = scope.task.worker if scope.task else scope.agent
    made = acting_in(scope).event(
        "execution.guardrail",
        {
            "name": header_text(event.guardrail_name or event.guardrail_type) or "guardrail",
            "phase": "output",
            "outcome": "passed" if passed else "blocked",
            "message": getattr(event, "error", None),
            "from": worker.name if worker else None,
        },
        cause=worker.last if worker else scope.here,
        at_ns=ns(event.timestamp),
    )
    if worker is not None:
        worker.last = made["event_id"]
    return made


_MEMORY = {
    "memory_save_completed": ("execution.memory", {"operation": "write"}, "content", "value"),
    "memory_query_completed": ("execution.memory", {"operation": "search"}, "query", "query"),
    "memory_retrieval_completed": ("execution.memory", {"operation": "read"}, "content", "memory_content"),
    "knowledge_search_query_completed": ("execution.retrieval", {"name": "knowledge"}, "query", "query"),
}


def _remembered(scope: Scope, event: Any) -> Event:
    kind, facts, key, name = _MEMORY[event.type]
    found = {key: plain(getattr(event, name, None))}
    if kind == "execution.retrieval":
        found["documents"] = [{"content": event.retrieved_knowledge}] if event.retrieved_knowledge else []
    return acting_in(scope).event(kind, {**facts, **found}, cause=scope.before, at_ns=ns(event.timestamp))


def ns(moment: Any) -> int:
    """A moment of CrewAI as nanoseconds since 1970."""
    return int(moment.timestamp() * 1_000_000) * 1_000
