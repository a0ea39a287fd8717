"""The contents of Agent Framework messages as the parts that every adapter writes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = [
    "APPROVAL_REQUEST",
    "APPROVAL_RESPONSE",
    "answer_facts",
    "approval_facts",
    "approval_of",
    "as_facts",
    "as_value",
    "part_of",
    "parts_of",
    "results_in",
    "usage_of",
]

APPROVAL_REQUEST = "function_approval_request"
APPROVAL_RESPONSE = "function_approval_response"
_NO_PARTS = frozenset({"usage", APPROVAL_REQUEST, APPROVAL_RESPONSE})
_USAGE = {
    "input_token_count": "input_tokens",
    "output_token_count": "output_tokens",
    "cache_read_input_token_count": "cache_read",
    "cache_creation_input_token_count": "cache_write",
    "reasoning_output_token_count": "reasoning",
}


def parts_of(message: Any) -> list[dict[str, Any]]:
    """The parts of a message; requests for approval and their answers are events of their own."""
    contents = [one for one in getattr(message, "contents", None) or () if _kind(one) not in _NO_PARTS]
    return [part_of(content) for content in contents]


def part_of(content: Any) -> dict[str, Any]:
    """One content as a part; kinds without a name in the conventions keep their own."""
    kind = _kind(content)
    if kind == "text":
        return text(content.text or "")
    if kind == "text_reasoning":
        return reasoning(getattr(content, "text", None) or plain(content.to_dict()))
    if kind == "function_call":
        return tool_call_part(content.call_id, content.name, content.arguments)
    if kind == "function_result":
        return tool_response_part(content.call_id, as_value(content))
    if kind in ("data", "uri"):
        return {"type": "uri", "uri": content.uri, "mime_type": getattr(content, "media_type", None)}
    if kind == "hosted_file":
        return {"type": "file", "file_id": content.file_id}
    if kind is None:
        return text(content)
    return {**_members(content), "type": kind}


def as_value(result: Any) -> Any:
    """What a tool gave: the text of a result that is only text, otherwise its contents as parts."""
    if _kind(result) == "function_result":
        if getattr(result, "exception", None) is not None:
            return result.exception
        items = getattr(result, "items", None)
        return plain(result.result) if result.result is not None or not items else as_value(items)
    if not isinstance(result, list) or not result or any(_kind(item) is None for item in result):
        return plain(result)
    if all(_kind(item) == "text" for item in result):
        return "".join(item.text or "" for item in result)
    return [part_of(item) for item in result]


def approval_of(content: Any) -> tuple[str, str, Any]:
    """Call id, name and arguments of the tool that a request for approval, or its answer, is about."""
    call = content.function_call
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            pass
    return str(call.call_id), str(call.name), plain(arguments)


def approval_facts(content: Any) -> dict[str, Any]:
    """A request for approval as the facts of a question."""
    call_id, name, arguments = approval_of(content)
    prompt = f"May {name} be called?"
    return {"kind": "approval", "prompt": prompt, "call_id": call_id, "name": name, "arguments": arguments}


def answer_facts(value: Any) -> dict[str, Any]:
    """What a person answered: a decision where it is about an approval, otherwise the answer as values."""
    if _kind(value) == APPROVAL_RESPONSE:
        return {"decision": "approved" if value.approved else "rejected"}
    return {"content": as_facts(value)}


def as_facts(value: Any) -> Any:
    """Messages and responses as their roles and parts, whatever they are held in; other values as they are."""
    if hasattr(value, "contents") and hasattr(value, "role"):
        name = getattr(value, "author_name", None)
        return {"role": str(value.role), **({"name": name} if name else {}), "parts": parts_of(value)}
    if hasattr(value, "messages") and hasattr(value, "text"):
        return value.text or {"messages": as_facts(value.messages)}
    if _kind(value) is not None:
        return part_of(value)
    if isinstance(value, (list, tuple)):
        return [as_facts(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_facts(getattr(value, field.name, None)) for field in dataclasses.fields(value)}
    return plain(value)


def results_in(messages: Any) -> list[Any]:
    """The tool results after the last message of the model: what the runtime answered to its calls."""
    found: list[Any] = []
    for message in reversed(list(messages or ())):
        contents = getattr(message, "contents", None) or ()
        if any(_kind(content) == "function_call" for content in contents):
            break
        found = [content for content in contents if _kind(content) == "function_result"] + found
    return found


def usage_of(details: Any) -> dict[str, int] | None:
    """Tokens by their common names; ``None`` where the client tells none."""
    if not hasattr(details, "get"):
        return None
    usage = {ours: details.get(theirs) for theirs, ours in _USAGE.items()}
    return {name: count for name, count in usage.items() if isinstance(count, int)} or None


def _kind(content: Any) -> str | None:
    kind = getattr(content, "type", None)
    return kind if isinstance(kind, str) and hasattr(content, "to_dict") else None


def _members(content: Any) -> dict[str, Any]:
    members = plain(content.to_dict())
    return members if isinstance(members, dict) else {"content": members}
