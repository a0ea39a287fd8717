"""Constructors: one function for each event type, whose keyword arguments are the keys of its payload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypedDict

import msgspec

from chatsnapshot.events.schemas import (
    SCHEMAS,
    integration,
    ledger,
    models,
    runs,
    system,
    talk,
    tools,
    ui,
    work,
)

__all__ = ["Draft", "constructor"]

Fields = ParamSpec("Fields")


class Draft(TypedDict):
    """What ``record`` takes: ``snapshot.record(**events.tool_call(name="search"), correlation_id="run-1")``."""

    event_type: str
    payload: dict[str, Any]


def constructor(event_type: str, payload: Callable[Fields, msgspec.Struct]) -> Callable[Fields, Draft]:
    """The function that makes drafts of ``event_type``; its keyword arguments are the fields of ``payload``."""
    struct = SCHEMAS[event_type].payload
    keys = {field.name: field.encode_name for field in msgspec.structs.fields(struct)}

    def make(*args: Fields.args, **given: Fields.kwargs) -> Draft:
        payload(*args, **given)  # refuses, by name, what is no field and what is missing
        return {"event_type": event_type, "payload": {keys[name]: value for name, value in given.items()}}

    make.__name__ = make.__qualname__ = event_type.partition(".")[2]
    make.__doc__ = f"``{event_type}``: {SCHEMAS[event_type].summary}. See docs/events.md for the fields."
    make.__wrapped__ = struct  # type: ignore[attr-defined]  # so that help() and editors show the fields
    return make


run_started = constructor("execution.run_started", runs.RunStarted)
run_resumed = constructor("execution.run_resumed", runs.RunResumed)
run_paused = constructor("execution.run_paused", runs.RunPaused)
run_completed = constructor("execution.run_completed", runs.RunCompleted)
run_failed = constructor("execution.run_failed", runs.RunFailed)
run_cancelled = constructor("execution.run_cancelled", runs.RunCancelled)
message = constructor("execution.message", talk.Message)
tool_call = constructor("execution.tool_call", tools.ToolCall)
tool_result = constructor("execution.tool_result", tools.ToolResult)
human_input_requested = constructor("execution.human_input_requested", talk.HumanInputRequested)
human_input_received = constructor("execution.human_input_received", talk.HumanInputReceived)
handoff = constructor("execution.handoff", talk.Handoff)
state_change = constructor("execution.state_change", work.StateChange)
output = constructor("execution.output", work.Output)
artifact = constructor("execution.artifact", work.Artifact)
model_call = constructor("execution.model_call", models.ModelCall)
retrieval = constructor("execution.retrieval", work.Retrieval)
memory = constructor("execution.memory", work.Memory)
guardrail = constructor("execution.guardrail", models.Guardrail)
evaluation = constructor("execution.evaluation", models.Evaluation)
workflow_started = constructor("system.workflow_started", system.Workflow)
workflow_paused = constructor("system.workflow_paused", system.Workflow)
workflow_resumed = constructor("system.workflow_resumed", system.Workflow)
workflow_completed = constructor("system.workflow_completed", system.Workflow)
workflow_failed = constructor("system.workflow_failed", system.Workflow)
workflow_cancelled = constructor("system.workflow_cancelled", system.Workflow)
task_scheduled = constructor("system.task_scheduled", system.Task)
task_started = constructor("system.task_started", system.Task)
task_completed = constructor("system.task_completed", system.Task)
task_failed = constructor("system.task_failed", system.Task)
task_cancelled = constructor("system.task_cancelled", system.Task)
task_retried = constructor("system.task_retried", system.Task)
state_transition = constructor("system.state_transition", system.StateTransition)
limit_reached = constructor("system.limit_reached", system.LimitReached)
error = constructor("system.error", system.SystemError)
input_received = constructor("ui.input_received", ui.InputReceived)
output_displayed = constructor("ui.output_displayed", ui.OutputDisplayed)
interaction = constructor("ui.interaction", ui.Interaction)
call = constructor("integration.call", integration.ServiceCall)
response = constructor("integration.response", integration.ServiceResponse)
api_triggered = constructor("integration.api_triggered", integration.ApiTriggered)
payload_erased = constructor("ledger.payload_erased", ledger.PayloadErased)
gap = constructor("ledger.gap", ledger.Gap)
rejected = constructor("ledger.rejected", ledger.Rejected)
clock_behind = constructor("ledger.clock_behind", ledger.ClockBehind)
promoted = constructor("ledger.promoted", ledger.Promoted)
key_created = constructor("ledger.key_created", ledger.KeyCreated)
key_revoked = constructor("ledger.key_revoked", ledger.KeyRevoked)
access_refused = constructor("ledger.access_refused", ledger.AccessRefused)
entries_read = constructor("ledger.entries_read", ledger.EntriesRead)
