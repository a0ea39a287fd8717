"""Which reader reads which event type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from chatsnapshot.events import accessfacts, facts, normaliser
from chatsnapshot.events.catalogue import TYPES
from chatsnapshot.events.messages import read_messages

__all__ = ["READERS"]

Reader = Callable[[Mapping[str, Any]], Any]

_BY_NAME: dict[str, Reader] = {
    "execution.run_": normaliser.read_run,
    "execution.message": read_messages,
    "execution.tool_call": normaliser.read_call,
    "execution.tool_result": normaliser.read_result,
    "execution.human_input_requested": normaliser.read_question,
    "execution.human_input_received": normaliser.read_answer,
    "execution.handoff": normaliser.read_handoff,
    "execution.state_change": facts.read_change,
    "execution.output": facts.read_output,
    "execution.artifact": facts.read_artifact,
    "execution.model_call": normaliser.read_model_call,
    "execution.retrieval": facts.read_retrieval,
    "execution.memory": facts.read_memory,
    "execution.guardrail": facts.read_guardrail,
    "execution.evaluation": normaliser.read_evaluation,
    "system.workflow_": partial(normaliser.read_run, id_key="workflow_id"),
    "system.task_": normaliser.read_task,
    "system.state_transition": facts.read_change,
    "system.limit_reached": facts.read_limit,
    "system.error": normaliser.read_problem,
    "ui.input_received": facts.read_seen,
    "ui.output_displayed": facts.read_seen,
    "ui.interaction": facts.read_interaction,
    "integration.": normaliser.read_service,
    "ledger.payload_erased": facts.read_erasure,
    "ledger.gap": facts.read_gap,
    "ledger.rejected": facts.read_rejection,
    "ledger.clock_behind": facts.read_clock_behind,
    "ledger.promoted": facts.read_promotion,
    "ledger.key_": accessfacts.read_key,
    "ledger.access_refused": accessfacts.read_refusal,
    "ledger.entries_read": accessfacts.read_reading,
}

READERS: dict[str, Reader] = {
    event_type: next(reader for name, reader in _BY_NAME.items() if event_type.startswith(name))
    for event_type in TYPES
}
"""Event type to the function that reads its payloads in all their forms; none of them raises."""
