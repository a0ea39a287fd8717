"""A log record becomes events: messages and evaluations of the GenAI conventions, ``otel.log`` for any other."""

from __future__ import annotations

import hashlib
from typing import Any

from chatsnapshot.ingest.otlp.event import Event, event_key, name_text, place_text, source_json, start_key
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.messages import instructions, read_events, taken_messages
from chatsnapshot.ingest.otlp.models import judgement, messages
from chatsnapshot.ingest.otlp.reading import Reading, correlation_of
from chatsnapshot.ingest.otlp.records import Facts, Log, Span
from chatsnapshot.jsonvalue import encode

__all__ = ["NAMED", "events_of_log"]

NAMED = {
    "gen_ai.evaluation.result": "execution.evaluation",
    "gen_ai.client.inference.operation.details": "execution.message",
    "gen_ai.choice": "execution.message",
    "gen_ai.system.message": "execution.message",
    "gen_ai.user.message": "execution.message",
    "gen_ai.assistant.message": "execution.message",
    "gen_ai.tool.message": "execution.message",
}
"""Names of event records → what they become; all other records are ``otel.log``."""


def events_of_log(log: Log, memory: Memory) -> list[Event]:
    """The events of a log record; its attributes are taken apart."""
    name = log.name or log.facts.get("event.name") or ""
    what = NAMED.get(name) if isinstance(name, str) else None
    if what == "execution.evaluation" and log.trace is not None and log.span is not None:
        return [_evaluation(log)]
    if what == "execution.message" and log.trace is not None:
        return _messages(log, name, memory)
    return [_log(log)]


def _evaluation(log: Log) -> Event:
    target = start_key(log.trace or "", log.span or "")
    digest = _digest(log)
    payload = judgement(log.facts, target)
    return _event(log, "execution.evaluation", payload, digest)


def _messages(log: Log, name: str, memory: Memory) -> list[Event]:
    """Messages only: the tokens of the call stand on its span."""
    span = Span(
        log.trace or "", log.span or "", log.span, name, 0, log.time or log.observed, log.time or log.observed,
        log.facts, 0, "", [], [], {}, log.origin,
    )  # fmt: skip
    reading = Reading(span, memory, "model")
    if name == "gen_ai.client.inference.operation.details":
        given, said = taken_messages(log.facts, False), taken_messages(log.facts, True)
        told = instructions(log.facts.pop("gen_ai.system_instructions", None))
        given = told + given
    else:
        body = log.body if isinstance(log.body, dict) else {"content": log.body}
        given, said = read_events([(log.time, name, body)])
    return messages(reading, given, said)


def _log(log: Log) -> Event:
    digest = _digest(log)
    payload: Facts = {"body": log.body}
    if log.severity_text or log.severity:
        payload["severity"] = log.severity_text or str(log.severity)
        payload["severity_number"] = log.severity
    if log.name:
        payload["name"] = log.name
    native: Facts = {}
    if log.facts:
        native["attributes"] = log.facts
    payload["native"] = native
    return _event(log, "otel.log", payload, digest)


def _digest(log: Log) -> str:
    """What tells one record from another: it has no id of its own."""
    said = [
        log.trace, log.span, log.time, log.observed, log.severity, log.severity_text, log.name, log.body, log.facts,
        log.origin.resource, log.origin.scope,
    ]  # fmt: skip
    return hashlib.sha256(encode({"log": said}).json).hexdigest()


def _event(log: Log, event_type: str, payload: Facts, digest: str) -> Event:
    native: Facts = payload.setdefault("native", {})
    if log.origin.resource:
        native["resource"] = log.origin.resource
    if log.origin.scope_facts:
        native["scope"] = log.origin.scope_facts
    native |= log.more
    at = log.time or log.observed
    if not at:
        native["time"] = "unknown"
    agent: Any = log.facts.get("gen_ai.agent.name")
    service = name_text(log.origin.resource.get("service.name"), 200)
    return Event(
        event_key("log", digest),
        event_type,
        at,
        source_json(
            "agent" if event_type.startswith("execution.") else "system", log.origin.scope, name_text(agent)
        ),
        correlation_of(log.facts) or log.trace or f"otel.logs/{service or 'unknown'}",
        None if log.trace is None or log.span is None else start_key(log.trace, log.span),
        payload,
        None if log.trace is None or log.span is None else place_text(log.trace, log.span),
    )
