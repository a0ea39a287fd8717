"""One span of a trace: its name, kind and attributes after the OpenTelemetry GenAI conventions, by what it spans."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.fields import text_of
from chatsnapshot.events.normaliser import (
    actor_of,
    read_answer,
    read_call,
    read_evaluation,
    read_model_call,
    read_question,
    read_result,
    read_run,
    read_service,
    read_task,
)
from chatsnapshot.exporters.stored import facts_of, hex_of

__all__ = ["Span", "attributes_of", "begun", "ended", "event_facts", "name_of_span", "span_id", "trace_id"]

INTERNAL, CLIENT = 1, 3
ERROR = 2

Facts = dict[str, Any]


class Span(msgspec.Struct):
    """A span as it is being made; times are nanoseconds since 1970, ``end`` is ``None`` while it is open."""

    key: int
    id: str
    what: str
    name: str
    start: int
    end: int | None = None
    parent: str | None = None
    error: str | None = None
    facts: Facts = {}
    events: list[dict[str, Any]] = []
    links: list[dict[str, str]] = []
    last: int = 0

    def shaped(self, trace: str) -> dict[str, Any]:
        """The span as OTLP JSON has it."""
        facts = dict(self.facts)
        end = self.end
        if end is None:
            facts["chatsnapshot.unfinished"] = True
            end = max(self.last, self.start)
        elif end < self.start:
            facts["chatsnapshot.clocks_disagree"] = True
            end = self.start
        made: dict[str, Any] = {"traceId": trace, "spanId": self.id}
        if self.parent is not None:
            made["parentSpanId"] = self.parent
        made |= {
            "name": self.name,
            "kind": CLIENT if self.what in ("model", "integration") else INTERNAL,
            "startTimeUnixNano": str(self.start),
            "endTimeUnixNano": str(end),
            "attributes": attributes_of(facts),
        }
        if self.events:
            made["events"] = self.events
        if self.links:
            made["links"] = self.links
        if self.error is not None:
            made["status"] = {"code": ERROR, "message": self.error}
        return made


def trace_id(event_id: str) -> str:
    """The trace of a run: 32 hexadecimal digits that follow from the id of its first event."""
    return hashlib.sha256(f"chatsnapshot/trace\n{event_id}".encode()).hexdigest()[:32]


def span_id(event_id: str) -> str:
    """The span that an event begins: 16 hexadecimal digits that follow from its id."""
    return hashlib.sha256(f"chatsnapshot/span\n{event_id}".encode()).hexdigest()[:16]


def attributes_of(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes as OTLP JSON has them; what is ``None`` is left out."""
    return [{"key": key, "value": _value(value)} for key, value in facts.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if abs(value) < 2**63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": value if isinstance(value, str) else text_of(value)}


def event_facts(entry: LedgerEntry) -> Facts:
    """What every span and span event says about the event that it comes from."""
    payload = facts_of(entry)
    facts: Facts = {
        "chatsnapshot.event_id": entry.event_id,
        "chatsnapshot.event_type": entry.event_type,
        "chatsnapshot.position": entry.position,
        "gen_ai.conversation.id": entry.correlation_id,
    }
    actor = actor_of(entry.event_type, payload)
    if actor is None and entry.source.origin == "agent":
        actor = entry.source.name
    if entry.source.origin != "ui":
        facts["gen_ai.agent.name"] = actor
    if entry.erased:
        facts["chatsnapshot.erased"] = True
    if entry.event_type == "execution.evaluation":
        judged = read_evaluation(payload)
        facts |= {
            "gen_ai.evaluation.name": judged.name,
            "gen_ai.evaluation.score.value": judged.score,
            "gen_ai.evaluation.score.label": judged.label,
            "gen_ai.evaluation.explanation": judged.comment,
        }
    return facts


def links_of(entry: LedgerEntry) -> list[dict[str, str]]:
    """A link to the span that the event was recorded in, where its attributes name one."""
    if entry.attributes_json is None or '"trace_id"' not in entry.attributes_json:
        return []
    attributes = entry.attributes
    trace, span = hex_of(attributes.get("trace_id"), 32), hex_of(attributes.get("span_id"), 16)
    return [{"traceId": trace, "spanId": span}] if trace and span else []


def begun(what: str, entry: LedgerEntry) -> Facts:
    """What the event that begins a span (or is the whole of it) says about it."""
    payload = facts_of(entry)
    facts = event_facts(entry)
    if what in ("run", "workflow"):
        run = read_run(payload, f"{what}_id")
        facts |= {
            "gen_ai.operation.name": "invoke_agent" if what == "run" else "invoke_workflow",
            "chatsnapshot.run_id": run.run_id or entry.correlation_id,
            "chatsnapshot.run_name": run.name,
            "gen_ai.workflow.name": run.name if what == "workflow" else None,
        }
    elif what == "tool":
        call = read_call(payload)
        facts |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.tool.call.arguments": _json(call.arguments),
        }
    elif what == "model":
        facts |= _model(payload)
    elif what == "task":
        task = read_task(payload)
        facts |= {"chatsnapshot.task_id": task.task_id, "chatsnapshot.task_name": task.name}
    elif what == "question":
        asked = read_question(payload)
        facts |= {"chatsnapshot.question.kind": asked.kind, "chatsnapshot.question.text": asked.text or None}
    elif what == "integration":
        facts["chatsnapshot.service"] = read_service(payload).name
    return facts


