"""Turns as the message lists of providers and of AG2 1.x: roles alternate where they must, no call without a result."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from typing import Any

from chatsnapshot.errors import MissingExtra
from chatsnapshot.projections.context.turns import Said

__all__ = ["ag2", "anthropic", "openai"]

Message = dict[str, Any]


def openai(said: Iterable[Said]) -> list[Message]:
    """Messages of the Chat Completions API: a call stands in ``tool_calls``, a ``tool`` message with its id follows."""
    out: list[Message] = []
    for one in said:
        if one.role == "call":
            function = {"name": one.tool, "arguments": _json(one.arguments)}
            calls = [{"id": one.call_id, "type": "function", "function": function}]
            out.append({"role": "assistant", "content": one.text, "tool_calls": calls})
        elif one.role == "result":
            out.append({"role": "tool", "tool_call_id": one.call_id, "content": one.text})
        else:
            out.append({"role": "system" if one.role == "own" else one.role, "content": one.text})
    return out


def anthropic(said: Iterable[Said]) -> list[Message]:
    """Messages of the Messages API: roles alternate from ``user`` on, a result comes right after its call."""
    out: list[Message] = []
    for one in said:
        block: Message = {"type": "text", "text": one.text}
        role = "assistant" if one.role in ("assistant", "call") else "user"
        blocks = [block]
        if one.role == "call":
            use = {"type": "tool_use", "id": one.call_id, "name": one.tool, "input": dict(one.arguments)}
            blocks.append(use)
        elif one.role == "result":
            result = {"type": "tool_result", "tool_use_id": one.call_id, "content": one.text}
            blocks = [result | {"is_error": True} if one.failed else result]
        if out and out[-1]["role"] == role:
            out[-1]["content"] += blocks
        else:
            out.append({"role": role, "content": blocks})
    return out


def ag2(said: Iterable[Said]) -> list[Any]:
    """Events of AG2 1.x (or ``autogen.beta``) for a stream's history: requests, responses, results of tools.

    Raises :class:`MissingExtra` when neither is installed.
    """
    events = _events()
    out: list[Any] = []
    for one in said:
        if one.role == "call":
            call = events.ToolCallEvent(one.tool, id=one.call_id, arguments=_json(one.arguments))
            message = events.ModelMessage(one.text)
            out.append(events.ModelResponse(message, tool_calls=events.ToolCallsEvent([call])))
        elif one.role == "result":
            called = out[-1].tool_calls.calls[0]
            out.append(events.ToolResultsEvent([events.ToolResultEvent.from_call(called, one.text)]))
        elif one.role == "assistant":
            out.append(events.ModelResponse(events.ModelMessage(one.text)))
        else:
            out.append(events.ModelRequest([events.TextInput(one.text)]))
    return out


def _events() -> Any:
    for root in ("ag2", "autogen.beta"):
        try:
            return importlib.import_module(f"{root}.events")
        except ImportError:
            continue
    raise MissingExtra("the context format 'ag2'", "ag2")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
