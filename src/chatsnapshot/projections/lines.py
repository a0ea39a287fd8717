"""One line for each entry of a timeline: what happened, in words, by event type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.catalogue import RUN_ENDS, WORKFLOW_ENDS
from chatsnapshot.events.fields import placeholder, text_of
from chatsnapshot.events.messages import Call, Result, Said, looks_like_message, read_messages
from chatsnapshot.events.normaliser import (
    Answer,
    Asked,
    Evaluation,
    Given,
    ModelCall,
    RunFacts,
    Service,
    Task,
    actor_of,
)
from chatsnapshot.events.readers import READERS
from chatsnapshot.projections.words import evaluation_text

__all__ = ["LINE_CHARS_MAX", "call_text", "line", "short", "who"]

LINE_CHARS_MAX = 200

Payload = Mapping[str, Any]
Line = Callable[[Any, Payload], str]
"""The line of what the reader of a type found, and of the payload where that is nothing."""


class Told(Protocol):
    """Facts that say themselves in one text."""

    @property
    def text(self) -> str:
        """The text; empty when nothing is known."""
        ...


def short(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """A text on one line, cut with an ellipsis; its characters are data still, to be made safe where it is shown."""
    flat = " ".join(text[: chars_max * 4].split())
    if len(flat) > chars_max or len(text) > chars_max * 4:
        return flat[: chars_max - 1].rstrip() + "…"
    return flat


def line(entry: LedgerEntry, payload: Payload, facts: Any = None) -> str:
    """What an entry says, in at most 200 characters; the type and the payload where nothing better is known.

    ``facts``: what the reader of its type makes of the payload, where that was read already.
    """
    event_type = entry.event_type
    there = placeholder(payload)
    if there is not None:
        return short(f"{_title(event_type)} {there}")
    made = _LINES.get(event_type)
    if made is not None:
        return short(made(READERS[event_type](payload) if facts is None else facts, payload))
    if looks_like_message(payload):
        return short(_message(read_messages(payload), payload))
    return short(_joined(_title(event_type), text_of(payload) if payload else ""))


def who(entry: LedgerEntry, payload: Payload) -> str | None:
    """Who acted: the agent or speaker that the payload names, else the source's name, else ``None``."""
    return actor_of(entry.event_type, payload) or entry.source.name


def call_text(name: str | None, arguments: Any) -> str:
    """A call as people write one: ``search(query="refund", limit=3)``."""
    if isinstance(arguments, Mapping):
        inside = ", ".join(f"{key}={_quoted(value)}" for key, value in arguments.items())
    else:
        inside = "" if arguments is None else _quoted(arguments)
    return f"{name or 'tool'}({inside})"


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else "null" if value is None else text_of(value)


def _title(event_type: str) -> str:
    domain, _, name = event_type.partition(".")
    words = name.replace("_", " ")
    return words if domain in ("execution", "system", "ui", "integration", "ledger") else f"{domain}: {words}"


def _joined(head: str, *more: str | None) -> str:
    return ": ".join(filter(None, (head, *more)))


def _message(messages: Sequence[Said], payload: Payload) -> str:
    said = []
    for message in messages:
        pieces = [message.text, *(part.text for part in message.media)]
        if message.calls:
            calls = ", ".join(call_text(call.name, call.arguments) for call in message.calls)
            pieces.append(f"→ {calls}")
        if message.empty:
            pieces.extend(text_of(result.error or result.result) for result in message.results)
        role = message.role or "message"
        said.append(_joined(role, " ".join(filter(None, pieces)) or message.reasoning or "(empty)"))
    return " | ".join(said)


def _call(call: Call, payload: Payload) -> str:
    return f"calls {call_text(call.name, call.arguments)}"


def _result(result: Result, payload: Payload) -> str:
    name = result.name or "tool"
    if result.error is not None:
        return f"{name} failed: {result.error}"
    return _joined(f"{name} answered", text_of(result.result))


