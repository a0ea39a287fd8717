"""Messages and events of AgentChat as the parts and facts that every adapter writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.payloads import text, tool_call_part
from chatsnapshot.adapters.plain import plain

__all__ = ["calls_in", "dumped", "is_chat", "is_result", "kind_of", "model_of", "parts_of", "usage_of"]


def kind_of(item: Any) -> str:
    """The type of a message or event by its name: ``TextMessage``, ``ToolCallRequestEvent`` …"""
    return str(getattr(item, "type", "") or type(item).__name__)


def is_chat(item: Any) -> bool:
    """Whether it is a message that agents send to each other, of whatever class."""
    return hasattr(item, "to_model_text")


def is_result(item: Any) -> bool:
    """Whether it is the ``TaskResult`` that a stream ends with."""
    return hasattr(item, "stop_reason") and hasattr(item, "messages")


def parts_of(message: Any) -> list[dict[str, Any]]:
    """The content of a chat message as parts: a text, texts and images, or a structure as its JSON text."""
    content = getattr(message, "content", None)
    if isinstance(content, str):
        return [text(content)] if content else []
    if isinstance(content, list):
        return [_part(one) for one in content]
    return [text(message.to_model_text())]


def _part(one: Any) -> dict[str, Any]:
    encode = getattr(one, "to_base64", None)
    if isinstance(one, str) or encode is None:
        return text(one)
    return {"type": "blob", "modality": "image", "mime_type": "image/png", "content": encode()}


def calls_in(item: Any) -> list[dict[str, Any]]:
    """The tools that a ``ToolCallRequestEvent`` asks for, as parts."""
    return [tool_call_part(str(one.id), one.name, one.arguments) for one in item.content]


def usage_of(usage: Any) -> dict[str, int] | None:
    """Tokens by their common names; ``None`` where the client tells none."""
    if usage is None:
        return None
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}


def model_of(client: Any) -> str | None:
    """The model that a client asks, where it says so: those of ``autogen_ext`` keep it in what they were made with."""
    for name in ("_create_args", "_raw_config"):
        known = getattr(client, name, None)
        model = known.get("model") if isinstance(known, Mapping) else None
        if isinstance(model, str):
            return model
    return None


def dumped(item: Any) -> Any:
    """What an event holds, without what every event has."""
    dump = getattr(item, "model_dump_json", None)
    facts = json.loads(dump()) if callable(dump) else plain(item)
    if not isinstance(facts, dict):
        return facts
    common = ("id", "source", "models_usage", "metadata", "created_at", "type")
    rest = {name: value for name, value in facts.items() if name not in common}
    return rest["content"] if rest.keys() == {"content"} else rest
