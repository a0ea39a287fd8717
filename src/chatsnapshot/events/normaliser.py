"""The one reader of payloads: tools, questions, handoffs, runs, tasks and services in all their plain forms.

Projections, context and exports read payloads through this module, :mod:`chatsnapshot.events.messages` and
:mod:`chatsnapshot.events.facts`, so that all of them understand the same forms. What is stored stays as it was given.
Nothing here raises because of a payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.events.fields import (
    error_text,
    failed,
    first,
    ident,
    items,
    known,
    loads,
    merged,
    name_of,
    placeholder,
    readable,
    strings,
    text_of,
    whole,
)
from chatsnapshot.events.messages import Call, Result, looks_like_message, read_speaker

__all__ = [
    "Answer",
    "Asked",
    "Evaluation",
    "Given",
    "ModelCall",
    "RunFacts",
    "Service",
    "Task",
    "read_agent",
    "read_answer",
    "read_call",
    "read_evaluation",
    "read_handoff",
    "read_model_call",
    "read_problem",
    "read_question",
    "read_result",
    "read_run",
    "read_service",
    "read_task",
    "tool_failed",
]
__all__ += ["actor_of", "call_id_of"]

_CALL_KEYS = (
    "tool",
    "tool_name",
    "name",
    "func_name",
    "function",
    "arguments",
    "args",
    "input",
    "call_id",
    "id",
)
_AROUND_RESULT = frozenset(
    {"tool", "name", "func_name", "is_error", "error", "success", "ok", "is_exec_success", "status"}
)
_RESULT_KEYS = ("result", "output", "content", "response", "value", "return_value", "parts")


class Asked(msgspec.Struct, frozen=True):
    """A question to a person; ``kind`` is ``question``, ``approval`` or ``edit``, or what the payload says."""

    question_id: str | None
    kind: str
    text: str


class Answer(msgspec.Struct, frozen=True):
    """A person's answer; ``answers`` is the id of the question, ``decision`` approved, rejected or edited."""

    answers: str | None
    decision: str | None
    value: Any


class Evaluation(msgspec.Struct, frozen=True):
    """A judgement of a run or an event; ``score`` is a number, ``label`` a word, ``kind`` human, model or code."""

    target_event_id: str | None
    run_id: str | None
    name: str | None
    score: float | None
    label: str | None
    evaluator: str | None
    kind: str | None
    comment: str | None


class Given(msgspec.Struct, frozen=True):
    """A handoff: the work goes from ``source`` to ``target``."""

    source: str | None
    target: str | None
    text: str | None


class RunFacts(msgspec.Struct, frozen=True, gc=False):
    """What an event says about its run or workflow; ``output`` is a JSON value."""

    run_id: str | None
    parent_run_id: str | None
    name: str | None
    user: str | None
    tags: tuple[str, ...]
    error: str | None
    reason: str | None
    output: Any = None


class Task(msgspec.Struct, frozen=True):
    """What an event says about a task; ``depends_on`` are ids of tasks, ``output`` is a JSON value."""

    task_id: str | None
    name: str | None
    attempt: int | None
    error: str | None
    reason: str | None = None
    depends_on: tuple[str, ...] = ()
    parent_task_id: str | None = None
    output: Any = None


class Service(msgspec.Struct, frozen=True):
    """What an event says about a call to another service."""

    call_id: str | None
    name: str | None
    status: str | None
    error: str | None


class ModelCall(msgspec.Struct, frozen=True, gc=False):
    """What an event says about a call of a model; what is unknown is ``None``.

    ``input_tokens`` counts the tokens from and to caches too where the provider does, ``output_tokens`` the reasoning;
    ``cache_read_tokens``, ``cache_write_tokens`` and ``reasoning_tokens`` say how many of them these are.
    ``started_at`` is a time as text, ``attempt`` counts from 1.
    """

    model: str | None
    duration_ns: int | None
    input_tokens: int | None
    output_tokens: int | None
    error: str | None
    provider: str | None = None
    agent: str | None = None
    started_at: str | None = None
    attempt: int | None = None
    finish_reason: str | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


