"""AG2 1.x: the events of a stream, taken for a save and built again; no class is loaded that was not allowed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chatsnapshot.adapters.ag2.saving.lines import STREAMED, describe, root_of, runtime_of
from chatsnapshot.adapters.ag2.saving.record import Content, Key
from chatsnapshot.adapters.ag2.streamed import is_transient, native
from chatsnapshot.adapters.plain import type_name
from chatsnapshot.errors import InvalidEvent

__all__ = ["build", "collect", "said"]

_ROOTS = ("ag2", "autogen.beta")
_NAMED = ("__event__", "__dataclass__", "__pydantic__", "__enum__")


async def collect(
    agents: Sequence[Any],
    messages: Any,
    metadata: Mapping[str, Any] | None,
    variables: Mapping[str, Any] | None,
) -> Content:
    """What the streams of these agents hold now.

    ``messages`` is a reply, a stream, a history or a list of events; for several agents a mapping from name to those.
    """
    names = [agent.name for agent in agents]
    sources = _sources(names, messages)
    lists: dict[Key, Sequence[Mapping[str, Any]]] = {}
    facts: dict[str, Any] = {"streams": {}}
    for name, source in sources.items():
        events, stream_id, found = await _events_of(source)
        lists[Key("stream", name)] = [_stored(event) for event in events if not is_transient(event)]
        facts["streams"][name] = {
            "stream_id": stream_id,
            "variables": dict(variables) if variables is not None else found,
        }
    return Content(
        line=STREAMED,
        runtime=runtime_of(agents),
        agents=[describe(agent) for agent in agents],
        lists=lists,
        facts=facts,
        metadata=None if metadata is None else dict(metadata),
    )


def _sources(names: list[str], messages: Any) -> dict[str, Any]:
    if messages is None:
        raise InvalidEvent(
            "an agent of AG2 1.x holds no conversation itself; give messages=reply, its stream, or its events",
            path="messages",
        )
    if isinstance(messages, Mapping):
        unknown = sorted(set(messages) - set(names))
        if unknown:
            raise InvalidEvent(
                f"messages are given for {', '.join(unknown)}, and the agents are {', '.join(names)}",
                path="messages",
            )
        return {str(name): source for name, source in messages.items()}
    if len(names) != 1:
        raise InvalidEvent(
            f"say whose messages these are: messages={{name: reply}} for {', '.join(names)}", path="messages"
        )
    return {names[0]: messages}


async def _events_of(source: Any) -> tuple[list[Any], str | None, dict[str, Any]]:
    """Events, stream id and variables of a reply, a stream, a history or a list of events."""
    if isinstance(source, (list, tuple)):
        return list(source), None, {}
    context = getattr(source, "context", None)
    history = getattr(source, "history", source)
    if not hasattr(history, "get_events"):
        raise InvalidEvent(
            f"messages of an AG2 1.x agent are a reply, a stream or a list of events, not {type(source).__name__}",
            path="messages",
        )
    stream_id = getattr(history, "stream_id", None) or getattr(source, "id", None)
    variables = getattr(context, "variables", None)
    return (
        list(await history.get_events()),
        None if stream_id is None else str(stream_id),
        dict(variables) if isinstance(variables, Mapping) else {},
    )


def _stored(event: Any) -> dict[str, Any]:
    try:
        data = event.to_dict()
    except Exception:
        return native(event)
    return {"type": type_name(event), "data": data}


def build(stored: Iterable[Mapping[str, Any]], agent: Any, trusted: Sequence[str] = ()) -> list[Any]:
    """The events of a stream, as objects of the package that ``agent`` comes from.

    Classes are loaded from that package and from modules in ``trusted`` only: a name in the data is no reason to import
    code. Other events become AG2's ``UnknownEvent``; other values plain data.
    """
    root = root_of(agent)
    serialization = importlib.import_module(f"{root}.events._serialization")
    unknown = getattr(importlib.import_module(f"{root}.events"), "UnknownEvent", None)
    allowed = (root, *trusted)
    out = []
    for one in stored:
        name = _at_root(str(one.get("type", "")), root)
        data = _harmless(one.get("data") or {}, root, allowed)
        kind = serialization.import_event_class(name) if _is_allowed(name, allowed) else None
        if kind is not None:
            out.append(kind.from_dict(data))
        elif unknown is not None:
            out.append(unknown(type_name=name, data=data))
    return out


def said(transcript: Iterable[Mapping[str, Any]], agent: Any) -> list[Any]:
    """A plain transcript as events: what the agent said as responses, all else as requests, named where it has names."""
    events = importlib.import_module(f"{root_of(agent)}.events")
    names = {message.get("name") for message in transcript} - {None}
    out = []
    for message in transcript:
        mine = message.get("name") == agent.name if agent.name in names else message["role"] == "assistant"
        if mine:
            out.append(events.ModelResponse(message=events.ModelMessage(message["content"])))
            continue
        several = len(names - {agent.name}) > 1 and message.get("name")
        text = f"{message['name']}: {message['content']}" if several else message["content"]
        out.append(events.ModelRequest([events.TextInput(text)]))
    return out


def _at_root(name: str, root: str) -> str:
    """A class of either package under the name that it has in this one."""
    for other in _ROOTS:
        if other != root and name.startswith(f"{other}."):
            return f"{root}{name[len(other) :]}"
    return name


def _is_allowed(name: str, allowed: Sequence[str]) -> bool:
    return any(name.startswith(f"{module}.") for module in allowed)


def _harmless(value: Any, root: str, allowed: Sequence[str]) -> Any:
    """The data without names of classes that may not be loaded."""
    if isinstance(value, (list, tuple)):
        return [_harmless(one, root, allowed) for one in value]
    if not isinstance(value, Mapping):
        return value
    out = {key: _harmless(one, root, allowed) for key, one in value.items()}
    for tag in _NAMED:
        if tag not in out:
            continue
        name = _at_root(str(out[tag]), root)
        if _is_allowed(name, allowed):
            out[tag] = name
        elif tag == "__event__":
            out.pop(tag)
        else:
            return out.get("value" if tag == "__enum__" else "data")
    return out
