"""What a user brought to a run (``RunAgentInput``): messages, results of tools of the page, answers to interrupts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag_ui.wire import content_parts, content_value
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import idempotent_uuid, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag_ui.threads import Thread

__all__ = ["told_by_input"]


def told_by_input(
    known: Thread,
    run: ObservedRun,
    given: Mapping[str, Any] | None,
    event: Mapping[str, Any],
    at: Callable[[str], dict[str, Any]],
) -> list[Event]:
    """The beginning of a run: answers, the start, and what is new in the messages that the page sent along.

    ``at`` gives the id and the time of what it is told the name of.
    """
    given = given or {}
    made: list[Event] = []
    for entry in given.get("resume") or ():
        if isinstance(entry, Mapping):
            made.append(_answer(run, entry, at))
    tools = [tool.get("name") for tool in given.get("tools") or () if isinstance(tool, Mapping)]
    begun = {
        "previous_run_id": event.get("parentRunId") or given.get("parentRunId"),
        "protocol_version": event.get("protocolVersion"),
        "tools": tools or None,
    }
    made.append(run.started(**begun, **at("start")))
    for message in _new(given.get("messages")):
        message_id = str(message.get("id"))
        is_result = message.get("role") == "tool"
        kind = "execution.tool_result" if is_result else "execution.message"
        ids = at(f"message {message_id}")
        own = _event_id(run, kind, ids)
        if known.messages.setdefault(message_id, own) != own:
            continue  # sent along again, as every page sends what was said
        if is_result:
            made.append(_result(run, message, ids))
        elif parts := content_parts(message.get("content")):
            shown = {"value": message.get("content"), "element": "message", "message_id": message_id}
            shown["recipient"] = run.agent
            by = message.get("name") or "user"
            made.append(run.event("ui.input_received", {**shown, **at(f"input {message_id}")}, by=by))
            role = "user" if message.get("role") == "user" else "system"
            made.append(run.message(role, parts, name=message.get("name"), message_id=message_id, **ids))
    return made


def _event_id(run: ObservedRun, event_type: str, ids: Mapping[str, Any]) -> str:
    """The id that an event of this run will have, as :meth:`ObservedRun.event` makes it."""
    name = f"{run.runtime}|{run.native_run_id}|{ids['native_id']}|{event_type}"
    return uuid_text(idempotent_uuid(run.correlation_id, name))


def _new(messages: Any) -> list[Mapping[str, Any]]:
    """The messages after the agent's last one: what is before was told in an earlier run."""
    found: list[Mapping[str, Any]] = []
    for message in reversed(messages if isinstance(messages, list) else []):
        if not isinstance(message, Mapping) or message.get("role") not in (
            "user",
            "tool",
            "system",
            "developer",
        ):
            break
        found.append(message)
    return found[::-1]


def _answer(run: ObservedRun, entry: Mapping[str, Any], at: Callable[[str], dict[str, Any]]) -> Event:
    known = str(entry.get("interruptId"))
    payload = entry.get("payload")
    return run.answer(
        known,
        content=payload,
        decision=_decision(entry.get("status"), payload),
        **at(f"answer {known}"),
    )


def _decision(status: Any, payload: Any) -> str | None:
    """Approved or rejected, where the answer says one of them."""
    if status == "cancelled":
        return "rejected"
    said = payload.get("approved") if isinstance(payload, Mapping) else payload
    if said is None and payload is None:
        return "approved"
    return {True: "approved", False: "rejected"}[said] if isinstance(said, bool) else None


def _result(run: ObservedRun, message: Mapping[str, Any], ids: Mapping[str, Any]) -> Event:
    """The result of a tool that ran in the page, between two runs."""
    facts: dict[str, Any] = {**ids, "message_id": message.get("id")}
    if message.get("error"):
        facts["error"] = str(message["error"])
    call_id = str(message.get("toolCallId"))
    return run.tool_result(call_id, result=content_value(message.get("content")), **facts)
