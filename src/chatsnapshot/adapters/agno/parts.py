"""Messages, inputs and tokens of Agno by the names that all adapters share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = ["calls_of", "input_messages", "message_parts", "result_of", "usage_of"]

_MEDIA = {
    **dict.fromkeys(("images", "image_output"), "image"),
    **dict.fromkeys(("videos", "video_output"), "video"),
    **dict.fromkeys(("audio", "audios", "audio_output"), "audio"),
    **dict.fromkeys(("files", "file_output"), "document"),
}
_KEPT = ("id", "format", "mime_type", "filename", "name", "transcript")


def input_messages(content: Any, owner: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    """What a run is given, as (role, parts); ``owner`` (Agno's ``RunInput``) holds the media beside it."""
    beside = _media_of(owner)
    if _is_message(content):
        found = [(content.role, message_parts(content))]
    elif isinstance(content, list) and content and all(map(_is_message, content)):
        found = [(one.role, message_parts(one)) for one in content]
    else:
        found = [("user", _said(content))]
    found[-1][1].extend(beside)
    return [(role, parts) for role, parts in found if parts]


def message_parts(message: Any) -> list[dict[str, Any]]:
    """A message as parts: thoughts, text, calls of tools, media; the result of a tool is a response."""
    parts = []
    if thought := getattr(message, "reasoning_content", None):
        parts.append(reasoning(thought))
    if message.tool_call_id and message.role == "tool":
        parts.append(tool_response_part(message.tool_call_id, plain(message.content)))
    else:
        parts += _said(message.content)
    parts += [tool_call_part(*call) for call in calls_of(message)]
    return [*parts, *_media_of(message)]


def calls_of(message: Any) -> list[tuple[str | None, str | None, Any]]:
    """The tools that a message asks for: call id, name and arguments as the model wrote them."""
    found = []
    for call in message.tool_calls or ():
        if isinstance(call, dict):
            function = call.get("function") or {}
            found.append(
                (call.get("id") or call.get("call_id"), function.get("name"), function.get("arguments"))
            )
    return found


def result_of(value: Any) -> Any:
    """What a tool gave: of Agno's ``ToolResult`` its content, with the media beside it."""
    if type(value).__name__ != "ToolResult" or not hasattr(value, "content"):
        return value
    media = _media_of(value)
    return {"content": value.content, "media": media} if media else value.content


def usage_of(metrics: Any) -> dict[str, int] | None:
    """Tokens of one answer by the keys that all adapters share; ``None`` where nothing was counted."""
    found = {
        "input_tokens": getattr(metrics, "input_tokens", None) or 0,
        "output_tokens": getattr(metrics, "output_tokens", None) or 0,
        "cache_read": getattr(metrics, "cache_read_tokens", None) or 0,
        "cache_write": getattr(metrics, "cache_write_tokens", None) or 0,
        "reasoning": getattr(metrics, "reasoning_tokens", None) or 0,
    }
    if not found["input_tokens"] and not found["output_tokens"]:
        return None
    return {key: count for key, count in found.items() if count or key in ("input_tokens", "output_tokens")}


def _is_message(value: Any) -> bool:
    return hasattr(value, "role") and hasattr(value, "tool_calls")


def _said(content: Any) -> list[dict[str, Any]]:
    if content is None or content == "" or content == []:
        return []
    if isinstance(content, str):
        return [text(content)]
    if isinstance(content, list):
        return [part for one in content for part in _said(_text_in(one))]
    return [{"type": "text", "content": plain(content)}]


def _text_in(item: Any) -> Any:
    """The text of an item of the OpenAI style, ``{"type": "text", "text": …}``."""
    is_text = isinstance(item, dict) and item.get("type") == "text" and isinstance(item.get("text"), str)
    return item["text"] if is_text else item


def _media_of(owner: Any) -> list[dict[str, Any]]:
    found = []
    for name, modality in _MEDIA.items():
        given = getattr(owner, name, None)
        if given is not None:
            found += [_medium(one, modality) for one in _each(given)]
    return found


def _each(given: Any) -> Iterable[Any]:
    return given if isinstance(given, (list, tuple)) else (given,)


def _medium(item: Any, modality: str) -> dict[str, Any]:
    """A picture, sound, film or document: its bytes, or where they are."""
    facts = {key: value for key in _KEPT if isinstance(value := getattr(item, key, None), str)}
    content = getattr(item, "content", None)
    if isinstance(content, bytes):
        return {"type": "blob", "modality": modality, "content": content, **facts}
    where = getattr(item, "url", None) or getattr(item, "filepath", None)
    if where is not None:
        return {"type": "uri", "modality": modality, "uri": str(where), **facts}
    if content is not None:
        return {"type": "file", "modality": modality, "content": plain(content), **facts}
    return {"type": "file", "modality": modality, **facts}
