"""Model calls: the call once, at its end, and each message of its history once in the conversation."""

from __future__ import annotations

from typing import Any

from chatsnapshot.clock import uuid_text
from chatsnapshot.ingest.otlp.event import Event, event_key, source_json
from chatsnapshot.ingest.otlp.messages import (
    Message,
    asked_calls,
    identified,
    instructions,
    parsed,
    read_events,
    taken_messages,
)
from chatsnapshot.ingest.otlp.reading import Reading
from chatsnapshot.ingest.otlp.records import Facts

__all__ = ["embeddings", "judgement", "judgements", "model"]

_PARAMETERS = "gen_ai.request."


def model(reading: Reading) -> list[Event]:
    """``execution.message`` for what is new in the input, ``execution.model_call``, and what the model said."""
    facts = reading.facts
    given, said = taken_messages(facts, False), taken_messages(facts, True)
    if not given and not said and reading.span.events:
        given, said = read_events(reading.span.events)
        if given or said:
            reading.span.events = [one for one in reading.span.events if not one[1].startswith("gen_ai.")]
            reading.left_out.append("gen_ai.* events")
    told = instructions(reading.take("gen_ai.system_instructions"))
    if told and (not given or given[0].get("role") != "system"):
        given = told + given
    if given:
        reading.leave_out("input.value", "traceloop.entity.input")
    if said:
        reading.leave_out("output.value", "traceloop.entity.output")
    call = reading.event("execution.model_call", _call(reading), end=True, key=reading.first)
    events = messages(reading, given, said)
    events.insert(len(events) - sum(one.cause == reading.first for one in events), call)
    return events


def messages(reading: Reading, given: list[Message], said: list[Message]) -> list[Event]:
    """Events of the messages that were not told before; those said follow from the model call."""
    memory, span, correlation = reading.memory, reading.span, reading.correlation
    made: list[Event] = []
    history = given + said
    for number, (message, key) in enumerate(zip(history, identified(correlation, history), strict=True)):
        output = number >= len(given)
        for asked in asked_calls(message):
            memory.ask(correlation, asked, key)
        if memory.told(key):
            continue
        assistant = message.get("role") == "assistant"
        made.append(
            Event(
                key,
                "execution.message",
                (span.end or span.start) if output else (span.start or span.end),
                source_json("agent", span.origin.scope, reading.agent if output and assistant else None),
                correlation,
                reading.first if output else reading.cause,
                message,
                None,
                True,
            )
        )
    return made


def embeddings(reading: Reading) -> list[Event]:
    """``execution.model_call`` with the purpose ``embeddings``."""
    return [
        reading.event(
            "execution.model_call", {"purpose": "embeddings", **_call(reading)}, end=True, key=reading.first
        )
    ]


def _call(reading: Reading) -> Facts:
    take, count = reading.take, reading.count
    payload: Facts = {}
    asked = take("gen_ai.request.model", "llm.model_name", "embedding.model_name", "llm.request.model")
    answered = take("gen_ai.response.model", "llm.response.model")
    chosen = answered or asked
    if chosen is not None:
        payload["model"] = str(chosen)
        if asked is not None and asked != chosen:
            reading.facts["gen_ai.request.model"] = asked
    provider = reading.take_all("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
    if provider is not None:
        payload["provider"] = str(provider)
    if (started := reading.started_at) is not None:
        payload["started_at"] = started
        payload["duration_ns"] = reading.duration_ns
    usage = {
        "input_tokens": count(
            "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"
        ),
        "output_tokens": count(
            "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"
        ),
        "total_tokens": count("llm.usage.total_tokens", "llm.token_count.total"),
        "cache_read": count(
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "llm.token_count.prompt_details.cache_read",
        ),
        "cache_write": count(
            "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "llm.token_count.prompt_details.cache_write",
        ),
        "reasoning": count(
            "gen_ai.usage.reasoning.output_tokens", "llm.token_count.completion_details.reasoning"
        ),
    }
    usage = {key: value for key, value in usage.items() if value is not None}
    if usage:
        payload["usage"] = usage
    reasons = take("gen_ai.response.finish_reasons", "llm.response.finish_reason")
    reasons = parsed(reasons) if isinstance(reasons, str) else reasons
    if isinstance(reasons, list) and len(reasons) > 1:
        payload["finish_reasons"] = reasons
    elif reasons:
        payload["finish_reason"] = str(reasons[0] if isinstance(reasons, list) else reasons)
    if (response := take("gen_ai.response.id")) is not None:
        payload["response_id"] = str(response)
    parameters = parsed(take("llm.invocation_parameters"))
    parameters = parameters if isinstance(parameters, dict) else {}
    for name in [
        name for name in reading.facts if name.startswith(_PARAMETERS) and name != "gen_ai.request.model"
    ]:
        parameters[name[len(_PARAMETERS) :]] = reading.facts.pop(name)
    if parameters:
        payload["parameters"] = parameters
    if (error := reading.error()) is not None:
        payload["error"] = error
    if reading.agent is not None:
        payload["agent"] = reading.agent
    return payload


def judgements(reading: Reading) -> list[Event]:
    """``execution.evaluation`` for each ``gen_ai.evaluation.result`` among the span's events."""
    made: list[Event] = []
    span = reading.span
    for number, (time, name, facts) in enumerate(span.events):
        if name != "gen_ai.evaluation.result":
            continue
        event = reading.event("execution.evaluation", judgement(dict(facts), reading.first))
        event.key = event_key(span.trace, span.id, str(number))
        event.at = time or event.at
        event.cause = reading.first
        made.append(event)
    return made


def judgement(facts: Facts, target: bytes) -> Facts:
    """The payload of an evaluation; ``facts`` are taken apart, the rest is kept."""
    payload: Facts = {"target_event_id": uuid_text(target)}
    name = facts.pop("gen_ai.evaluation.name", None)
    if name is not None:
        payload["name"] = str(name)
    score: Any = facts.pop("gen_ai.evaluation.score.value", None)
    if isinstance(score, (int, float)):
        payload["score"] = score
    label = facts.pop("gen_ai.evaluation.score.label", None)
    if label is not None:
        payload["label"] = str(label)
    elif "score" not in payload:
        payload["label"] = "unknown" if score is None else str(score)
    comment = facts.pop("gen_ai.evaluation.explanation", None)
    if comment is not None:
        payload["comment"] = comment
    if facts:
        payload["native"] = {"attributes": facts}
    return payload
