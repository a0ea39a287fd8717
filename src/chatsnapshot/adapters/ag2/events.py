"""``map_event`` and ``normalize``: an event of either AG2 line to its event type and payload."""

from __future__ import annotations

import re
from typing import Any

from chatsnapshot.adapters.ag2 import classic, streamed
from chatsnapshot.adapters.plain import plain, type_name

__all__ = ["map_event", "normalize"]

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSAFE = re.compile(r"[^a-z0-9_]+")


def map_event(event: Any) -> str:
    """The event type of an AG2 event; never raises and never None.

    Takes the events of the classic line (``agent.run_iter(...)``, ``agent.run(...).events``) and of AG2
    1.x. An event without a place in the catalogue gives ``ag2.<type>``.
    """
    try:
        line = _line(event)
        found = line.place(event) if line else None
    except Exception:
        found = None
    return found[0] if found else f"ag2.{_own_type(event)}"


def normalize(event: Any) -> dict[str, Any]:
    """The payload of an AG2 event as plain data; never raises and holds no live objects.

    What the catalogue has keys for stands at the top; ``native`` holds the event as AG2 has it:
    ``{"type": ..., "data": {...}}``, with agents, callables and exceptions described by name.
    """
    line: Any = None
    payload: dict[str, Any] = {}
    try:
        line = _line(event)
        found = line.place(event) if line else None
        payload = plain(found[1](event)) if found else {}
    except Exception:
        pass  # an event of another shape than its class promises: its native form tells what there is
    payload = {key: value for key, value in payload.items() if value is not None}
    try:
        payload["native"] = line.native(event) if line else _native(event)
    except Exception:
        payload["native"] = _native(event)
    return payload


def _line(event: Any) -> Any:
    """The module that knows the line this event is from; ``None`` for anything else."""
    if streamed.is_event(event):
        return streamed
    if isinstance(getattr(event, "type", None), str) and hasattr(event, "content"):
        return classic
    return None


def _own_type(event: Any) -> str:
    name = getattr(event, "type", None)
    if not isinstance(name, str) or streamed.is_event(event):
        # What could not be imported when it was read still knows its name.
        known = getattr(event, "type_name", None)
        name = known.rpartition(".")[2] if isinstance(known, str) else type(event).__name__
        name = name.removesuffix("Event") or name
    return _UNSAFE.sub("_", _HUMP.sub("_", name).lower()).strip("_") or "event"


def _native(event: Any) -> dict[str, Any]:
    return {"type": type_name(event), "data": plain(event)}
