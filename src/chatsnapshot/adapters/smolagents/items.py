"""What smolagents says and gives, as the parts and values that every adapter writes."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain

__all__ = ["as_value", "content_parts", "finish_reason", "image_part", "is_own", "usage_of"]


def content_parts(content: Any) -> list[dict[str, Any]]:
    """The content of a chat message: a text, or a list of texts and images."""
    if isinstance(content, str):
        return [text(str.__str__(content))] if content.strip() else []
    if not isinstance(content, (list, tuple)):
        return [] if content is None else [text(as_value(content))]
    return [part for one in content if (part := _content(one)) is not None]


def _content(one: Any) -> dict[str, Any] | None:
    if not isinstance(one, dict):
        return text(as_value(one))
    kind = one.get("type")
    if kind == "text":
        return text(one["text"]) if one.get("text") else None
    if kind == "image" and (made := image_part(one.get("image"))) is not None:
        return made
    if kind == "image_url" and isinstance(one.get("image_url"), dict):
        return {"type": "uri", "modality": "image", "uri": one["image_url"].get("url")}
    return {"type": str(kind or "text"), "content": plain({key: one[key] for key in one if key != "type"})}


def image_part(image: Any) -> dict[str, Any] | None:
    """A picture of PIL; ``None`` for anything else, and for one that cannot be written."""
    if not callable(getattr(image, "save", None)) or not hasattr(image, "size"):
        return None
    written = io.BytesIO()
    try:
        image.save(written, format="PNG")
    except Exception:
        return None
    return {"type": "blob", "modality": "image", "mime_type": "image/png", "content": written.getvalue()}


def as_value(value: Any) -> Any:
    """What a tool or an agent gave, without live objects; a picture as its PNG."""
    if isinstance(value, str):
        return str.__str__(value)
    if is_own(value, "AgentImage"):
        with suppress(Exception):
            value = value.to_raw()
    return image_part(value) or plain(value)


def usage_of(answer: Any) -> dict[str, int] | None:
    """Tokens of one answer by the keys that all adapters share; ``None`` where nothing was counted."""
    usage = getattr(answer, "token_usage", None)
    found = {name: _count(usage, name) for name in ("input_tokens", "output_tokens")}
    if not any(found.values()):
        return None
    told = getattr(getattr(answer, "raw", None), "usage", None)
    more = {
        "cache_read": _count(getattr(told, "prompt_tokens_details", None), "cached_tokens"),
        "reasoning": _count(getattr(told, "completion_tokens_details", None), "reasoning_tokens"),
    }
    return {**found, **{name: count for name, count in more.items() if count}}


def _count(holder: Any, name: str) -> int:
    found = getattr(holder, name, None)
    return found if type(found) is int and found > 0 else 0


def finish_reason(answer: Any) -> str | None:
    """Why the model stopped, where its provider's own answer is there and says so."""
    choices = getattr(getattr(answer, "raw", None), "choices", None)
    first = next(iter(choices), None) if isinstance(choices, Iterable) else None
    found = getattr(first, "finish_reason", None)
    return found if isinstance(found, str) else None


def is_own(value: Any, name: str) -> bool:
    """Whether this is an object of exactly that class of smolagents, and of none that was made from it."""
    kind = type(value)
    return kind.__name__ == name and kind.__module__.partition(".")[0] == "smolagents"
