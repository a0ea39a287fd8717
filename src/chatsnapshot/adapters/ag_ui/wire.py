"""The wire form of AG-UI: events as dictionaries with the protocol's names, out of models, JSON and SSE."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain

__all__ = ["SseReader", "as_wire", "content_parts", "content_value", "usage_of"]

_BUFFERED_CHARS_MAX = 16 * 1024 * 1024
"""More than that without the end of an event is no event stream."""
_USAGE = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedInputTokens": "cache_read",
    "cacheWriteInputTokens": "cache_write",
    "reasoningTokens": "reasoning",
}


def as_wire(value: Any) -> dict[str, Any] | None:
    """An event or an input as its JSON object; ``None`` for what is neither.

    Models of ``ag_ui`` are dumped; the names of a mapping may be those of Python (``thread_id``).
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump(mode="json", by_alias=True, exclude_none=True)
        # Such a dump is plain already.
        return {_camel(key): item for key, item in dumped.items()} if type(dumped) is dict else None
    if not isinstance(value, Mapping):
        return None
    return {_camel(str(key)): plain(item) for key, item in value.items()}


def _camel(name: str) -> str:
    if "_" not in name:
        return name
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest) if head else name


def content_parts(content: Any) -> list[dict[str, Any]]:
    """The content of a message as parts: a text, or a list of the protocol's own parts."""
    if isinstance(content, str):
        return [text(content)] if content else []
    if not isinstance(content, list):
        return [] if content is None else [text(json.dumps(content))]
    return [_part(part) for part in content if isinstance(part, Mapping)]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return text(part.get("text") or "")
    source = part.get("source") if isinstance(part.get("source"), Mapping) else {}
    facts = {"modality": part.get("type"), "mime_type": (source or {}).get("mimeType")}
    facts = {key: value for key, value in facts.items() if value}
    kind, value = (source or {}).get("type"), (source or {}).get("value")
    if kind == "url":
        return {"type": "uri", "uri": value, **facts}
    if kind == "data":
        return {"type": "blob", "content": value, **facts}
    if kind == "file":
        return {"type": "file", "file_id": value, **facts}
    return {"type": "unknown", "content": dict(part)}


def content_value(content: Any) -> Any:
    """What a tool gave: JSON where the text is JSON, else the text, else its parts."""
    if isinstance(content, str):
        try:
            return json.loads(content)
        except ValueError:
            return content
    return content_parts(content)


def usage_of(entry: Mapping[str, Any]) -> dict[str, int] | None:
    """Tokens of one model by their common names."""
    usage = {ours: entry.get(theirs) for theirs, ours in _USAGE.items()}
    return {key: count for key, count in usage.items() if isinstance(count, int)} or None


class SseReader:
    """Finds the events in the pieces of a ``text/event-stream``, wherever they are cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: str | bytes) -> Iterator[dict[str, Any]]:
        """The events that are whole with this piece; what is no JSON object is passed over."""
        self._rest += piece.encode() if isinstance(piece, str) else bytes(piece)
        self._rest = self._rest.replace(b"\r\n", b"\n")
        while b"\n\n" in self._rest:
            block, self._rest = self._rest.split(b"\n\n", 1)
            lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
            try:
                event = json.loads(b"\n".join(lines)) if lines else None
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event
        if len(self._rest) > _BUFFERED_CHARS_MAX:
            self._rest = b""
