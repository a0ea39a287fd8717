"""The messages of Strands Agents, its tool results and its tokens in the words that all adapters share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chatsnapshot.adapters.payloads import reasoning, text, tool_call_part, tool_response_part
from chatsnapshot.adapters.plain import plain

__all__ = ["as_value", "output_of", "parts_of", "results_in", "text_of", "usage_of"]

_MEDIA = ("image", "document", "video")


def parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a message; results of tools are events of their own, marks for a cache are no content."""
    return [
        part
        for block in message.get("content") or ()
        if "toolResult" not in block and "cachePoint" not in block
        for part in _parts(block)
    ]


def _parts(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "text" in block:
        return [text(block["text"])]
    if "toolUse" in block:
        use = block["toolUse"]
        return [tool_call_part(use.get("toolUseId"), use.get("name"), plain(use.get("input")))]
    if "toolResult" in block:
        result = block["toolResult"]
        return [tool_response_part(result.get("toolUseId"), as_value(result))]
    if "reasoningContent" in block:
        thought = block["reasoningContent"]
        told = thought.get("reasoningText") or {}
        return [reasoning(told.get("text") if told else plain(thought))]
    if "citationsContent" in block:
        cited = block["citationsContent"]
        return [part for one in cited.get("content") or () for part in _parts(one)]
    for kind in _MEDIA:
        if kind in block:
            return [_media(kind, block[kind])]
    name = next(iter(block), "unknown")
    return [{"type": name, "content": plain(block.get(name))}]


def _media(kind: str, media: Mapping[str, Any]) -> dict[str, Any]:
    """An image, a document or a video: its bytes, or where it is kept."""
    source = media.get("source") or {}
    facts = {"modality": kind, "format": media.get("format"), "name": media.get("name")}
    known = {name: value for name, value in facts.items() if value is not None}
    if "bytes" in source:
        return {"type": "blob", "content": source["bytes"], **known}
    place = source.get("location") or {}
    if "uri" in place:
        return {"type": "uri", "uri": place["uri"], **known}
    return {"type": kind, "content": plain(source), **known}


def as_value(result: Mapping[str, Any]) -> Any:
    """What a tool gave: the text of a result that is only text, the value of one in JSON, otherwise its parts."""
    content = list(result.get("content") or ())
    texts = [str(one["text"]) for one in content if "text" in one]
    if len(texts) == len(content):
        return "".join(texts)
    if len(content) == 1 and "json" in content[0]:
        return plain(content[0]["json"])
    return [part for one in content for part in _parts(one)]


def results_in(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results of tools in a message."""
    return [block["toolResult"] for block in message.get("content") or () if "toolResult" in block]


def text_of(content: Iterable[Mapping[str, Any]]) -> str | None:
    """The text of content blocks, without thoughts; ``None`` where there is none."""
    found = [part for block in content for part in _parts(block) if part.get("type") == "text"]
    return "\n".join(str(part["content"]) for part in found) or None


def output_of(result: Any) -> Any:
    """What a run gave: its structured output, otherwise the text of its last message."""
    structured = getattr(result, "structured_output", None)
    if structured is not None:
        return plain(structured)
    message = getattr(result, "message", None) or {}
    return text_of(message.get("content") or ())


def usage_of(message: Mapping[str, Any]) -> dict[str, int] | None:
    """Tokens of one model call; those of a cache count as input, as some providers tell them and some do not."""
    usage = (message.get("metadata") or {}).get("usage")
    if not usage:
        return None
    given, answered = int(usage.get("inputTokens") or 0), int(usage.get("outputTokens") or 0)
    read, written = int(usage.get("cacheReadInputTokens") or 0), int(usage.get("cacheWriteInputTokens") or 0)
    if given + answered != usage.get("totalTokens"):
        given += read + written
    made = {"input_tokens": given, "output_tokens": answered}
    if read:
        made["cache_read"] = read
    if written:
        made["cache_write"] = written
    return made
