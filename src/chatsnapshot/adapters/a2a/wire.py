"""What A2A says on the wire (protocol 1.0, and 0.3), as the values that are recorded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain

__all__ = ["as_wire", "kind_of", "parts_of", "role_of", "state_of", "text_of"]

_KINDS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
    "status_update": "status-update",
    "artifact_update": "artifact-update",
}


def as_wire(message: Any) -> Any:
    """A message of ``a2a`` (protobuf) as its JSON; anything else as plain values."""
    if hasattr(message, "DESCRIPTOR"):
        return importlib.import_module("google.protobuf.json_format").MessageToDict(message)
    return plain(message)


def kind_of(wire: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """What an event or answer is, and its body: ``task``, ``message``, ``status-update`` or ``artifact-update``.

    In protocol 1.0 the one member tells it, in 0.3 the member ``kind``.
    """
    for member, kind in _KINDS.items():
        if isinstance(body := wire.get(member), Mapping) and (member != "message" or "status" not in wire):
            return kind, body
    told = wire.get("kind")
    if told in _KINDS.values():
        return str(told), wire
    if "artifact" in wire and "taskId" in wire:
        return "artifact-update", wire
    if "status" in wire and "taskId" in wire:
        return "status-update", wire
    if "status" in wire and "id" in wire:
        return "task", wire
    return ("message", wire) if "parts" in wire and "role" in wire else (None, wire)


def state_of(wire: Mapping[str, Any]) -> str | None:
    """The state of a task or status as one word of protocol 0.3: ``input-required`` for ``TASK_STATE_INPUT_REQUIRED``."""
    status = wire.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    if not isinstance(state, str):
        return None
    return state.removeprefix("TASK_STATE_").replace("_", "-").lower()


def role_of(message: Mapping[str, Any]) -> str:
    """``user`` or ``assistant``, which A2A calls the agent."""
    role = str(message.get("role") or "").removeprefix("ROLE_").lower()
    return "user" if role == "user" else "assistant"


def parts_of(wire: Any) -> list[dict[str, Any]]:
    """The parts of a message or an artifact by the names that every adapter uses."""
    parts = wire.get("parts") if isinstance(wire, Mapping) else None
    return [_part(part) for part in parts or () if isinstance(part, Mapping)]


def text_of(wire: Any) -> str | None:
    """The text of a message or an artifact; ``None`` where it has none."""
    texts = [str(part["content"]) for part in parts_of(wire) if part["type"] == "text"]
    return "\n".join(texts) or None


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        return text(part["text"])
    file = part.get("file") if isinstance(part.get("file"), Mapping) else None
    held: Mapping[str, Any] = file or part
    known = {
        "mime_type": held.get("mediaType") or held.get("mimeType"),
        "name": held.get("filename") or held.get("name"),
    }
    facts = {key: value for key, value in known.items() if value}
    if (raw := held.get("raw") or held.get("fileWithBytes") or held.get("bytes")) is not None:
        return {"type": "blob", "content": raw, **facts}
    if (uri := held.get("url") or held.get("fileWithUri") or held.get("uri")) is not None:
        return {"type": "uri", "uri": uri, **facts}
    if "data" in part:
        return {"type": "data", "content": part["data"], **facts}
    return {"type": str(part.get("kind") or "unknown"), "content": dict(part)}
