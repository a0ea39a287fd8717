"""What models and tools of CrewAI say, in the words that all adapters share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.payloads import arguments_of, text, tool_call_part
from chatsnapshot.adapters.plain import plain, type_name

__all__ = ["asked_calls", "error_of", "parts_of", "same_name", "usage_of"]

_USAGE = {
    "input_tokens": ("input_tokens", "prompt_tokens", "prompt_token_count"),
    "output_tokens": ("output_tokens", "completion_tokens", "candidates_token_count"),
    "total_tokens": ("total_tokens", "total_token_count"),
    "cache_read": ("cached_prompt_tokens", "cached_tokens", "cache_read_input_tokens"),
    "cache_write": ("cache_creation_tokens", "cache_creation_input_tokens"),
    "reasoning": ("reasoning_tokens", "thoughts_token_count"),
}


def usage_of(told: Any) -> dict[str, int] | None:
    """Token counts by our names; ``None`` when there are none."""
    if not isinstance(told, Mapping):
        return None
    found: dict[str, int] = {}
    for name, names in _USAGE.items():
        for one in names:
            count = told.get(one)
            if isinstance(count, int) and not isinstance(count, bool):
                if count or name in ("input_tokens", "output_tokens"):
                    found[name] = count
                break
    return found or None


def parts_of(response: Any) -> list[dict[str, Any]]:
    """The parts of a model's answer: text, or the tools that it calls."""
    calls = asked_calls(response)
    if calls:
        return [tool_call_part(call_id, name, arguments) for call_id, name, arguments in calls]
    if response is None:
        return []
    said = plain(response)
    return [text(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str))]


def asked_calls(response: Any) -> list[tuple[str | None, str, Any]]:
    """The tool calls of an answer, in any of the forms that providers use: id, name, arguments."""
    if not isinstance(response, (list, tuple)):
        return []
    found = []
    for one in response:
        call = one if isinstance(one, Mapping) else _attributes(one)
        function = call.get("function") or call.get("function_call") or {}
        inside = function if isinstance(function, Mapping) else _attributes(function)
        name = inside.get("name") or call.get("name")
        if not isinstance(name, str):
            return []
        given = [inside.get(key) for key in ("arguments", "args")]
        given += [call.get(key) for key in ("arguments", "input", "args")]
        arguments: Any = next((one for one in given if one is not None), {})
        call_id = call.get("call_id") or call.get("id") or call.get("toolUseId")
        found.append((None if call_id is None else str(call_id), name, plain(arguments_of(arguments))))
    return found


def same_name(one: object, other: object) -> bool:
    """Whether two spellings name one tool: ``Delegate work to coworker`` and ``delegate_work_to_coworker``."""
    return _letters(one) == _letters(other)


def error_of(error: Any, kind: Any = None) -> Any:
    """An error as a payload holds it; ``kind`` is its class, where CrewAI tells that besides the message."""
    if isinstance(error, BaseException) or not isinstance(kind, type):
        return error
    return {"type": kind.__qualname__, "module": type_name(kind).rpartition(".")[0], "message": str(error)}


def _letters(name: object) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _attributes(value: Any) -> dict[str, Any]:
    names = ("id", "call_id", "name", "function", "function_call", "arguments", "args", "input")
    return {name: getattr(value, name) for name in names if getattr(value, name, None) is not None}
