"""AG2 1.x (module ``ag2``, before that ``autogen.beta``): its stream events to event types and payloads.

Events are known by the names of their classes, so no AG2 has to be imported and provider subclasses find
their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters import payloads
from chatsnapshot.adapters.plain import describe_error, plain, type_name

__all__ = [
    "approval_of",
    "is_event",
    "is_transient",
    "kinds",
    "native",
    "only_asks_for_tools",
    "place",
    "text_of",
    "usage_of",
]

Payload = dict[str, Any]
Place = tuple[str, Callable[[Any], Payload]]

_USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "total_tokens": "total_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "reasoning": "thinking_tokens",
}
_FIRST_NAMES = {
    "ToolCall": "ToolCallEvent",
    "ClientToolCall": "ClientToolCallEvent",
    "ToolCalls": "ToolCallsEvent",
    "ToolResult": "ToolResultEvent",
    "ToolError": "ToolErrorEvent",
    "ToolResults": "ToolResultsEvent",
}
"""What autogen.beta 0.11.3 called its events."""
_YES = frozenset({"y", "yes", "1", "always"})


def kinds(event: Any) -> list[str]:
    """The class names of an event, its own first: ``["ToolErrorEvent", "ToolResultEvent", ...]``."""
    return [_FIRST_NAMES.get(kind.__name__, kind.__name__) for kind in type(event).__mro__]


def is_event(value: Any) -> bool:
    """Whether this is an event of AG2 1.x or of ``autogen.beta``."""
    return hasattr(type(value), "_event_fields_") or type(type(value)).__name__ == "EventMeta"


def is_transient(event: Any) -> bool:
    """Whether AG2 itself marks the event as passing (chunks, progress) and never stores it."""
    return bool(getattr(type(event), "__transient__", False))


def place(event: Any) -> Place | None:
    """The event type and the function that makes the payload, or ``None`` when there is no place for it."""
    for kind in kinds(event):
        if kind == "UsageEvent":
            return _usage_place(event)
        if found := _PLACES.get(kind):
            return found
    return None


def native(event: Any) -> Payload:
    """The event as AG2's own log writes it: the class name and ``to_dict()``, enough to build it again."""
    try:
        data = event.to_dict()
    except Exception:
        data = vars(event)
    return {"type": type_name(event), "data": plain(data)}


def usage_of(usage: Any) -> Payload | None:
    """Token counts under the keys of all adapters; ``None`` when the provider gave none."""
    found = {key: getattr(usage, field, None) for key, field in _USAGE.items()}
    known = {
        key: int(count) if count == int(count) else count for key, count in found.items() if count is not None
    }
    return known or None


def text_of(request: Any) -> str:
    """The text of a request."""
    if (parts := getattr(request, "parts", None)) is None:
        return str(getattr(request, "content", ""))
    return "\n".join(str(part.content) for part in parts if "TextInput" in kinds(part))


def approval_of(answer: str) -> str:
    """What AG2 makes of an answer to an approval question: ``approved`` or ``rejected``."""
    return "approved" if answer.strip().lower() in _YES else "rejected"


def _input_part(part: Any) -> Payload:
    names = kinds(part)
    if "TextInput" in names:
        return payloads.text(part.content)
    if "DataInput" in names:
        return {"type": "data", "content": part.data}
    if "BinaryInput" in names:
        return {
            "type": "blob",
            "mime_type": str(part.media_type),
            "modality": _modality(part),
            "content": part.data,
        }
    if "UrlInput" in names:
        return {"type": "uri", "modality": _modality(part), "uri": part.url}
    if "FileIdInput" in names:
        return {"type": "file", "file_id": part.file_id, "filename": part.filename}
    return {"type": names[0], "content": part}


def _modality(part: Any) -> str:
    kind = getattr(part, "kind", None)
    return str(getattr(kind, "value", kind))


def _request(event: Any) -> Payload:
    if (parts := getattr(event, "parts", None)) is None:
        return payloads.message("user", [payloads.text(event.content)])  # autogen.beta 0.11
    return payloads.message("user", [_input_part(part) for part in parts])


def _response(event: Any) -> Payload:
    parts = [payloads.text(event.message.content)] if event.message is not None else []
    parts += [
        {"type": "blob", "name": file.name, "content": file.data}
        for file in getattr(event, "files", ()) or ()
    ]
    parts += [
        payloads.tool_call_part(call.id, call.name, call.arguments) for call in _calls(event.tool_calls)
    ]
    return payloads.message(
        "assistant",
        parts,
        model=getattr(event, "model", None),
        provider=getattr(event, "provider", None),
        finish_reason=getattr(event, "finish_reason", None),
        response_id=getattr(event, "response_id", None),  # not in AG2 1.0
    )


def only_asks_for_tools(event: Any) -> bool:
    """Whether an event is a response that calls tools and says nothing: the calls follow at once."""
    return (
        "ModelResponse" in kinds(event)
        and bool(_calls(event.tool_calls))
        and not (event.message is not None and event.message.content)
        and not getattr(event, "files", None)
    )


def _calls(calls: Any) -> list[Any]:
    return list(getattr(calls, "calls", None) or ())


def _thought(event: Any) -> Payload:
    return payloads.message("assistant", [payloads.reasoning(event.content)])


