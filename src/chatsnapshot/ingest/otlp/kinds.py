"""Decides what a span is: by its GenAI operation, its OpenInference or OpenLLMetry kind, else by what it calls."""

from __future__ import annotations

from typing import Any

from chatsnapshot.ingest.otlp.records import CLIENT, CONSUMER, PRODUCER, SERVER

__all__ = ["INFERENCE", "OPERATIONS", "SERVICES", "TABLE", "TRACELOOP", "kind_of"]

OPERATIONS = {
    "chat": "model",
    "generate_content": "model",
    "text_completion": "model",
    "embeddings": "embeddings",
    "invoke_agent": "agent",
    "create_agent": "client",
    "invoke_workflow": "workflow",
    "execute_tool": "tool",
    "plan": "task",
    "retrieval": "retrieval",
}
"""``gen_ai.operation.name`` → what it is; names that end in ``_memory`` are ``memory``."""

INFERENCE = {
    "LLM": "model",
    "EMBEDDING": "embeddings",
    "AGENT": "agent",
    "CHAIN": "chain",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "RERANKER": "retrieval",
    "GUARDRAIL": "guardrail",
    "EVALUATOR": "task",
    "PROMPT": "task",
    "DECISION": "task",
}
"""``openinference.span.kind`` → what it is."""

TRACELOOP = {"workflow": "chain", "agent": "agent", "task": "chain", "tool": "tool"}
"""``traceloop.span.kind`` → what it is."""

SERVICES: tuple[str, ...] = (
    *("mcp.method.name", "http.request.method", "http.method", "db.system.name", "db.system"),
    *("rpc.system", "rpc.system.name", "messaging.system"),
)
"""Attributes that name a call of another service, in this order."""

TABLE = {
    "agent": (
        "execution.run_started",
        "execution.run_completed, execution.run_failed or execution.run_cancelled",
    ),
    "workflow": (
        "system.workflow_started",
        "system.workflow_completed, system.workflow_failed or system.workflow_cancelled",
    ),
    "task": ("system.task_started", "system.task_completed, system.task_failed or system.task_cancelled"),
    "model": (
        "execution.message for each new input",
        "execution.model_call, execution.message for each output",
    ),
    "embeddings": ("", "execution.model_call"),
    "tool": ("execution.tool_call", "execution.tool_result"),
    "handoff": ("", "execution.handoff"),
    "retrieval": ("", "execution.retrieval"),
    "memory": ("", "execution.memory"),
    "guardrail": ("", "execution.guardrail"),
    "client": ("integration.call", "integration.response"),
    "server": ("", "integration.api_triggered"),
    "other": ("", "otel.span"),
}
"""What a span is → event types at its start and at its end."""


def kind_of(facts: dict[str, Any], kind: int, parent: str | None, name: str) -> str:
    """One of the keys of :data:`TABLE`."""
    found = None
    operation = facts.get("gen_ai.operation.name")
    if type(operation) is str:
        found = OPERATIONS.get(operation)
        if found is None and operation.endswith("_memory"):
            found = "memory"
    if found is None:
        inference = facts.get("openinference.span.kind")
        if inference is not None:
            found = INFERENCE.get(str(inference).upper())
        elif (traceloop := facts.get("traceloop.span.kind")) is not None:
            found = TRACELOOP.get(str(traceloop))
        elif "llm.request.type" in facts:
            found = "model"
    if found is None:
        return _service(facts, kind)
    if found == "chain":
        return "workflow" if parent is None else "task"
    if found == "tool" and name.startswith("handoff to ") and "tool.name" not in facts:
        return "handoff"
    return found


def _service(facts: dict[str, Any], kind: int) -> str:
    if kind in (CLIENT, PRODUCER):
        return "client"
    if any(name in facts for name in SERVICES):
        return "server" if kind in (SERVER, CONSUMER) else "client"
    return "server" if kind in (SERVER, CONSUMER) else "other"
