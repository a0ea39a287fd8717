"""A span becomes events: which, in which order, with which cause (``docs/otlp.md`` has the table)."""

from __future__ import annotations

from collections.abc import Callable

from chatsnapshot.ingest.otlp import models, steps
from chatsnapshot.ingest.otlp.event import Event
from chatsnapshot.ingest.otlp.kinds import kind_of
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.reading import Reading
from chatsnapshot.ingest.otlp.records import Span

__all__ = ["events_of_span"]

_RULES: dict[str, Callable[[Reading], list[Event]]] = {
    "agent": steps.agent,
    "workflow": steps.workflow,
    "task": steps.task,
    "tool": steps.tool,
    "handoff": steps.handoff,
    "retrieval": steps.retrieval,
    "memory": steps.memory,
    "guardrail": steps.guardrail,
    "client": steps.client,
    "server": steps.server,
    "other": steps.other,
    "model": models.model,
    "embeddings": models.embeddings,
}


def events_of_span(span: Span, memory: Memory) -> list[Event]:
    """The events of a span; its attributes are taken apart. Messages that ``memory`` knows are left out."""
    kind = kind_of(span.facts, span.kind, span.parent, span.name)
    reading = Reading(span, memory, kind)
    events = _RULES[kind](reading)
    if span.events:
        events += models.judgements(reading)
    return events
