"""LlamaIndex's messages, answers, events and nodes as payloads have them; knows their shapes, imports none of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = [
    "answered",
    "event_facts",
    "given_first",
    "is_a",
    "model_name",
    "node_facts",
    "output_of",
    "parts_of",
    "query_text",
    "role_of",
    "tool_answer",
    "usage_of",
    "words_of",
]

_ROLES = {"developer": "system", "function": "tool", "chatbot": "assistant", "model": "assistant"}
_MEDIA = {"image": "image", "audio": "audio", "video": "video", "document": "data"}
_COUNTS = {
    "input_tokens": ("prompt_tokens", "input_tokens", "prompt_token_count"),
    "output_tokens": ("completion_tokens", "output_tokens", "candidates_token_count"),
    "cache_read": ("cache_read_input_tokens", "cached_content_token_count"),
    "cache_write": ("cache_creation_input_tokens",),
    "reasoning": ("thoughts_token_count", "reasoning_tokens"),
}


@functools.lru_cache(maxsize=4_096)
def _kinds(cls: Any) -> frozenset[str]:
    return frozenset(base.__name__ for base in cls.__mro__)


def is_a(value: Any, *names: str) -> bool:
    """Whether it is an instance of a class of one of these names."""
    kind: Any = type(value)
    return not _kinds(kind).isdisjoint(names)


# --- messages ---------------------------------------------------------------------------------------------


def role_of(message: Any) -> str:
    """The role of a ``ChatMessage``: system, user, assistant or tool."""
    role = str(getattr(message.role, "value", message.role))
    role = _ROLES.get(role, role)
    return role if role in ("system", "user", "assistant", "tool") else "user"


def parts_of(message: Any) -> list[dict[str, Any]]:
    """The parts of a ``ChatMessage``."""
    blocks = [part for block in message.blocks if (part := _part(block)) is not None]
    if role_of(message) == "tool":
        call_id = message.additional_kwargs.get("tool_call_id")
        return [tool_response_part(call_id, words_of(message) or plain(blocks))]
    return blocks or [text("")]


def words_of(message: Any) -> str:
    """The text of a ``ChatMessage``."""
    return "\n".join(block.text for block in message.blocks if getattr(block, "block_type", "") == "text")


def _part(block: Any) -> dict[str, Any] | None:
    kind = str(getattr(block, "block_type", "data"))
    if kind == "text":
        return text(block.text)
    if kind == "thinking":
        return reasoning(block.content)
    if kind == "tool_call":
        return tool_call_part(block.tool_call_id, block.tool_name, plain(block.tool_kwargs))
    if kind in _MEDIA:
        return _media(kind, block)
    if kind in ("cache", "cache_point"):
        return None
    return {"type": kind, "content": plain(block)}


def _media(kind: str, block: Any) -> dict[str, Any]:
    mime_type = next(
        (found for name in ("image_mimetype", "document_mimetype") if (found := getattr(block, name, None))),
        None,
    )
    part: dict[str, Any] = {"modality": kind, "mime_type": mime_type}
    if getattr(block, "url", None):
        return {"type": "uri", **part, "uri": str(block.url)}
    if getattr(block, "path", None):
        return {"type": "uri", **part, "uri": str(block.path)}
    held = getattr(block, _MEDIA[kind], None)
    return {"type": "blob", **part, "content": held.decode("latin-1") if isinstance(held, bytes) else held}


# --- models -----------------------------------------------------------------------------------------------


def model_name(model: Any) -> str | None:
    """What a model is called."""
    try:
        name = getattr(model, "model", None) or model.metadata.model_name
    except Exception:
        return None
    return name if isinstance(name, str) and name not in ("", "unknown") else None


def usage_of(response: Any) -> dict[str, int] | None:
    """Tokens by their common names, from where providers put them; ``None`` where they tell none."""
    raw = getattr(response, "raw", None)
    for given in (
        _member(raw, "usage"),
        _member(raw, "usage_metadata"),
        getattr(response, "additional_kwargs", None),
    ):
        usage = {
            ours: count
            for ours, names in _COUNTS.items()
            for name in names
            if isinstance(count := _member(given, name), int) and not isinstance(count, bool)
        }
        if usage:
            return usage
    return None


def _member(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


# --- tools ------------------------------------------------------------------------------------------------


def tool_answer(output: Any) -> dict[str, Any]:
    """A ``ToolOutput`` as the facts of a result."""
    if getattr(output, "is_error", False):
        return {"error": getattr(output, "exception", None) or str(output.content)}
    raw = getattr(output, "raw_output", None)
    simple = raw is None or isinstance(raw, (str, int, float, bool, list, dict))
    return {"result": plain(raw) if simple and raw is not None else str(getattr(output, "content", output))}


def given_first(bound: Any) -> Any:
    """The first argument of a call, also of one whose function takes any."""
    for name, value in bound.arguments.items():
        if name == "args" and isinstance(value, tuple):
            if value:
                return value[0]
        elif name == "kwargs" and isinstance(value, dict):
            return next(iter(value.values()), None)
        elif name not in ("self", "_self"):
            return value
    return None


# --- events, answers, nodes -------------------------------------------------------------------------------


def event_facts(event: Any) -> Any:
    """What an event of a workflow holds, as plain data."""
    if event is None:
        return None
    try:
        declared = {name: getattr(event, name) for name in type(event).model_fields}
        return plain({**declared, **dict(event.items())})
    except Exception:
        return plain(event)


def answered(event: Any, name: str) -> Any:
    """The one member of an event that says it (``prefix`` of a question, ``response`` of an answer), or all of them."""
    facts = event_facts(event)
    if isinstance(facts, dict) and set(facts) == {name}:
        return facts[name]
    return facts


def output_of(stopped: Any) -> Any:
    """What a ``StopEvent``, or the answer of an engine, comes to; a stream is left unread."""
    if is_a(stopped, "StopEvent"):
        result = getattr(stopped, "result", None)
        return (
            event_facts(stopped)
            if result is None and type(stopped).__name__ != "StopEvent"
            else output_of(result)
        )
    if is_a(stopped, "AgentOutput"):
        said = words_of(stopped.response)
        structured = stopped.structured_response
        return said if structured is None else {"message": said, "structured": plain(structured)}
    if hasattr(stopped, "response_gen") and not hasattr(stopped, "sources"):
        return None
    if hasattr(stopped, "source_nodes") and hasattr(stopped, "response"):
        return plain(stopped.response) or None
    if is_a(stopped, "ChatMessage"):
        return words_of(stopped)
    if is_a(stopped, "ChatResponse"):
        return words_of(stopped.message)
    if is_a(stopped, "CompletionResponse"):
        return stopped.text
    return plain(stopped)


def query_text(query: Any) -> str:
    """The words of a query, given as text or as a ``QueryBundle``."""
    return str(getattr(query, "query_str", query))


def node_facts(found: Any) -> dict[str, Any]:
    """A ``NodeWithScore`` as a document that was found."""
    node = getattr(found, "node", found)
    metadata = getattr(node, "metadata", None)
    try:
        content = node.get_content()
    except Exception:
        content = None
    facts = {
        "id": getattr(node, "node_id", None),
        "content": content,
        "score": plain(getattr(found, "score", None)),
        "metadata": plain(metadata) if metadata else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}
