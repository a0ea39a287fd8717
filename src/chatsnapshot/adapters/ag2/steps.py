"""The steps of a turn: an event of the stream, a model call or an end, as events of the run with causes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.ag2 import streamed
from chatsnapshot.adapters.ag2.earlier import Earlier
from chatsnapshot.adapters.ag2.events import map_event, normalize
from chatsnapshot.adapters.ag2.run import CURRENT, Run
from chatsnapshot.adapters.plain import describe_error, plain
from chatsnapshot.adapters.policy import Event

__all__ = ["answers", "closed", "completed", "ended_by", "model_call", "seen"]

_CONFIG_KEY = "__ag2_model_config__"
_ONLY_QUESTION = "the only one"
"""Questions of autogen.beta 0.11 have no id."""
_NOBODY_THERE = "HumanInputNotProvidedError"
"""What AG2 raises where a person is asked and no hook is set: whoever catches it may resume with the answer."""
_PASSING_KEPT = frozenset({"CompactionCompleted", "CompactionFailed", "AggregationFailed", "EventLogFailed"})
"""Events that AG2 does not store but that say that its history was, or was not, rewritten."""


def seen(run: Run | None, event: Any, context: Any) -> list[Event]:
    """What to record for one event of the stream: nothing, one event, or tool results that had no event."""
    names = streamed.kinds(event)
    if run is not None and names[0].startswith("Compaction"):
        run.compacting = names[0] == "CompactionStarted"
    if run is None or (streamed.is_transient(event) and not _PASSING_KEPT.intersection(names)):
        return []
    if run.again is not None and event is run.again:
        run.again = None
        return []
    for name in names:
        if name in _KINDS:
            made = _KINDS[name](run, event, context)
            return made + _variables(run, context) if name == "ToolResultEvent" else made
    return [run.event(map_event(event), normalize(event))]


def _variables(run: Run, context: Any) -> list[Event]:
    """The variables, where a tool changed them: a run that is gone on with after a kill needs them."""
    now = plain(context.variables)
    if run.variables is None or now == run.variables:
        return []
    run.variables = now
    return [run.event("execution.state_change", {"name": "variables", "variables": now})]


def _plain_event(run: Run, event: Any, cause: str | None = None, **more: Any) -> Event:
    return run.event(map_event(event), normalize(event), cause=cause, **more)


def _nothing(run: Run, event: Any, context: Any) -> list[Event]:
    return []


def _request(run: Run, event: Any, context: Any) -> list[Event]:
    run.results.clear()
    by = run.parent.agent if run.parent else None
    return [run.said_to_agent(map_event(event), normalize(event), by=by)]


def _response(run: Run, event: Any, context: Any) -> list[Event]:
    made = run.event(map_event(event), {**normalize(event), "name": run.agent}, cause=run.replying)
    run.replying, run.asked_by = None, run.last
    run.results.clear()
    return [made]


def _call(run: Run, event: Any, context: Any) -> list[Event]:
    made = _plain_event(run, event, cause=run.asked_by)
    run.calls[event.id] = made["event_id"]
    return [made]


def _result(run: Run, event: Any, context: Any) -> list[Event]:
    made = _plain_event(run, event, cause=run.calls.get(event.parent_id))
    run.answered.add(event.parent_id)
    run.results.append(made["event_id"])
    return [made]


def _results(run: Run, event: Any, context: Any) -> list[Event]:
    """The container repeats results that had events of their own; those that had none are recorded from it.

    A turn that was resumed with the results of an earlier run has no calls here: they are its input.
    """
    if any(result.parent_id in run.calls for result in event.results):
        return [
            made
            for one in event.results
            if one.parent_id not in run.answered
            for made in _result(run, one, context)
        ]
    return [_plain_event(run, event)]


def closed(run: Run, result: Any) -> list[Event]:
    """A result that AG2 itself put in the place of one that never came."""
    (made,) = _result(run, result, None)
    made["payload"]["synthetic"] = True
    return [made]


def _usage(run: Run, event: Any, context: Any) -> list[Event]:
    if event.kind == "model_call" and run.usage_seen:
        run.usage_seen -= 1
        return []
    return [_plain_event(run, event)]


def _question(run: Run, event: Any, context: Any) -> list[Event]:
    question_id = getattr(event, "id", _ONLY_QUESTION)
    if question_id in run.questions:
        return []
    made = _plain_event(run, event, cause=_asking(run, event, context))
    run.questions[question_id] = made["event_id"]
    run.asking.update(
        {call: question_id for call, cause in run.calls.items() if cause == made["causation_id"]}
    )
    if made["payload"].get("kind") == "approval":
        run.approvals.add(question_id)
    return [made]


def _asking(run: Run, event: Any, context: Any) -> str | None:
    """The tool call inside which something happens."""
    place = CURRENT.get()
    if place is not None and place.run is run:
        return place.cause
    call_id = getattr(event, "tool_call_id", None) or getattr(context, "tool_call_id", None)
    return run.calls.get(call_id) if call_id else None


def _answer(run: Run, event: Any, context: Any) -> list[Event]:
    question_id = getattr(event, "parent_id", _ONLY_QUESTION)
    question = run.questions.pop(question_id, None)
    if question is None and question_id in run.answered:
        return []
    run.answered.add(question_id)
    payload, attributes = normalize(event), None
    if question_id in run.approvals:
        payload["decision"] = streamed.approval_of(event.content)
        attributes = {"outcome": payload["decision"]}
    return [run.said_to_agent(map_event(event), payload, cause=question, attributes=attributes)]


def _task_started(run: Run, event: Any, context: Any) -> list[Event]:
    call_id = getattr(event, "parent_tool_call_id", None)
    made = _plain_event(run, event, cause=run.calls.get(call_id or "") or _asking(run, event, context))
    run.tasks[event.task_id] = made["event_id"]
    return [made]


def _task_ended(run: Run, event: Any, context: Any) -> list[Event]:
    return [_plain_event(run, event, cause=run.tasks.pop(event.task_id, None))]


_KINDS: dict[str, Callable[[Run, Any, Any], list[Event]]] = {
    "ToolCallsEvent": _nothing,
    "ModelRequest": _request,
    "ModelResponse": _response,
    "ToolCallEvent": _call,
    "ToolResultEvent": _result,
    "ToolResultsEvent": _results,
    "UsageEvent": _usage,
    "HumanInputRequest": _question,
    "HumanMessage": _answer,
    "TaskStarted": _task_started,
    "TaskCompleted": _task_ended,
    "TaskFailed": _task_ended,
    "TaskExpired": _task_ended,
    "TaskCancelled": _task_ended,
}


def model_call(
    run: Run,
    context: Any,
    started_at: str,
    duration_ns: int,
    *,
    response: Any = None,
    error: BaseException | None = None,
) -> list[Event]:
    """A call of the model, with its response or its failure."""
    config = context.dependencies.get(_CONFIG_KEY)
    payload = {
        "model": getattr(response, "model", None) or _setting(config, "model"),
        "provider": getattr(response, "provider", None) or _setting(config, "provider"),
        "started_at": started_at,
        "duration_ns": duration_ns,
        "attempt": run.attempt,
        "usage": streamed.usage_of(response.usage) if response is not None else None,
        "finish_reason": getattr(response, "finish_reason", None),
        "response_id": getattr(response, "response_id", None),
        "error": describe_error(error) if error is not None else None,
    }
    cause, links = run.model_causes()
    made = run.event(
        "execution.model_call",
        {key: value for key, value in payload.items() if value is not None},
        cause=cause,
        links=links,
    )
    if error is None:
        run.attempt = 1
        run.replying = made["event_id"]
        run.usage_seen += bool(response.usage)
    else:
        run.attempt += 1
    return [made]


def _setting(config: Any, name: str) -> str | None:
    try:
        value = getattr(config, name, None)
    except Exception:
        return None
    value = getattr(value, "value", value)
    return value if isinstance(value, str) else None


def completed(run: Run, reply: Any, context: Any) -> Event:
    """The end of a turn that gave a reply."""
    payload = {
        "status": "ok",
        "output": getattr(reply, "content", None),
        "variables": plain(context.variables),
    }
    return run.event("execution.run_completed", {key: value for key, value in payload.items() if value})


def answers(run: Run, event: Any, earlier: Earlier) -> list[Event]:
    """What a person answered to the run before, where this one begins with the results of the tools that asked."""
    made = []
    for result in event.results if "ToolResultsEvent" in streamed.kinds(event) else ():
        asked = earlier.waiting.get(result.parent_id)
        if asked is not None and not asked.approval:
            payload = {
                "run_id": asked.run_id or run.run_id,  # it belongs to the run that asked
                "answers": asked.question_id,
                "answer": normalize(result).get("result"),
            }
            made.append(run.said_to_agent("execution.human_input_received", payload, cause=asked.event))
    return made


def ended_by(run: Run, error: BaseException) -> Event:
    """The end of a turn that raised: failed, cancelled when it was stopped from outside, or paused for a person."""
    if run.questions and type(error).__name__ == _NOBODY_THERE:
        return run.event("execution.run_paused", {"reason": type(error).__name__})
    if isinstance(error, Exception):
        return run.event("execution.run_failed", {"error": describe_error(error)})
    return run.event("execution.run_cancelled", {"reason": type(error).__name__})