def _call(event: Any) -> Payload:
    return {
        "name": event.name,
        "call_id": event.id,
        "arguments": payloads.arguments_of(event.arguments),
        "executor": "provider" if "BuiltinToolCallEvent" in kinds(event) else None,
    }


def _result(event: Any) -> Payload:
    error = getattr(event, "error", None)
    return {
        "name": event.name,
        "call_id": event.parent_id,
        "result": _value(_given(event)),
        "is_error": error is not None,
        "error": describe_error(error) if error is not None else None,
    }


def _given(event: Any) -> Any:
    return (
        event.result if hasattr(event, "result") else getattr(event, "raw_content", None)
    )  # autogen.beta 0.11


def _value(result: Any) -> Any:
    """What a tool gave: its text or value when it is one, else the parts."""
    if (found := getattr(result, "parts", None)) is None:
        return getattr(result, "content", result)  # autogen.beta 0.11
    parts = list(found)
    if len(parts) == 1:
        names = kinds(parts[0])
        if "TextInput" in names:
            return parts[0].content
        if "DataInput" in names:
            return parts[0].data
    return [_input_part(part) for part in parts]


def _results(event: Any) -> Payload:
    parts = [payloads.tool_response_part(one.parent_id, _value(_given(one))) for one in event.results]
    return payloads.message("tool", parts)


def _question(event: Any) -> Payload:
    approval = "ToolApprovalRequest" in kinds(event)
    return {
        "kind": "approval" if approval else "question",
        "question_id": getattr(event, "id", None),
        "question": event.content,
        "call_id": getattr(event, "tool_call_id", None),
        "task_id": getattr(event, "task_id", None),
        "timeout_seconds": getattr(event, "timeout", None),
    }


def _answer(event: Any) -> Payload:
    return {"answers": getattr(event, "parent_id", None) or None, "answer": event.content}


def _task(event: Any) -> Payload:
    return {
        "task_id": event.task_id,
        "name": event.agent_name,
        "objective": event.objective,
        "call_id": getattr(event, "parent_tool_call_id", None),
    }


def _task_completed(event: Any) -> Payload:
    return {
        **_task(event),
        "output": event.result,
        "usage": usage_of(event.usage),
        "stream_id": str(event.task_stream),
    }


def _task_failed(event: Any) -> Payload:
    return {**_task(event), "error": describe_error(event.error)}


def _task_expired(event: Any) -> Payload:
    return {**_task(event), "error": {"type": "TaskExpired", "message": "its time to live ran out"}}


def _task_cancelled(event: Any) -> Payload:
    return {**_task(event), "reason": event.reason or None}


def _usage(event: Any) -> Payload:
    return {
        "model": event.model,
        "provider": event.provider,
        "purpose": event.kind if event.kind != "model_call" else None,
        "usage": usage_of(event.usage),
        "finish_reason": event.finish_reason,
    }


def _rollup(event: Any) -> Payload:
    """What a sub-agent spent in all; no model call of its own, so nothing is counted twice."""
    return {"name": "subtask_usage", "agent": event.label, "usage": usage_of(event.usage)}


def _usage_place(event: Any) -> Place:
    if event.kind == "subtask":
        return "execution.state_change", _rollup
    return "execution.model_call", _usage


def _changed(name: str, *fields: str) -> Place:
    def payload(event: Any) -> Payload:
        return {"name": name, **{field: getattr(event, field, None) for field in fields}}

    return "execution.state_change", payload


_PLACES: dict[str, Place] = {
    "ModelRequest": ("execution.message", _request),
    "ModelResponse": ("execution.message", _response),
    "ModelReasoning": ("execution.message", _thought),
    "ToolCallEvent": ("execution.tool_call", _call),
    "ToolResultEvent": ("execution.tool_result", _result),
    "ToolResultsEvent": ("execution.message", _results),
    "ClientToolCallEvent": _changed("tool_call_left_to_client", "id", "name"),
    "HumanInputRequest": ("execution.human_input_requested", _question),
    "HumanMessage": ("execution.human_input_received", _answer),
    "TaskStarted": ("system.task_started", _task),
    "TaskCompleted": ("system.task_completed", _task_completed),
    "TaskFailed": ("system.task_failed", _task_failed),
    "TaskExpired": ("system.task_failed", _task_expired),
    "TaskCancelled": ("system.task_cancelled", _task_cancelled),
    "CompactionStarted": _changed("compaction_started", "strategy", "event_count"),
    "CompactionCompleted": _changed("compaction_completed", "strategy", "events_before", "events_after"),
    "CompactionFailed": _changed("compaction_failed", "strategy", "error_type", "error"),
    "CompactionSummary": _changed("compaction_summary", "summary", "event_count"),
    "AggregationStarted": _changed("aggregation_started", "strategy", "event_count"),
    "AggregationCompleted": _changed("aggregation_completed", "strategy", "event_count"),
    "AggregationFailed": _changed("aggregation_failed", "strategy", "error_type", "error"),
    "EventLogFailed": _changed("event_log_failed", "error_type", "error"),
    "ObserverAlert": _changed("observer_alert", "source", "severity", "message"),
    "HaltEvent": _changed("halted", "reason", "source"),
}
