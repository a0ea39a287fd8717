"""The classic line (module ``autogen``): what its agents hold, taken for a save and put back into fresh agents."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chatsnapshot.adapters.ag2.saving.lines import CLASSIC, PLAIN, describe, runtime_of
from chatsnapshot.adapters.ag2.saving.record import Chat, Content, Key
from chatsnapshot.errors import InvalidEvent

__all__ = [
    "collect",
    "groups_of",
    "named",
    "place",
    "place_talk",
    "relabelled",
    "renamed",
    "set_variables",
    "talk_of",
    "variables_of",
]

Message = dict[str, Any]


def collect(
    agents: Sequence[Any],
    messages: Any = None,
    metadata: Mapping[str, Any] | None = None,
    group: Mapping[str, Any] | None = None,
    variables: Any = None,
) -> Content:
    """What these agents hold now: each one's messages by peer, group chats, context variables.

    ``messages`` is the caller's own list of the talk, a ``ChatResult`` or a ``RunResponse``.
    """
    everyone = _everyone(agents)
    lists: dict[Key, Sequence[Mapping[str, Any]]] = {}
    for agent in everyone:
        seen: dict[str, int] = {}
        for peer, held in list(agent._oai_messages.items()):
            nth = seen.get(peer.name, 0)
            seen[peer.name] = nth + 1
            lists[Key("chat", agent.name, peer.name, nth)] = list(held)
    facts: dict[str, Any] = {}
    for manager in groups_of(everyone):
        chat = manager.groupchat
        lists[Key("group", manager.name)] = list(chat.messages)
        speaker = getattr(manager, "_last_speaker", None)
        facts["group"] = {
            "manager": manager.name,
            "members": [member.name for member in chat.agents],
            "max_round": chat.max_round,
            "last_speaker": getattr(speaker, "name", None),
        }
    if group is not None:
        facts["group"] = dict(group)
    if messages is not None:
        lists[Key("talk")] = talk_of(messages)
    held_variables = variables_of(everyone, variables)
    if held_variables:
        facts["variables"] = held_variables
    return Content(
        line=CLASSIC if everyone else PLAIN,
        runtime=runtime_of(everyone),
        agents=[describe(agent) for agent in everyone],
        lists=lists,
        facts=facts,
        metadata=None if metadata is None else dict(metadata),
    )


def groups_of(agents: Iterable[Any]) -> list[Any]:
    """The group chat managers among agents."""
    return [agent for agent in agents if getattr(agent, "groupchat", None) is not None]


def _everyone(agents: Sequence[Any]) -> list[Any]:
    """The agents and, for managers, the members of their groups; each once, names once."""
    found: dict[int, Any] = {}
    for agent in agents:
        found[id(agent)] = agent
        for member in getattr(getattr(agent, "groupchat", None), "agents", ()):
            if hasattr(member, "_oai_messages"):
                found[id(member)] = member
    named(found.values())
    return list(found.values())


def named(agents: Iterable[Any]) -> dict[str, Any]:
    """Agents by name; raises :class:`InvalidEvent` when two have one name."""
    found: dict[str, Any] = {}
    for agent in agents:
        if agent.name in found and found[agent.name] is not agent:
            raise InvalidEvent(
                f"two of these agents are called {agent.name!r}; give each a name of its own", path="agents"
            )
        found[agent.name] = agent
    return found


def talk_of(messages: Any) -> list[Message]:
    """A list of messages out of what a caller has: a list, a ``ChatResult``, a ``RunResponse``, a ``GroupChat``."""
    for name in ("chat_history", "messages"):
        if not isinstance(messages, (list, tuple)) and hasattr(messages, name):
            messages = getattr(messages, name)
    if isinstance(messages, (str, bytes, Mapping)) or not hasattr(messages, "__iter__"):
        raise InvalidEvent(
            f"messages is a list of messages or a ChatResult, not {type(messages).__name__}", path="messages"
        )
    out = []
    for index, message in enumerate(messages):
        if isinstance(message, str):
            message = {"role": "user", "content": message}
        if not isinstance(message, Mapping):
            raise InvalidEvent(
                f"a message is a mapping with role and content, not {type(message).__name__}",
                path=f"messages[{index}]",
            )
        out.append(dict(message))
    return out


def variables_of(agents: Iterable[Any], given: Any = None) -> list[dict[str, Any]]:
    """Context variables, those shared by several agents once: ``[{"agents": [names], "data": {...}}]``."""
    found: dict[int, dict[str, Any]] = {}
    for agent in agents:
        held = getattr(agent, "context_variables", None)
        data = _data(held)
        if data:
            one = found.setdefault(id(held), {"agents": [], "data": data})
            one["agents"].append(agent.name)
    out = list(found.values())
    data = _data(given)
    if data:
        out = [{"agents": [name for one in out for name in one["agents"]], "data": data}]
    return out


def _data(variables: Any) -> dict[str, Any]:
    if isinstance(variables, Mapping):
        return dict(variables)
    data = getattr(variables, "data", None)
    return dict(data) if isinstance(data, Mapping) else {}


def renamed(chat: Chat, given: Sequence[str], rename: Mapping[str, str] | None) -> dict[str, str]:
    """Saved names to the names of the agents at hand; raises :class:`InvalidEvent` naming both lists."""
    saved = [one["name"] for one in chat.agents]
    names = {name: str((rename or {}).get(name, name)) for name in saved}
    unknown = sorted(set(rename or {}) - set(saved))
    missing = [name for name in saved if names[name] not in given and name not in _MADE_BY_AG2]
    if unknown or missing:
        raise InvalidEvent(
            f"chat {chat.chat_id!r} was saved with agents {', '.join(saved) or '(none)'}, and it is to be restored into "
            f"{', '.join(given) or '(none)'}; give agents of the same names, or rename={{saved name: name}}",
            path="rename" if unknown else "agents",
        )
    return names


_MADE_BY_AG2 = ("_Group_Tool_Executor", "_User", "chat_manager")
"""Agents that AG2 makes for itself in a pattern group; a fresh pattern makes them anew."""


def place(chat: Chat, agents: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Give every agent copies of the lists that it held, and its context variables.

    A message that its author had sent and its peer had not received yet, as a save in between finds it, is received.
    """
    put: dict[tuple[str, str], list[Message]] = {}
    for key in chat.lists:
        if key.kind != "chat":
            continue
        agent, peer = agents.get(names.get(key.of, key.of)), agents.get(names.get(key.peer, key.peer))
        if agent is not None and peer is not None:
            held = relabelled(chat.held(key), names)
            agent._oai_messages[peer] = held
            put[agent.name, peer.name] = held
    for (of, peer), held in put.items():
        others = agents[peer]._oai_messages[agents[of]]
        if len(held) == len(others) + 1 and _bodies(held[:-1]) == _bodies(others):
            last = copy.deepcopy(held[-1])
            if last.get("role") == "assistant":
                others.append({**last, "role": "assistant" if last.get("tool_calls") else "user"})
            elif last.get("role") in ("tool", "function") and last.get("name") in (of, None):
                others.append(last)
    for one in chat.facts.get("variables", ()):
        for name in one["agents"]:
            agent = agents.get(names.get(name, name))
            if agent is not None:
                set_variables(agent, one["data"])


