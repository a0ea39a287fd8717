"""The payload shapes that every adapter writes, so that all runtimes look alike.

Message parts have the names of the OpenTelemetry GenAI conventions (``text``, ``reasoning``, ``tool_call``,
``tool_call_response``, ``blob``, ``file``, ``uri``).
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["arguments_of", "message", "reasoning", "text", "tool_call_part", "tool_response_part"]


def message(
    role: str, parts: list[dict[str, Any]], *, name: str | None = None, **more: Any
) -> dict[str, Any]:
    """A message: ``role`` is system, user, assistant or tool; ``name`` the agent or person that wrote it."""
    return {"role": role, "name": name, "parts": parts, **more}


def text(content: Any) -> dict[str, Any]:
    """A part of text."""
    return {"type": "text", "content": content if isinstance(content, str) else str(content)}


def reasoning(content: Any) -> dict[str, Any]:
    """A part with what the model thought."""
    return {"type": "reasoning", "content": content}


def tool_call_part(call_id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    """A part that asks for a tool."""
    return {"type": "tool_call", "id": call_id or None, "name": name, "arguments": arguments_of(arguments)}


def tool_response_part(call_id: str | None, result: Any) -> dict[str, Any]:
    """A part with what a tool gave, as the model sees it."""
    return {"type": "tool_call_response", "id": call_id or None, "result": result}


def arguments_of(arguments: Any) -> Any:
    """Tool arguments as values: JSON text is read, text that is no JSON stays as the model wrote it."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments
