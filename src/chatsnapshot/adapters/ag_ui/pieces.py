"""Messages, reasoning and tool calls out of their pieces: started, continued and ended, or in chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.payloads import arguments_of, reasoning, text

__all__ = ["Pieces"]

_TEXT, _TOOL, _THOUGHT = "TEXT_MESSAGE", "TOOL_CALL", "REASONING_MESSAGE"
_ENDINGS = ("_START", "_CONTENT", "_ARGS", "_END", "_CHUNK")
_IDS = {_TEXT: "messageId", _THOUGHT: "messageId", _TOOL: "toolCallId"}
_PIECES = {what + ending: (what, ending) for what in _IDS for ending in _ENDINGS}
"""The types that are pieces: ``{"TEXT_MESSAGE_CONTENT": ("TEXT_MESSAGE", "_CONTENT"), …}``."""


class Pieces:
    """What is being put together in one run. What is whole is given as ``{"what": "message" | "call", "id": …}``."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], dict[str, Any]] = {}
        self._chunked: tuple[str, str] | None = None
        """What was begun by a chunk: it ends when anything else comes."""

    @staticmethod
    def takes(kind: str) -> bool:
        """Whether an event of this type is a piece."""
        return kind in _PIECES

    def before(self, kind: str, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What is over because an event of this type comes."""
        if self._chunked is None:
            return []
        found = _PIECES.get(kind)
        if found is not None and found[1] == "_CHUNK" and found[0] == self._chunked[0]:
            named = event.get(_IDS[found[0]])
            if named is None or str(named) == self._chunked[1]:
                return []
        return self._close(self._chunked, event)

    def take(self, kind: str, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Add a piece; gives what is whole with it, or because it comes."""
        whole = [] if self._chunked is None else self.before(kind, event)
        what, ending = _PIECES[kind]
        named = event.get(_IDS[what])
        key = self._chunked if named is None and self._chunked is not None else (what, str(named))
        if ending == "_END":
            return whole + self._close(key, event)
        piece = self._open.get(key)
        if piece is None:
            piece = self._open[key] = _begun(what, key[1], event)
        if ending == "_CHUNK":
            self._chunked = key
            piece["name"] = piece["name"] or event.get("toolCallName") or event.get("name")
        piece["text"] += str(event.get("delta") or "")
        return whole

    def rest(self) -> list[dict[str, Any]]:
        """What never ended."""
        return [whole for key in list(self._open) for whole in self._close(key, {})]

    def _close(self, key: tuple[str, str], event: Mapping[str, Any]) -> list[dict[str, Any]]:
        if key == self._chunked:
            self._chunked = None
        piece = self._open.pop(key, None)
        if piece is None:
            return []
        content = piece.pop("text")
        if key[0] == _TOOL:
            return [{**piece, "what": "call", "arguments": arguments_of(content)}]
        part = reasoning(content) if key[0] == _THOUGHT else text(content)
        return [{**piece, "what": "message", "parts": [part] if content else []}]


def _begun(what: str, known: str, event: Mapping[str, Any]) -> dict[str, Any]:
    role = str(event.get("role") or "assistant")
    return {
        "id": known,
        "name": event.get("toolCallName") if what == _TOOL else event.get("name"),
        "role": role
        if role in ("user", "system", "tool")
        else "system"
        if role == "developer"
        else "assistant",
        "parent": event.get("parentMessageId"),
        "subagentRunId": event.get("subagentRunId"),
        "timestamp": event.get("timestamp"),
        "text": "",
    }
