"""Payloads of models and of judgements: model calls, guardrails, evaluations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import (
    Agent,
    Attempt,
    DurationNs,
    Error,
    Id,
    Items,
    Name,
    Native,
    Number,
    RunId,
    Tag,
    Text,
    Time,
    Usage,
)

__all__ = ["SCHEMAS", "Evaluation", "Guardrail", "ModelCall"]


class ModelCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One call of a model, recorded once, at its end, also when it failed or was cancelled."""

    model: Annotated[Name | None, Meta(description="the model, as the provider names it")] = None
    provider: Annotated[Name | None, Meta(description="who runs the model")] = None
    started_at: Annotated[Time | None, Meta(description="when the call began")] = None
    duration_ns: DurationNs = None
    attempt: Attempt = None
    usage: Annotated[Usage | None, Meta(description="tokens read and written")] = None
    finish_reason: Annotated[Text | None, Meta(description="why the model stopped")] = None
    finish_reasons: Annotated[Items | None, Meta(description="as `finish_reason`, one for each choice")] = (
        None
    )
    response_id: Annotated[Id | None, Meta(description="the provider's id of the answer")] = None
    purpose: Annotated[
        Text | None, Meta(description="what the call is for, where it is not the agent's own step")
    ] = None
    parameters: Annotated[Any, Meta(description="temperature, limits and other settings of the call")] = None
    status: Annotated[Id | None, Meta(description="ok, failed or cancelled, where no error tells")] = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    stop_reason: Annotated[Text | None, Meta(description="as `finish_reason`")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class Guardrail(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A guardrail judged an input, an output or a tool call."""

    name: Annotated[Name | None, Meta(description="name of the guardrail")] = None
    phase: Annotated[Text | None, Meta(description="what was judged: input, output or a tool call")] = None
    outcome: Annotated[Text | None, Meta(description="the judgement, such as `passed` or `blocked`")] = None
    action: Annotated[Text | None, Meta(description="what was done because of it")] = None
    triggered: Annotated[bool | None, Meta(description="whether it found what it looks for")] = None
    message: Annotated[Any, Meta(description="why, for people")] = None
    value: Annotated[Any, Meta(description="what was judged")] = None
    from_: Annotated[Name | None, Meta(description="whose text was judged")] = msgspec.field(
        default=None, name="from"
    )
    to: Annotated[Name | None, Meta(description="for whom the text was meant")] = None
    error: Annotated[Error | None, Meta(description="why it could not judge")] = None
    guardrail: Annotated[Name | None, Meta(description="as `name`")] = None
    reason: Annotated[Any, Meta(description="as `message`")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class Evaluation(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run or an event was judged: by a person, by a model or by code."""

    target_event_id: Annotated[Id | None, Meta(description="id of the event that is judged")] = None
    run_id: Annotated[Id | None, Meta(description="id of the run that is judged, in any correlation")] = None
    name: Annotated[Name | None, Meta(description="what is judged, such as `helpful`")] = None
    score: Annotated[
        Number | bool | str | None,
        Meta(
            description="the judgement as a number on the evaluator's scale; true, false or a text is a label"
        ),
    ] = None
    label: Annotated[Text | None, Meta(description="the judgement as a word, such as `good`")] = None
    comment: Annotated[Any, Meta(description="why, for people")] = None
    evaluator: Annotated[Name | None, Meta(description="who or what judged")] = None
    kind: Annotated[
        Literal["human", "model", "code"] | Tag | None, Meta(description="what kind of evaluator it is")
    ] = None
    value: Annotated[Number | bool | str | None, Meta(description="as `score`")] = None
    metric: Annotated[Name | None, Meta(description="as `name`")] = None
    key: Annotated[Name | None, Meta(description="as `name`")] = None
    judge: Annotated[Name | None, Meta(description="as `evaluator`")] = None
    reason: Annotated[Any, Meta(description="as `comment`")] = None
    explanation: Annotated[Any, Meta(description="as `comment`")] = None
    native: Native = None


SCHEMAS: tuple[Schema, ...] = (
    schema(
        "execution.model_call",
        ModelCall,
        {
            "model": "large-2",
            "provider": "acme",
            "started_at": "2026-11-30T02:26:03.123456Z",
            "duration_ns": 1_840_000_000,
            "attempt": 1,
            "usage": {"input_tokens": 1250, "output_tokens": 84, "cache_read": 1024, "reasoning": 32},
            "finish_reason": "stop",
            "agent": "desk",
        },
    ),
    schema(
        "execution.guardrail",
        Guardrail,
        {
            "name": "no card numbers",
            "phase": "output",
            "outcome": "blocked",
            "message": "a card number in the text",
        },
        ("name", "guardrail", "action", "outcome", "message", "reason", "triggered", "error"),
    ),
    schema(
        "execution.evaluation",
        Evaluation,
        {
            "run_id": "run-7",
            "name": "helpful",
            "score": 0.9,
            "label": "good",
            "comment": "Kind, and in time.",
            "evaluator": "odile",
            "kind": "human",
        },
        ("target_event_id", "run_id"),
        ("score", "label", "value"),
    ),
)
