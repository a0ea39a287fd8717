"""The items of a transcript as one line of chat: every tool call directly before its answer, or no line at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chatsnapshot.events.fields import text_of
from chatsnapshot.projections.shapes import Item, Message, ToolUse

__all__ = ["Torn", "chat_line"]

_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "agent": "assistant",
    "system": "system",
    "developer": "developer",
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")

TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


class Torn(NamedTuple):
    """Why a run is not given."""

    reason: str


NO_ANSWER = Torn("runs with a tool call without an answer")
NO_CALL = Torn("runs with a tool answer without its call")
NO_ROLE = Torn("runs with a message whose role is unknown")
MEDIA = Torn("runs with images, files or other parts that are no text")
SILENT = Torn("runs without a message of an assistant")


class _Group:
    """Tools that were asked for together, after one message of an assistant."""

    def __init__(self, message: dict[str, Any], asked: int | None) -> None:
        self.message = message
        self.asked = asked
        self.tools: list[ToolUse] = []

    def takes(self, tool: ToolUse) -> bool:
        """Whether a tool belongs to the same message: one asked for both, or it was called before any answered."""
        if self.asked is not None or tool.asked_position is not None:
            return self.asked == tool.asked_position
        answered = min(_answered(other) for other in self.tools)
        return tool.call_position is not None and tool.call_position < answered


def chat_line(items: Iterable[Item]) -> dict[str, Any] | Torn:
    """``{"messages": […], "tools": […]}``, or the reason why there is none."""
    made = _Line()
    for item in items:
        problem = made.take(item)
        if problem is not None:
            return problem
    made.close()
    if not any(message["role"] == "assistant" for message in made.messages):
        return SILENT
    line: dict[str, Any] = {"messages": made.messages}
    if made.schemas:
        line["tools"] = [_tool(name, arguments) for name, arguments in made.schemas.items()]
    return line


class _Line:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.schemas: dict[str, dict[str, set[str]]] = {}
        self._group: _Group | None = None
        self._said: tuple[int, dict[str, Any]] | None = None
        self._ids: set[str] = set()

    def take(self, item: Item) -> Torn | None:
        """Add an item; what is neither said nor a tool is no part of a chat."""
        if isinstance(item, Message):
            return self._message(item)
        return self._use(item) if isinstance(item, ToolUse) else None

    def _message(self, item: Message) -> Torn | None:
        role = _ROLES.get(item.role)
        if role is None:
            return NO_CALL if item.role in ("tool", "function") else NO_ROLE
        if item.parts:
            return MEDIA
        if not item.text:
            return None
        self.close()
        message = {"role": role, "content": item.text}
        if item.speaker and role in ("user", "assistant"):
            message["name"] = safe_name(item.speaker)
        self.messages.append(message)
        self._said = (item.position, message) if role == "assistant" else None
        return None

    def _use(self, tool: ToolUse) -> Torn | None:
        if tool.status == "unmatched":
            return NO_CALL
        if tool.status == "open":
            return NO_ANSWER
        if self._group is None or not self._group.takes(tool):
            self.close()
            self._group = self._new_group(tool)
        name, arguments = safe_name(tool.name or "tool"), _arguments(tool.arguments)
        seen = self.schemas.setdefault(name, {})
        for key, value in arguments.items():
            seen.setdefault(key, set()).add(TYPES[type(value)])
        call_id = self._unique(tool)
        self._group.tools.append(tool)
        self._group.message.setdefault("tool_calls", []).append(
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
        )
        return None

    def _new_group(self, tool: ToolUse) -> _Group:
        if self._said is not None and self._said[0] == tool.asked_position:
            return _Group(self._said[1], tool.asked_position)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if tool.speaker:
            message["name"] = safe_name(tool.speaker)
        self.messages.append(message)
        return _Group(message, tool.asked_position)

    def _unique(self, tool: ToolUse) -> str:
        """The id of a call; providers use the same one again."""
        found = tool.call_id or f"call_{tool.position}"
        if found in self._ids:
            found = f"{found}-{tool.position}"
        self._ids.add(found)
        return found

    def close(self) -> None:
        """Put the answers of the tools behind the message that asked for them."""
        group, self._group = self._group, None
        if group is None:
            return
        self._said = None
        for call, tool in zip(group.message["tool_calls"], group.tools, strict=True):
            content = text_of(tool.result) if tool.error is None else f"error: {tool.error}"
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def _answered(tool: ToolUse) -> int:
    return tool.result_position or tool.told_position or 0


def _arguments(value: Any) -> dict[str, Any]:
    """Arguments as an object, which is what a function has."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {"value": value}


def safe_name(name: str) -> str:
    """A name as the form allows it: letters, digits, ``_`` and ``-``, at most 64."""
    return _NOT_IN_NAMES.sub("_", name)[:64] or "_"


def _tool(name: str, arguments: Mapping[str, set[str]]) -> dict[str, Any]:
    """The function as its calls show it; the tool's own schema is not recorded."""
    properties = {
        key: {"type": next(iter(kinds)) if len(kinds) == 1 else sorted(kinds)}
        for key, kinds in arguments.items()
    }
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
    }
