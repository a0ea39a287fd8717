"""What a call of ``Runner.run`` is given, read without touching it: input, conversation, decisions on approvals."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from chatsnapshot.adapters.payloads import arguments_of
from chatsnapshot.adapters.plain import header_text, plain

__all__ = ["Asked", "Decision", "Given", "asked_of", "own_trace"]

_PHASES = ("input", "output", "tool_input", "tool_output")


class Decision(NamedTuple):
    """What a person said about one tool call that waits."""

    call_id: str
    approved: bool
    message: str | None


class Asked(NamedTuple):
    """A tool call that waits for a person."""

    call_id: str
    tool: str | None
    arguments: Any


class Given:
    """The arguments of one call of the runner."""

    def __init__(self, arguments: Mapping[str, Any], *, streamed: bool) -> None:
        self.at_ns = time.time_ns()
        self.streamed = streamed
        given = arguments.get("input")
        self.state = given if _is_state(given) else None
        """The ``RunState`` of a run that is resumed."""
        self.input: Any = (
            _copy(given) if self.state is None else list(getattr(given, "pending_input", None) or ())
        )
        """What is said to the agent now; for a run that is resumed, what was put into its state."""
        agent = getattr(self.state, "_current_agent", None) or arguments.get("starting_agent")
        self.agent = str(getattr(agent, "name", None) or "agent")
        config = arguments.get("run_config")
        self._config = config if isinstance(config, Mapping) else _Attributes(config)
        self.model = self._config.get("model")
        """The model that this call names for all agents, or ``None``."""
        context = arguments.get("context")
        self.tool_call_id: str | None = getattr(context, "tool_call_id", None)
        """The tool call that this run answers, for an agent that is used as a tool."""
        self.session = header_text(getattr(arguments.get("session"), "session_id", None) or "")
        self.conversation = self._conversation(arguments.get("conversation_id"))
        self.judged = {
            phase: len(getattr(self.state, f"_{phase}_guardrail_results", None) or ()) for phase in _PHASES
        }
        """How many verdicts of guardrails the run that is resumed brings along, by what they judged."""

    @property
    def resumed(self) -> bool:
        """Whether a run goes on that was interrupted."""
        return self.state is not None

    def _conversation(self, conversation_id: Any) -> str | None:
        """The id that all runs of this conversation share, as far as the caller named one."""
        found = self._config.get("group_id") or self.session or conversation_id
        if not found and self.state is not None:
            found = getattr(self.state, "_conversation_id", None) or self.trace("group_id")
        if not found and (around := own_trace()) is not None:
            found = getattr(around, "group_id", None) or around.trace_id
        return header_text(found) if found else None

    def trace(self, name: str) -> str | None:
        """``trace_id`` or ``group_id`` of the trace that a resumed run belongs to."""
        value = getattr(getattr(self.state, "_trace_state", None), name, None)
        return value if isinstance(value, str) and value else None

    def facts(self) -> dict[str, Any]:
        """What is recorded of the call itself with the beginning of its run."""
        native = {
            "workflow_name": self._config.get("workflow_name"),
            "metadata": plain(self._config.get("trace_metadata")),
        }
        native = {key: value for key, value in native.items() if value}
        return {"session": self.session, "native": native or None}

    def waiting(self) -> list[str]:
        """The tool calls that a resumed run was waiting for."""
        if self.state is None:
            return []
        return [asked.call_id for asked in asked_of(self.state.get_interruptions())]

    def decisions(self) -> list[Decision]:
        """What was decided about the tool calls that the run was waiting for."""
        found: list[Decision] = []
        context = getattr(self.state, "_context", None)
        if self.state is None or context is None:
            return found
        for asked in asked_of(self.state.get_interruptions()):
            said = context.is_tool_approved(asked.tool or "", asked.call_id)
            if said is not None:
                reason = None if said else context.get_rejection_message(asked.tool or "", asked.call_id)
                found.append(Decision(asked.call_id, bool(said), reason))
        return found


def asked_of(interruptions: Any) -> list[Asked]:
    """The approvals that a result or a state says are open."""
    found: list[Asked] = []
    for item in interruptions or ():
        raw = item.raw_item
        fields = raw if isinstance(raw, Mapping) else _Attributes(raw)
        call_id = fields.get("call_id") or fields.get("id")
        if call_id:
            found.append(Asked(str(call_id), item.tool_name, arguments_of(fields.get("arguments"))))
    return found


def own_trace() -> Any:
    """The trace of here and now; ``None`` where there is none or tracing is off."""
    from agents.tracing import get_current_trace

    trace = get_current_trace()
    return None if trace is None or trace.trace_id in ("", "no-op") else trace


class _Attributes:
    """Attributes as a mapping, ``None`` where there is nothing."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def get(self, name: str) -> Any:
        return getattr(self._held, name, None)


def _is_state(given: Any) -> bool:
    from agents.run_state import RunState

    return isinstance(given, RunState)


def _copy(given: Any) -> Any:
    return list(given) if isinstance(given, (list, tuple)) else given
