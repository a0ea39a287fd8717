"""Items of the OpenAI Responses API as messages and parts; the SDK speaks this form whatever the model is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = ["Hosted", "after_the_last_answer", "input_messages", "output_parts", "usage_of"]

_HOSTED = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "tool_search_call",
        "web_search_call",
    }
)
_ASKED_FOR = frozenset({"user", "system", "developer"})
_NO_ARGUMENTS = frozenset(
    {"id", "call_id", "type", "status", "name", "output", "result", "results", "outputs"}
)
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


class Hosted(NamedTuple):
    """A tool that the provider ran by itself while the model answered."""

    call_id: str
    name: str
    arguments: Any
    result: Any
    error: Any


def input_messages(items: str | Iterable[Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """What a run is given, as (role, parts) of each message; tool outputs among it have the role ``tool``."""
    if isinstance(items, str):
        return [("user", [text(items)])]
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for item in items:
        role, parts = _message(_fields(item))
        if not parts:
            continue
        if found and role == "assistant" == found[-1][0]:
            found[-1][1].extend(parts)  # one answer of a model comes as several items
        else:
            found.append((role, parts))
    return found


def after_the_last_answer(items: str | Iterable[Any]) -> str | list[Any]:
    """The part of an input that is new where the history before it is on record: what follows the last answer."""
    if isinstance(items, str):
        return items
    new: list[Any] = []
    for item in items:
        fields = _fields(item)
        kind = fields.get("type") or "message"
        new = [*new, item] if kind == "message" and fields.get("role") in _ASKED_FOR else []
    return new


def output_parts(items: Iterable[Any]) -> tuple[list[dict[str, Any]], list[Hosted]]:
    """An answer of a model as parts of one message, and the tools that the provider ran for it."""
    parts: list[dict[str, Any]] = []
    hosted: list[Hosted] = []
    for item in items:
        fields = _fields(item)
        parts += _message(fields)[1]
        if fields.get("type") in _HOSTED:
            hosted.append(_hosted(fields))
    return parts, hosted


def usage_of(usage: Any) -> dict[str, int] | None:
    """Tokens of one answer by the keys that all adapters share; ``None`` where nothing was counted."""
    inputs, outputs = getattr(usage, "input_tokens", 0) or 0, getattr(usage, "output_tokens", 0) or 0
    if not inputs and not outputs:
        return None
    inside = getattr(usage, "input_tokens_details", None)
    outside = getattr(usage, "output_tokens_details", None)
    more = {
        "cache_read": getattr(inside, "cached_tokens", 0),
        "cache_write": getattr(inside, "cache_write_tokens", 0),
        "reasoning": getattr(outside, "reasoning_tokens", 0),
    }
    return {"input_tokens": inputs, "output_tokens": outputs, **{key: n for key, n in more.items() if n}}


def _fields(item: Any) -> dict[str, Any]:
    raw = getattr(item, "raw_item", item)
    if isinstance(raw, Mapping):
        return dict(raw)
    dump = getattr(raw, "model_dump", None)
    made = dump(exclude_unset=True, warnings=False) if callable(dump) else plain(raw)
    if not isinstance(made, dict):
        return {"type": type(raw).__name__}
    if "type" not in made and (kind := getattr(raw, "type", None)):
        made["type"] = kind
    return made


def _message(fields: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    kind = str(fields.get("type") or "message")
    if kind == "message":
        return str(fields.get("role") or "assistant"), _content(fields.get("content"))
    if kind == "reasoning":
        said = _content(fields.get("content")) or _content(fields.get("summary"))
        return "assistant", [reasoning(part["content"]) for part in said if part.get("content")]
    if kind.endswith("_output"):
        return "tool", [tool_response_part(_id(fields), plain(fields.get("output")))]
    if kind in ("function_call", "custom_tool_call"):
        arguments = fields.get("arguments") if kind == "function_call" else fields.get("input")
        return "assistant", [tool_call_part(_id(fields), fields.get("name"), arguments)]
    if kind.endswith("_call"):
        return "assistant", [tool_call_part(_id(fields), _tool(fields), _arguments(fields))]
    return "assistant", [{"type": kind, "content": plain(fields)}]


def _content(content: Any) -> list[dict[str, Any]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [text(content)]
    return [_part(dict(part)) for part in content if isinstance(part, Mapping)]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kind = str(part.get("type"))
    if kind in _TEXTS:
        return text(part.get("text", ""))
    if kind == "refusal":
        return {"type": "refusal", "content": part.get("refusal")}
    if kind == "input_image" and isinstance(url := part.get("image_url"), str):
        return {"type": "uri", "modality": "image", "uri": url}
    if kind in ("input_image", "input_file", "input_audio"):
        known = {
            "modality": {"input_image": "image", "input_audio": "audio"}.get(kind),
            "file_id": part.get("file_id"),
            "name": part.get("filename"),
            "uri": part.get("file_url"),
            "content": plain(part.get("file_data") or part.get("input_audio")),
        }
        return {"type": "file", **{key: value for key, value in known.items() if value is not None}}
    return {"type": kind, "content": plain(part)}


def _hosted(fields: dict[str, Any]) -> Hosted:
    result = next(
        (fields[key] for key in ("output", "results", "result", "outputs") if fields.get(key)), None
    )
    error = fields.get("error") or (fields.get("status") == "failed" or None)
    return Hosted(_id(fields) or "", _tool(fields), _arguments(fields), plain(result), plain(error))


def _id(fields: dict[str, Any]) -> str | None:
    found = fields.get("call_id") or fields.get("id")
    return str(found) if found else None


def _tool(fields: dict[str, Any]) -> str:
    return str(fields.get("name") or str(fields.get("type")).removesuffix("_call"))


def _arguments(fields: dict[str, Any]) -> Any:
    if "arguments" in fields:
        return fields["arguments"]
    return plain(
        {key: value for key, value in fields.items() if key not in _NO_ARGUMENTS and value is not None}
    )
