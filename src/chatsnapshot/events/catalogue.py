"""The catalogue of event types, which is open: unknown types are recorded like any other."""

from __future__ import annotations

__all__ = [
    "DOMAINS",
    "LEDGER_CORRELATION",
    "RUN_ENDS",
    "RUN_STARTS",
    "STATE_CORRELATIONS",
    "TYPES",
    "WORKFLOW_ENDS",
    "WORKFLOW_STARTS",
    "domain",
    "holds_runs",
    "is_known",
]

DOMAINS = ("execution", "system", "ui", "integration", "ledger")
"""The domains of our own; others are allowed."""

LEDGER_CORRELATION = "ledger"
"""The correlation of the ledger's own facts."""

STATE_CORRELATIONS = ("google_adk.sessions:", "langgraph.checkpoints:", "openai_agents.session:")
"""How correlations begin in which an adapter keeps the state of its runtime: they are no runs."""

TYPES: dict[str, str] = {
    "execution.run_started": "a run began",
    "execution.run_resumed": "a paused or stopped run went on",
    "execution.run_paused": "a run stopped to be resumed later",
    "execution.run_completed": "a run reached its end",
    "execution.run_failed": "a run ended with an error",
    "execution.run_cancelled": "a run was ended before its own end",
    "execution.message": "someone said something: a user, an agent, a system prompt, a tool's text",
    "execution.tool_call": "a tool is being called",
    "execution.tool_result": "a tool answered or failed",
    "execution.human_input_requested": "a person is asked a question or for an approval or an edit",
    "execution.human_input_received": "a person answered",
    "execution.handoff": "one agent gave the work to another",
    "execution.state_change": "a step, node or agent changed its state",
    "execution.output": "a run produced a result",
    "execution.artifact": "a run produced a file or document",
    "execution.model_call": "a model was called; recorded once, at its end",
    "execution.retrieval": "documents were searched and found",
    "execution.memory": "something was remembered or recalled",
    "execution.guardrail": "a guardrail judged an input or output",
    "execution.evaluation": "a run or event was judged",
    "system.workflow_started": "a workflow began",
    "system.workflow_paused": "a workflow stopped to be resumed later",
    "system.workflow_resumed": "a paused or stopped workflow went on",
    "system.workflow_completed": "a workflow reached its end",
    "system.workflow_failed": "a workflow ended with an error",
    "system.workflow_cancelled": "a workflow was ended before its own end",
    "system.task_scheduled": "a task was planned",
    "system.task_started": "a task began",
    "system.task_completed": "a task reached its end",
    "system.task_failed": "a task ended with an error",
    "system.task_cancelled": "a task was ended before its own end",
    "system.task_retried": "a task will be tried again",
    "system.state_transition": "a process went from one state to another",
    "system.limit_reached": "a budget, quota or limit was reached",
    "system.error": "something failed outside of a run's own steps",
    "ui.input_received": "a user gave input",
    "ui.output_displayed": "something was shown to a user",
    "ui.interaction": "a user acted on an element",
    "integration.call": "another service is being called",
    "integration.response": "another service answered or failed",
    "integration.api_triggered": "an interface of ours was called from outside",
    "ledger.payload_erased": "payloads were erased; their commitments stay",
    "ledger.gap": "events could not be stored and were dropped",
    "ledger.rejected": "a store refused events",
    "ledger.clock_behind": "the ledger's clock went back and its last time was repeated",
    "ledger.promoted": "a copy became a ledger of its own, to record in",
    "ledger.key_created": "an API key of the service was made",
    "ledger.key_revoked": "an API key of the service was revoked",
    "ledger.access_refused": "wrong API keys came again and again",
    "ledger.entries_read": "somebody read over the service",
}
"""Event type to one line that says what it means."""

RUN_STARTS = frozenset({"execution.run_started", "execution.run_resumed"})
RUN_ENDS: dict[str, str] = {
    "execution.run_completed": "completed",
    "execution.run_failed": "failed",
    "execution.run_cancelled": "cancelled",
    "execution.run_paused": "paused",
}
"""The types that end an execution of a run, with the status that the run has afterwards."""

WORKFLOW_STARTS = frozenset({"system.workflow_started", "system.workflow_resumed"})
WORKFLOW_ENDS: dict[str, str] = {
    "system.workflow_completed": "completed",
    "system.workflow_failed": "failed",
    "system.workflow_cancelled": "cancelled",
    "system.workflow_paused": "paused",
}


def holds_runs(correlation_id: str) -> bool:
    """Whether a correlation is one of runs: not that of the ledger's own facts, nor of the state of a runtime."""
    return correlation_id != LEDGER_CORRELATION and not correlation_id.startswith(STATE_CORRELATIONS)


def domain(event_type: str) -> str:
    """What stands before the first dot: ``execution`` of ``execution.message``."""
    return event_type.partition(".")[0]


def is_known(event_type: str) -> bool:
    """Whether the catalogue gives this type a meaning."""
    return event_type in TYPES