def _run(word: str, status: str) -> Line:
    def text(run: RunFacts, payload: Payload) -> str:
        head = f"{word} {run.name or run.run_id or ''}".rstrip() + f" {status}"
        return _joined(head, run.error, run.reason)

    return text


def _task(status: str) -> Line:
    def text(task: Task, payload: Payload) -> str:
        head = f"task {task.name or task.task_id or ''}".rstrip() + f" {status}"
        if task.attempt is not None and task.attempt > 1:
            head += f" (attempt {task.attempt})"
        return _joined(head, task.error)

    return text


def _question(asked: Asked, payload: Payload) -> str:
    return _joined(
        {"question": "asks", "approval": "asks for approval"}.get(asked.kind, asked.kind), asked.text
    )


def _answer(answer: Answer, payload: Payload) -> str:
    return _joined(answer.decision or "answers", text_of(answer.value))


def _handoff(given: Given, payload: Payload) -> str:
    return _joined(f"{given.source or 'someone'} hands over to {given.target or 'someone'}", given.text)


def _model(call: ModelCall, payload: Payload) -> str:
    head = f"model {call.model or 'unknown'}"
    if call.error is not None:
        return f"{head} failed: {call.error}"
    tokens = [
        f"{count:,} tokens {word}"
        for count, word in ((call.input_tokens, "in"), (call.output_tokens, "out"))
        if count is not None
    ]
    return _joined(head, ", ".join(tokens))


def _evaluation(read: Evaluation, payload: Payload) -> str:
    return _joined(f"evaluation {evaluation_text(read)}".rstrip(), read.comment)


def _service(head: str) -> Line:
    def text(service: Service, payload: Payload) -> str:
        said = f"{head} {service.name}" if service.name else head
        return _joined(said, service.error or (f"status {service.status}" if service.status else None))

    return text


def _problem(head: str) -> Line:
    def text(problem: str, payload: Payload) -> str:
        return _joined(head, problem)

    return text


def _told(head: str) -> Line:
    """What the reader makes of it, else the whole payload."""

    def text(told: Told, payload: Payload) -> str:
        return _joined(head, told.text or (text_of(payload) if payload else ""))

    return text


_LINES: dict[str, Line] = {
    "execution.run_started": _run("run", "started"),
    "execution.run_resumed": _run("run", "resumed"),
    "system.workflow_started": _run("workflow", "started"),
    "system.workflow_resumed": _run("workflow", "resumed"),
    **{event_type: _run("run", status) for event_type, status in RUN_ENDS.items()},
    **{event_type: _run("workflow", status) for event_type, status in WORKFLOW_ENDS.items()},
    **{
        f"system.task_{status}": _task(status)
        for status in ("scheduled", "started", "completed", "failed", "cancelled", "retried")
    },
    "execution.message": _message,
    "execution.tool_call": _call,
    "execution.tool_result": _result,
    "execution.human_input_requested": _question,
    "execution.human_input_received": _answer,
    "execution.handoff": _handoff,
    "execution.state_change": _told("state"),
    "execution.output": _told("output"),
    "execution.artifact": _told("artifact"),
    "execution.model_call": _model,
    "execution.retrieval": _told("retrieval"),
    "execution.memory": _told("memory"),
    "execution.guardrail": _told("guardrail"),
    "execution.evaluation": _evaluation,
    "system.state_transition": _told("state"),
    "system.limit_reached": _told("limit reached"),
    "system.error": _problem("error"),
    "ui.input_received": _told("input"),
    "ui.output_displayed": _told("shown"),
    "ui.interaction": _told("interaction"),
    "ledger.payload_erased": _told("payloads erased"),
    "ledger.gap": _told("gap"),
    "ledger.rejected": _told("rejected"),
    "ledger.clock_behind": _told("clock"),
    "ledger.promoted": _told("promoted"),
    "ledger.key_created": _told("key created"),
    "ledger.key_revoked": _told("key revoked"),
    "ledger.access_refused": _told("access refused"),
    "ledger.entries_read": _told("read"),
    "integration.call": _service("calls"),
    "integration.response": _service("answer of"),
    "integration.api_triggered": _service("triggered by"),
}
