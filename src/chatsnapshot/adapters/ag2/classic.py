"""The classic AG2 line (module ``autogen``, 0.10 to 0.14): its events to event types and payloads.

Every event is a wrapper ``type`` + ``content``; agents and targets are taken by name, because dumps fail on
them or lose them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters import payloads
from chatsnapshot.adapters.plain import plain

__all__ = ["native", "place"]

Payload = dict[str, Any]
Place = tuple[str, Callable[[Any], Payload]]

_PEOPLE = frozenset({"user", "user_proxy", "userproxy", "human", "human_proxy", "customer"})
_HISTORIES = {"run_completion": "history"}


def place(event: Any) -> Place | None:
    """The event type and the function that makes the payload, or ``None`` when there is no place for it."""
    return _PLACES.get(event.type)


def native(event: Any) -> Payload:
    """The event as AG2 has it, without live objects.

    The history that a finished run repeats is counted, not stored again: its messages are events of their
    own.
    """
    data = plain(event.content)
    if isinstance(data, dict):
        history = _HISTORIES.get(event.type)
        if history in data:
            data[f"{history}_messages"] = len(data.pop(history) or ())
    return {"type": event.type, "data": data}


def _role(sender: Any) -> str:
    """Texts carry no role: people are known by the usual names, all others are assistants."""
    return "user" if isinstance(sender, str) and sender.strip("_").lower() in _PEOPLE else "assistant"


def _parts(content: Any) -> list[Payload]:
    if content is None:
        return []
    if not isinstance(content, list):
        return [payloads.text(content)]
    parts = []
    for item in content:
        if isinstance(item, dict) and item.get("type") == "text":
            parts.append(payloads.text(item.get("text", "")))
        elif isinstance(item, dict) and item.get("type") == "image_url":
            url = item.get("image_url")
            parts.append(
                {"type": "uri", "modality": "image", "uri": url.get("url") if isinstance(url, dict) else url}
            )
        else:
            parts.append(item if isinstance(item, dict) else payloads.text(item))
    return parts


def _text(event: Any) -> Payload:
    inner = event.content
    return payloads.message(
        _role(inner.sender), _parts(inner.content), name=inner.sender, recipient=inner.recipient
    )


def _tool_call(event: Any) -> Payload:
    inner = event.content
    calls = [
        payloads.tool_call_part(call.id, call.function.name, call.function.arguments)
        for call in inner.tool_calls or ()
    ]
    parts = [*_parts(inner.content), *calls]
    return payloads.message(
        "assistant", parts, name=inner.sender, recipient=inner.recipient, refusal=inner.refusal
    )


def _function_call(event: Any) -> Payload:
    inner = event.content
    call = payloads.tool_call_part(None, inner.function_call.name, inner.function_call.arguments)
    return payloads.message(
        "assistant", [*_parts(inner.content), call], name=inner.sender, recipient=inner.recipient
    )


def _tool_response(event: Any) -> Payload:
    inner = event.content
    parts = [payloads.tool_response_part(one.tool_call_id, one.content) for one in inner.tool_responses]
    return payloads.message("tool", parts, name=inner.sender, recipient=inner.recipient)


def _function_response(event: Any) -> Payload:
    inner = event.content
    part = payloads.tool_response_part(None, inner.content)
    return payloads.message("tool", [part], name=inner.name or inner.sender, recipient=inner.recipient)


def _execute_function(event: Any) -> Payload:
    inner = event.content
    return {
        "name": inner.func_name,
        "call_id": inner.call_id or None,
        "arguments": payloads.arguments_of(inner.arguments),
        "agent": inner.recipient,
    }


def _executed_function(event: Any) -> Payload:
    inner = event.content
    failed = inner.is_exec_success is False
    return {
        "name": inner.func_name,
        "call_id": inner.call_id or None,
        "agent": inner.recipient,
        "result": _target_kept(inner.content),
        "is_error": failed,
        "error": {"message": str(inner.content)} if failed else None,
    }


def _target_kept(result: Any) -> Any:
    """A tool's result; where it names the next speaker, the name is taken by attribute: a dump loses it."""
    target = getattr(result, "target", None)
    if target is None or not hasattr(result, "message"):
        return _target(result) if hasattr(result, "display_name") else result
    return {
        "message": result.message,
        "target": _target(target),
        "context_variables": getattr(result, "context_variables", None),
    }


def _execute_code(event: Any) -> Payload:
    inner = event.content
    return {
        "name": "execute_code_block",
        "agent": inner.recipient,
        "arguments": {"language": inner.language, "code": inner.code},
    }


def _target(target: Any) -> Payload:
    return {"kind": type(target).__name__, "name": _target_name(target)}