def read_call(payload: Mapping[str, Any]) -> Call:
    """A tool call; a payload of no known shape becomes the arguments of a call without a name."""
    name, call_id, arguments = payload.get("tool_name"), payload.get("call_id"), payload.get("arguments")
    ours = type(name) is str and name and type(call_id) is str and call_id and arguments is not None
    if ours and "tool" not in payload and "function" not in payload:
        # The form of our own adapters, at once.
        return Call(name, call_id, readable(loads(arguments)))
    facts = merged(payload, "tool")
    function = facts.get("function")
    inner = merged(facts, "function")
    name = name_of(first(inner, "tool_name", "name", "func_name"))
    if name is None:
        name = ident(facts.get("tool")) or ident(function)
    arguments = first(inner, "arguments", "args", "input", "parameters", "kwargs")
    if arguments is None and not known(payload, _CALL_KEYS) and payload:
        arguments = payload
    return Call(name, _call_id(facts), readable(loads(arguments)))


def read_result(payload: Mapping[str, Any]) -> Result:
    """A tool result; a payload of no known shape is itself the result."""
    call_id, value = payload.get("call_id"), payload.get("result")
    if type(call_id) is str and call_id and value is not None and _AROUND_RESULT.isdisjoint(payload):
        # The form of our own adapters, at once.
        return Result(name_of(payload.get("tool_name")), call_id, readable(value))
    facts = merged(payload, "tool")
    name = name_of(first(facts, "tool_name", "name", "func_name"))
    if name is None:
        name = ident(facts.get("tool"))
    value = first(facts, *_RESULT_KEYS)
    error = error_text(facts.get("error"))
    if error is None and failed(facts):
        error = text_of(value) or "failed"
    if value is None and error is None and not known(facts, (*_RESULT_KEYS, *_CALL_KEYS)) and payload:
        value = payload
    return Result(name, _call_id(facts) or ident(facts.get("parent_id")), readable(value), error)


def tool_failed(payload: Mapping[str, Any]) -> bool:
    """Whether a tool result says that the tool failed; the same as ``read_result(payload).error is not None``."""
    facts = merged(payload, "tool")
    return error_text(facts.get("error")) is not None or failed(facts)


def call_id_of(payload: Mapping[str, Any]) -> str | None:
    """The id that a tool call and its result share."""
    return _call_id(merged(payload, "tool"))


def _call_id(facts: Mapping[str, Any]) -> str | None:
    return ident(first(facts, "call_id", "tool_call_id", "tool_use_id", "id"))


def read_question(payload: Mapping[str, Any]) -> Asked:
    """A question, an approval or an edit that a person is asked for."""
    facts = merged(payload, "interrupt", "tool")
    text = text_of(first(facts, "question", "prompt", "text", "content", "message", "title", "value"))
    kind = ident(facts.get("kind")) or "question"
    if not text and payload:
        call = read_call(payload)
        text = f"{call.name}({text_of(call.arguments)})" if call.name else text_of(payload)
    return Asked(
        ident(first(facts, "question_id", "id", "request_id", "interrupt_id", "call_id")), kind, text
    )


def read_answer(payload: Mapping[str, Any]) -> Answer:
    """A person's answer to a question."""
    facts = merged(payload, "interrupt")
    decision = facts.get("decision")
    if decision is None and isinstance(approved := facts.get("approved"), bool):
        decision = "approved" if approved else "rejected"
    value = first(
        facts, "answer", "response", "value", "text", "content", "edited", "result", "comment", "message"
    )
    answers = ident(first(facts, "answers", "question_id", "request_id", "interrupt_id", "parent_id", "id"))
    if value is None and decision is None and answers is None and payload:
        value = payload
    return Answer(answers, ident(decision), readable(value))


def read_evaluation(payload: Mapping[str, Any]) -> Evaluation:
    """How well a run or event did; a score or label that is neither a number nor a word counts as none."""
    score, label = readable(first(payload, "score", "value")), first(payload, "label")
    if isinstance(score, bool) or (label is None and isinstance(score, str)):
        score, label = None, str(score).lower() if isinstance(score, bool) else score
    if not isinstance(score, (int, float)):
        try:
            score = float(score)  # a Decimal is read as text
        except (TypeError, ValueError):
            score = None
    return Evaluation(
        ident(payload.get("target_event_id")),
        ident(payload.get("run_id")),
        name_of(first(payload, "name", "metric", "key")),
        score if score is not None and score - score == 0 else None,
        text_of(label) or None,
        name_of(first(payload, "evaluator", "judge")),
        ident(payload.get("kind")),
        text_of(first(payload, "comment", "reason", "explanation")) or None,
    )


def read_handoff(payload: Mapping[str, Any]) -> Given:
    """Who gave the work to whom."""
    text = text_of(first(payload, "reason", "message", "text", "content"))
    return Given(
        name_of(first(payload, "from", "source", "from_agent", "source_agent", "sender")),
        name_of(first(payload, "to", "target", "to_agent", "target_agent", "recipient", "agent")),
        text or None,
    )


