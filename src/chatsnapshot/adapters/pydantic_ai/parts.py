"""Messages of Pydantic AI as (role, parts), by the names that all adapters share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = [
    "Native",
    "history_messages",
    "native_tools",
    "response_parts",
    "retry_text",
    "usage_of",
    "user_parts",
]


class Native(NamedTuple):
    """A tool that the provider ran by itself while the model answered."""

    call_id: str
    name: str
    arguments: Any
    result: Any


def user_parts(content: Any) -> list[dict[str, Any]]:
    """What a user says: text, and pictures, sounds and documents beside it."""
    if content is None:
        return []
    if isinstance(content, str):
        return [text(content)]
    return [part for item in content if (part := _content(item)) is not None]


def response_parts(response: Any) -> list[dict[str, Any]]:
    """A model's answer as parts of one message."""
    return [part for one in response.parts if (part := _answered(one)) is not None]


def native_tools(response: Any) -> list[Native]:
    """The tools that the provider ran for an answer."""
    calls = {one.tool_call_id: one for one in response.parts if one.part_kind == "builtin-tool-call"}
    given = {one.tool_call_id: one for one in response.parts if one.part_kind == "builtin-tool-return"}
    return [
        Native(
            call_id, call.tool_name, call.args, plain(given[call_id].content) if call_id in given else None
        )
        for call_id, call in calls.items()
    ]


def history_messages(messages: Iterable[Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Messages of runs that are not on record, as (role, parts)."""
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for message in messages:
        if message.kind == "response":
            found.append(("assistant", response_parts(message)))
            continue
        for part in message.parts:
            if part.part_kind == "system-prompt":
                found.append(("system", [text(part.content)]))
            elif part.part_kind == "user-prompt":
                found.append(("user", user_parts(part.content)))
            elif part.part_kind == "tool-return":
                found.append(("tool", [tool_response_part(part.tool_call_id, plain(part.content))]))
            elif part.part_kind == "retry-prompt":
                found.append(("tool" if part.tool_name else "user", [text(retry_text(part))]))
    return [(role, parts) for role, parts in found if parts]


def retry_text(part: Any) -> str:
    """What the model is told when it has to try again."""
    content = part.content
    if isinstance(content, str):
        return content
    made = getattr(part, "model_response", None)
    return str(made()) if callable(made) else str(content)


def usage_of(usage: Any) -> dict[str, int] | None:
    """Tokens of one answer by the keys that all adapters share; ``None`` where nothing was counted."""
    found = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": (usage.details or {}).get("reasoning_tokens", 0),
    }
    if not found["input_tokens"] and not found["output_tokens"]:
        return None
    return {key: count for key, count in found.items() if count or key in ("input_tokens", "output_tokens")}


def _answered(part: Any) -> dict[str, Any] | None:
    kind = part.part_kind
    if kind == "text":
        return text(part.content) if part.content else None
    if kind == "thinking":
        return reasoning(part.content) if part.content else None
    if kind in ("tool-call", "builtin-tool-call"):
        return tool_call_part(part.tool_call_id, part.tool_name, part.args)
    if kind == "builtin-tool-return":
        return tool_response_part(part.tool_call_id, plain(part.content))
    if kind == "file":
        return _content(part.content)
    return {"type": kind, "content": plain(getattr(part, "content", None))}


def _content(item: Any) -> dict[str, Any] | None:
    if isinstance(item, str):
        return text(item)
    kind = getattr(item, "kind", type(item).__name__)
    if kind == "cache-point":
        return None
    if isinstance(data := getattr(item, "data", None), bytes):
        media = str(getattr(item, "media_type", "") or "application/octet-stream")
        return {"type": "blob", "modality": _modality(media), "mime_type": media, "content": data}
    if isinstance(url := getattr(item, "url", None), str):
        modality = {"image-url": "image", "audio-url": "audio", "video-url": "video"}.get(kind, "document")
        return {"type": "uri", "modality": modality, "uri": url}
    if isinstance(said := getattr(item, "content", None), str):
        return text(said)
    file_id = getattr(item, "file_id", None)
    return {"type": "file", "file_id": file_id} if file_id else {"type": kind, "content": plain(item)}


def _modality(media_type: str) -> str:
    main = media_type.partition("/")[0]
    return main if main in ("image", "audio", "video") else "document"
