"""``SavedChat``: a chat as it was saved, read and checked."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from chatsnapshot.adapters.ag2.saving.lines import STREAMED
from chatsnapshot.adapters.ag2.saving.record import Chat, main_key
from chatsnapshot.errors import Corrupt

__all__ = ["SavedChat", "saved_of", "transcript_of"]


@dataclass(frozen=True)
class SavedChat:
    """A chat as of one save; every entry that it is made of was checked against its hash.

    ``messages`` is the talk: the list that the caller gave, else the group's, else the longest that an agent holds; for
    the 1.x line the events of the first agent as ``{"type", "data"}``. ``transcript`` is the same as ``{"role",
    "content", "name"}``, for either line. ``agents`` hold name, class, description and model names. ``position`` names
    the save in the ledger; ``saves`` is its number in this chat.
    """

    chat_id: str
    position: int
    saves: int
    saved_at: str
    line: str
    runtime: str
    agents: list[dict[str, Any]]
    metadata: dict[str, Any]
    messages: list[dict[str, Any]]
    transcript: list[dict[str, Any]]
    context_variables: dict[str, Any]
    chat: Chat = field(repr=False)


def saved_of(chat: Chat) -> SavedChat:
    """What users hold of a chat: copies, so that nothing of it can be changed by accident."""
    entry = chat.entry
    if entry is None:
        raise Corrupt(f"chat {chat.chat_id!r} holds no save")
    key = main_key(chat.lists)
    messages = [] if key is None else copy.deepcopy(chat.held(key))
    variables = chat.facts.get("variables", ())
    return SavedChat(
        chat_id=chat.chat_id,
        position=entry.position,
        saves=chat.saves,
        saved_at=entry.recorded_at,
        line=chat.line,
        runtime=chat.runtime,
        agents=copy.deepcopy(chat.agents),
        metadata=copy.deepcopy(chat.metadata),
        messages=messages,
        transcript=transcript_of(messages, chat.line),
        context_variables=copy.deepcopy(dict(variables[0]["data"])) if variables else {},
        chat=chat,
    )


def transcript_of(messages: list[dict[str, Any]], line: str) -> list[dict[str, Any]]:
    """Who said what, in text alone: no tool calls, no results, nothing that a model has to pair up."""
    out = []
    for message in messages:
        if line == STREAMED:
            one = _said(message.get("type", ""), message.get("data") or {})
        else:
            one = {
                "role": message.get("role", "user"),
                "content": _text(message.get("content")),
                "name": message.get("name"),
            }
            if message.get("tool_calls") or message.get("role") in ("tool", "function"):
                continue
        if one is not None and one["content"]:
            out.append(one)
    return out


def _said(kind: str, data: dict[str, Any]) -> dict[str, Any] | None:
    name = kind.rpartition(".")[2]
    if name in ("ModelRequest", "DrainedModelRequest"):
        parts = [part.get("content") for part in data.get("parts", ()) if isinstance(part, dict)]
        return {
            "role": "user",
            "content": "\n".join(part for part in parts if isinstance(part, str)),
            "name": None,
        }
    if name == "ModelResponse" and isinstance(data.get("message"), dict):
        return {"role": "assistant", "content": _text(data["message"].get("content")), "name": None}
    return None


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(
            part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else ""