def read_run(payload: Mapping[str, Any], id_key: str = "run_id") -> RunFacts:
    """The facts about a run, or with ``id_key="workflow_id"`` about a workflow."""
    return RunFacts(
        ident(payload.get(id_key)),
        ident(payload.get("parent_run_id")),
        name_of(payload.get("name")),
        name_of(payload.get("user")),
        strings(payload.get("tags")),
        error_text(payload.get("error")),
        text_of(payload.get("reason")) or None,
        readable(payload.get("output")),
    )


def read_task(payload: Mapping[str, Any]) -> Task:
    """The facts about a task; one without an id is known by its name."""
    facts = merged(payload, "task")
    name = name_of(first(facts, "name", "task_name", "title")) or ident(facts.get("task"))
    return Task(
        ident(first(facts, "task_id", "id")),
        name,
        whole(facts.get("attempt")),
        error_text(facts.get("error")),
        text_of(facts.get("reason")) or None,
        strings(facts.get("depends_on")),
        ident(facts.get("parent_task_id")),
        readable(facts.get("output")),
    )


def read_service(payload: Mapping[str, Any]) -> Service:
    """The facts about a call to or from another service."""
    service = name_of(first(payload, "service", "api", "host"))
    operation = name_of(first(payload, "operation", "method", "endpoint", "path", "url", "name"))
    error = error_text(payload.get("error"))
    if error is None and failed(payload):
        error = f"status {text_of(payload.get('status'))}" if payload.get("status") is not None else "failed"
    return Service(
        ident(first(payload, "call_id", "request_id", "id")),
        " ".join(filter(None, (service, operation))) or None,
        text_of(payload.get("status")) or None,
        error,
    )


def read_model_call(payload: Mapping[str, Any]) -> ModelCall:
    """The facts about one call of a model."""
    error = error_text(payload.get("error"))
    if error is None and failed(payload):
        error = "failed"
    reasons = items(payload.get("finish_reasons"))
    finish = text_of(first(payload, "finish_reason", "stop_reason") or (reasons[0] if reasons else None))
    return ModelCall(
        model=name_of(payload.get("model")),
        duration_ns=whole(payload.get("duration_ns")),
        error=error,
        provider=name_of(payload.get("provider")),
        agent=name_of(payload.get("agent")),
        started_at=text_of(payload.get("started_at")) or None,
        attempt=whole(payload.get("attempt")),
        finish_reason=finish or None,
        **_tokens(payload.get("usage")),
    )


_TOKENS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cache_read_tokens": ("cache_read", "cache_read_tokens", "cache_read_input_tokens", "cached_tokens"),
    "cache_write_tokens": ("cache_write", "cache_write_tokens", "cache_creation_input_tokens"),
    "reasoning_tokens": ("reasoning", "reasoning_tokens", "thinking_tokens"),
}
_DETAILS = (
    "input_tokens_details",
    "prompt_tokens_details",
    "output_tokens_details",
    "completion_tokens_details",
)


def _tokens(usage: Any) -> dict[str, int | None]:
    """Counts of tokens by the names that providers give them, flat or in details."""
    counts = merged(usage, *_DETAILS) if isinstance(usage, Mapping) else {}
    return {fact: whole(first(counts, *keys)) for fact, keys in _TOKENS.items()}


def read_agent(payload: Mapping[str, Any]) -> str | None:
    """The agent that the payload names."""
    return name_of(payload.get("agent"))


def actor_of(event_type: str, payload: Mapping[str, Any]) -> str | None:
    """Who acted, as the payload says: an agent, a speaker, a user; ``None`` where only the source can tell."""
    if not event_type.startswith(("execution.", "ui.")):
        return None
    named = name_of(first(payload, "agent", "speaker"))
    if named is None and (event_type == "execution.message" or looks_like_message(payload)):
        named = read_speaker(payload)
    if named is None and event_type.startswith("ui."):
        named = name_of(payload.get("user"))
    return named


def read_problem(payload: Mapping[str, Any]) -> str:
    """What failed, in one text; a payload of no known shape is shown as it is."""
    text = error_text(first(payload, "error", "exception"))
    if text is None:
        text = text_of(first(payload, "reason", "message", "text", "value"))
    if not text:
        text = placeholder(payload) or (text_of(payload) if payload else "")
    return text