def _target_name(target: Any) -> str:
    for attribute in ("agent_name", "nominated_name", "name"):
        if isinstance(name := getattr(target, attribute, None), str):
            return name
    display = getattr(target, "display_name", None)
    return str(display()) if callable(display) else type(target).__name__


def _handoff(kind: str) -> Callable[[Any], Payload]:
    def payload(event: Any) -> Payload:
        inner = event.content
        return {
            "from": getattr(inner.source_agent, "name", None) or str(inner.source_agent),
            "to": _target_name(inner.transition_target),
            "kind": kind,
            "target": _target(inner.transition_target),
        }

    return payload


def _asked(event: Any) -> Payload:
    inner = event.content
    return {"kind": "question", "question": inner.prompt, "secret": inner.password or None}


def _answered(event: Any) -> Payload:
    return {"answer": event.content.value}


def _completed(event: Any) -> Payload:
    inner = event.content
    return {
        "status": "ok",
        "output": inner.summary,
        "last_speaker": inner.last_speaker,
        "cost": inner.cost,
        "variables": inner.context_variables.to_dict() if inner.context_variables is not None else None,
    }


def _failed(event: Any) -> Payload:
    error = event.content.error
    return {"error": error if isinstance(error, BaseException) else {"message": str(error)}}


def _resumed(event: Any) -> Payload:
    inner = event.content
    return {"last_speaker": inner.last_speaker_name, "messages_restored": len(inner.events)}


def _guardrail(event: Any) -> Payload:
    inner = event.content
    return {
        "name": inner.guardrail_type,
        "action": inner.action,
        "phase": inner.event_type,
        "message": inner.message,
        "from": inner.source_agent,
        "to": inner.target_agent,
    }


def _changed(name: str, *fields: str) -> Place:
    """A change of the chat's own state; ``fields`` of the event get a key of their own."""

    def payload(event: Any) -> Payload:
        return {"name": name, **{field: getattr(event.content, field, None) for field in fields}}

    return "execution.state_change", payload


_PLACES: dict[str, Place] = {
    "text": ("execution.message", _text),
    "tool_call": ("execution.message", _tool_call),
    "function_call": ("execution.message", _function_call),
    "tool_response": ("execution.message", _tool_response),
    "function_response": ("execution.message", _function_response),
    "execute_function": ("execution.tool_call", _execute_function),
    "executed_function": ("execution.tool_result", _executed_function),
    "execute_code_block": ("execution.tool_call", _execute_code),
    "after_works_transition": ("execution.handoff", _handoff("after_work")),
    "on_condition_l_l_m_transition": ("execution.handoff", _handoff("on_condition_llm")),
    "on_context_condition_transition": ("execution.handoff", _handoff("on_context_condition")),
    "reply_result_transition": ("execution.handoff", _handoff("reply_result")),
    "input_request": ("execution.human_input_requested", _asked),
    "async_input_request": ("execution.human_input_requested", _asked),
    "input_response": ("execution.human_input_received", _answered),
    "run_completion": ("execution.run_completed", _completed),
    "error": ("execution.run_failed", _failed),
    "group_chat_resume": ("execution.run_resumed", _resumed),
    "safeguard": ("execution.guardrail", _guardrail),
    "group_chat_run_chat": _changed("next_speaker", "speaker"),
    "using_auto_reply": _changed("auto_reply", "sender", "recipient"),
    "termination_and_human_reply_no_input": _changed("terminated_without_input", "sender", "recipient"),
    "termination": _changed("terminated", "termination_reason", "sender", "recipient"),
    "select_speaker": _changed("select_speaker", "agents"),
    "select_speaker_try_count_exceeded": _changed("select_speaker_gave_up", "try_count", "agents"),
    "select_speaker_invalid_input": _changed("select_speaker_invalid_input", "agents"),
    "speaker_attempt_successful": _changed("speaker_selected", "mentions", "attempt"),
    "speaker_attempt_failed_multiple_agents": _changed("speaker_not_selected", "mentions", "attempt"),
    "speaker_attempt_failed_no_agents": _changed("speaker_not_selected", "mentions", "attempt"),
    "clear_agents_history": _changed("history_cleared", "agent", "nr_events_to_preserve"),
    "clear_conversable_agent_history": _changed(
        "history_cleared", "agent", "recipient", "no_events_preserved"
    ),
    "clear_conversable_agent_history_warning": _changed("history_cleared_warning", "recipient"),
    "post_carryover_processing": _changed(
        "chat_started", "sender", "recipient", "summary_method", "max_turns"
    ),
    "generate_code_execution_reply": _changed("code_to_execute", "code_blocks", "sender", "recipient"),
    "usage_summary": _changed("usage_summary", "mode"),
    "conversable_agent_usage_summary": _changed("usage_summary", "recipient"),
    "conversable_agent_usage_summary_no_cost_incurred": _changed("usage_summary", "recipient"),
}