def _model(payload: Mapping[str, Any]) -> Facts:
    call = read_model_call(payload)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
        "gen_ai.response.finish_reasons": [call.finish_reason] if call.finish_reason else None,
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens": call.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": call.reasoning_tokens,
    }


def ended(what: str, entry: LedgerEntry) -> tuple[Facts, str | None]:
    """What the event that ends a span says about it, and how it failed."""
    payload = facts_of(entry)
    erased = {"chatsnapshot.erased": True} if entry.erased else {}
    if what in ("run", "workflow"):
        run = read_run(payload, f"{what}_id")
        status = entry.event_type.rpartition("_")[2]
        error = run.error or ("failed" if status == "failed" else None)
        return {"chatsnapshot.status": status, "chatsnapshot.output": _json(run.output), **erased}, error
    if what == "tool":
        result = read_result(payload)
        return {"gen_ai.tool.call.result": _json(result.result), **erased}, result.error
    if what == "model":
        return {}, read_model_call(payload).error
    if what == "task":
        task = read_task(payload)
        failed = "failed" if entry.event_type.endswith("_failed") else None
        return {"chatsnapshot.output": _json(task.output), **erased}, task.error or failed
    if what == "question":
        answer = read_answer(payload)
        return {
            "chatsnapshot.question.decision": answer.decision,
            "chatsnapshot.question.answer": _json(answer.value),
            **erased,
        }, None
    service = read_service(payload)
    return {"chatsnapshot.service.status": service.status, **erased}, service.error


def name_of_span(what: str, facts: Facts, correlation_id: str) -> str:
    """The name of a span: the operation, and of what."""
    operation, key = {
        "run": ("invoke_agent", "chatsnapshot.run_name"),
        "workflow": ("invoke_workflow", "chatsnapshot.run_name"),
        "tool": ("execute_tool", "gen_ai.tool.name"),
        "model": ("chat", "gen_ai.request.model"),
        "task": ("task", "chatsnapshot.task_name"),
        "question": ("ask", "chatsnapshot.question.kind"),
        "integration": ("call", "chatsnapshot.service"),
    }[what]
    named = facts.get(key)
    if named is None and what in ("run", "workflow"):
        named = facts.get("gen_ai.agent.name") or correlation_id
    return f"{operation} {named}" if named else operation


def _json(value: Any) -> str | None:
    """A JSON value as text; text as it is."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