def place_talk(chat: Chat, agents: Mapping[str, Any], names: Mapping[str, str]) -> tuple[Any, Any] | None:
    """Where two agents held nothing when they were saved: give them the caller's own list, each from its side.

    Gives the two, or ``None`` when there is no such list or not two agents. Raises :class:`InvalidEvent` when a message
    does not tell who wrote it; then no agent was touched.
    """
    key = Key("talk")
    if (
        len(agents) != 2
        or not chat.lists.get(key)
        or any(chat.lists[one] for one in chat.lists if one != key)
    ):
        return None
    one, other = agents.values()
    sides: tuple[list[Message], list[Message]] = ([], [])
    for index, message in enumerate(relabelled(chat.held(key), names)):
        author = _author(message, one, other)
        if author is None:
            raise InvalidEvent(
                f"the agents of chat {chat.chat_id!r} held nothing when it was saved, and message {index} of its list "
                f"does not say which of {one.name}, {other.name} wrote it; restore with transcript=True",
                path=f"messages[{index}]",
            )
        for agent, side in zip((one, other), sides, strict=True):
            kept = message.get("tool_calls") or message.get("role") in ("tool", "function")
            role = message.get("role") if kept else "assistant" if agent is author else "user"
            side.append({**copy.deepcopy(message), "role": role})
    one._oai_messages[other], other._oai_messages[one] = sides
    return one, other


def _author(message: Message, one: Any, other: Any) -> Any:
    for agent in (one, other):
        if message.get("name") == agent.name:
            return agent
    calls = [call["function"]["name"] for call in message.get("tool_calls") or () if call.get("function")]
    able = [agent for agent in (one, other) if calls and agent.can_execute_function(calls)]
    if len(able) == 1:
        return other if able[0] is one else one  # the one that has the tool is asked to run it
    return None


def set_variables(holder: Any, data: Mapping[str, Any]) -> None:
    """Make the context variables of an agent or pattern these, in place, so that what shares them sees it."""
    held = getattr(holder, "context_variables", None)
    inner = getattr(held, "data", None)
    if isinstance(inner, dict):
        inner.clear()
        inner.update(copy.deepcopy(dict(data)))


def relabelled(messages: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[Message]:
    """Copies of messages with the names of the agents at hand."""
    out = [copy.deepcopy(dict(message)) for message in messages]
    for message in out:
        name = message.get("name")
        if isinstance(name, str) and name in names:
            message["name"] = names[name]
    return out


def _bodies(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    return [{name: part for name, part in message.items() if name != "role"} for message in messages]
