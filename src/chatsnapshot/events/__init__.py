"""What events mean: the catalogue, the schemas, the one reader of payloads, and a constructor for each type."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "access_refused",
    "api_triggered",
    "artifact",
    "call",
    "clock_behind",
    "entries_read",
    "error",
    "evaluation",
    "gap",
    "guardrail",
    "handoff",
    "human_input_received",
    "human_input_requested",
    "input_received",
    "interaction",
    "key_created",
    "key_revoked",
    "limit_reached",
    "memory",
    "message",
    "model_call",
    "output",
    "output_displayed",
    "payload_erased",
    "promoted",
    "rejected",
    "response",
    "retrieval",
    "run_cancelled",
    "run_completed",
    "run_failed",
    "run_paused",
    "run_resumed",
    "run_started",
    "state_change",
    "state_transition",
    "task_cancelled",
    "task_completed",
    "task_failed",
    "task_retried",
    "task_scheduled",
    "task_started",
    "tool_call",
    "tool_result",
    "workflow_cancelled",
    "workflow_completed",
    "workflow_failed",
    "workflow_paused",
    "workflow_resumed",
    "workflow_started",
]

if TYPE_CHECKING:
    from chatsnapshot.events.constructors import (
        access_refused,
        api_triggered,
        artifact,
        call,
        clock_behind,
        entries_read,
        error,
        evaluation,
        gap,
        guardrail,
        handoff,
        human_input_received,
        human_input_requested,
        input_received,
        interaction,
        key_created,
        key_revoked,
        limit_reached,
        memory,
        message,
        model_call,
        output,
        output_displayed,
        payload_erased,
        promoted,
        rejected,
        response,
        retrieval,
        run_cancelled,
        run_completed,
        run_failed,
        run_paused,
        run_resumed,
        run_started,
        state_change,
        state_transition,
        task_cancelled,
        task_completed,
        task_failed,
        task_retried,
        task_scheduled,
        task_started,
        tool_call,
        tool_result,
        workflow_cancelled,
        workflow_completed,
        workflow_failed,
        workflow_paused,
        workflow_resumed,
        workflow_started,
    )


def __getattr__(name: str) -> Any:
    """Load the constructors at first use (PEP 562): ``events.tool_call(name="search", arguments={...})``."""
    if name not in __all__:
        raise AttributeError(f"module 'chatsnapshot.events' has no attribute {name!r}")
    constructors = importlib.import_module("chatsnapshot.events.constructors")
    globals().update({one: getattr(constructors, one) for one in __all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
