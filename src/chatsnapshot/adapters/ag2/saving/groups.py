"""Group chats of the classic line: ``GroupChat`` with its manager, and pattern groups with context variables."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.ag2.saving.classic import named, place, relabelled, renamed, set_variables
from chatsnapshot.adapters.ag2.saving.opencalls import (
    OpenCall,
    Results,
    only,
    open_calls,
    tool_message,
    unanswered,
)
from chatsnapshot.adapters.ag2.saving.record import main_key
from chatsnapshot.adapters.ag2.saving.saved import SavedChat
from chatsnapshot.errors import InvalidEvent

__all__ = [
    "RestoredGroup",
    "facts_of_pattern",
    "is_pattern",
    "manager_of",
    "members_of",
    "restore_group",
    "with_authors",
]

Message = dict[str, Any]
_EXECUTOR = "_Group_Tool_Executor"


def is_pattern(group: Any) -> bool:
    """Whether this is a pattern (``DefaultPattern``, ``AutoPattern`` …), from which AG2 makes a group for each run."""
    return hasattr(group, "initial_agent") and hasattr(group, "prepare_group_chat")


def manager_of(group: Any, manager: Any = None) -> Any:
    """The manager of a ``GroupChatManager``, of a pattern that ran, or the one given; else ``None``."""
    if manager is not None:
        return manager
    if getattr(group, "groupchat", None) is not None:
        return group
    if is_pattern(group):
        return getattr(group.agents[0], "_group_manager", None) if group.agents else None
    return None


def members_of(group: Any) -> list[Any]:
    """The agents that a group chat, manager or pattern is made of."""
    if is_pattern(group):
        user = getattr(group, "user_agent", None)
        return [*group.agents, *([user] if user is not None else [])]
    chat = getattr(group, "groupchat", None) or group
    agents = getattr(chat, "agents", None)
    if not isinstance(agents, (list, tuple)):
        raise InvalidEvent(
            f"a group is a GroupChat, a GroupChatManager or a pattern, not {type(group).__name__}",
            path="group",
        )
    return list(agents)


def facts_of_pattern(pattern: Any, messages: list[Message], last_speaker: Any) -> dict[str, Any]:
    """What a pattern group needs to go on: who may speak, and who spoke last."""
    speaker = getattr(last_speaker, "name", last_speaker)
    return {
        "manager": None,
        "members": [agent.name for agent in members_of(pattern)],
        "last_speaker": speaker or _last_speaker(messages, [agent.name for agent in pattern.agents]),
    }


def with_authors(messages: list[Message], manager: Any) -> list[Message]:
    """The talk with the authors of tool calls: an agent's own list does not name it, the group's does."""
    named_calls = {
        call.get("id"): message["name"]
        for message in getattr(getattr(manager, "groupchat", None), "messages", ())
        for call in message.get("tool_calls") or ()
        if message.get("name")
    }
    out = []
    for message in messages:
        calls = message.get("tool_calls") or ()
        author = named_calls.get(calls[0].get("id")) if calls and not message.get("name") else None
        out.append({**message, "name": author} if author else message)
    return out


class RestoredGroup:
    """A group chat that holds a saved talk again.

    ``messages`` is the talk, each message with the name of its author, with open tool calls answered where their
    results are on record. For a pattern, ``pattern.initial_agent`` is now the last speaker and its context variables are
    those that were saved: ``run_group_chat(pattern=pattern, messages=restored.messages + [{"role": "user", "name": ...,
    "content": ...}])``. For a ``GroupChatManager``: ``agent.initiate_chat(manager, message=..., clear_history=False)``,
    or :meth:`resume`.
    """

    def __init__(
        self, saved: SavedChat, group: Any, messages: list[Message], last_agent: Any, results: Results
    ) -> None:
        self.saved = saved
        self.chat_id = saved.chat_id
        self.position = saved.position
        self.metadata = saved.metadata
        self.context_variables = saved.context_variables
        self.group = group
        self.messages = messages
        self.last_agent = last_agent
        self._results = results
        self.open_calls: list[OpenCall] = unanswered(open_calls(messages), results)

    @property
    def last_message(self) -> Message | None:
        """The last message, or ``None``."""
        return self.messages[-1] if self.messages else None

    def resume(self, **options: Any) -> Any:
        """Go on from where the group stopped: its last message is sent again by its author. Gives AG2's ``ChatResult``.

        ``options`` are those of ``initiate_chat``. For a manager only; a pattern goes on with ``run_group_chat``.
        """
        manager, executor = self._manager(), self._partly()
        if executor is not None:
            rest = only(self.messages[-1], self.open_calls)
            _, made = executor.generate_tool_calls_reply(messages=[rest], sender=manager)
            self._complete(executor, made)
        last_agent, message = manager.resume(self._again(), silent=True)
        return last_agent.initiate_chat(manager, message=message, **{"clear_history": False, **options})

    async def aresume(self, **options: Any) -> Any:
        """As :meth:`resume`, for groups with async tools or replies."""
        manager, executor = self._manager(), self._partly()
        if executor is not None:
            rest = only(self.messages[-1], self.open_calls)
            _, made = await executor.a_generate_tool_calls_reply(messages=[rest], sender=manager)
            self._complete(executor, made)
        last_agent, message = await manager.a_resume(self._again(), silent=True)
        return await last_agent.a_initiate_chat(
            manager, message=message, **{"clear_history": False, **options}
        )

    def _partly(self) -> Any:
        """The agent that runs the open tool calls, where others of that message are on record; else ``None``."""
        calls = open_calls(self.messages)
        if not self.open_calls or len(self.open_calls) == len(calls):
            return None
        name = _executor(self.group, members_of(self.group), calls)
        return next(agent for agent in members_of(self.group) if agent.name == name)

    def _complete(self, executor: Any, made: Message | None) -> None:
        self.messages.append(tool_message(open_calls(self.messages), self._results, executor.name, made))
        self.open_calls = []

    def _again(self) -> list[Message]:
        """The talk as AG2's own resume takes it; the text "None" that it made of an empty content is empty again."""
        if not self.messages:
            raise InvalidEvent(f"chat {self.chat_id!r} holds no message to go on with")
        messages = copy.deepcopy(self.messages)
        for message in messages:
            if message.get("tool_calls") and message.get("content") == "None":
                message["content"] = None
        return messages

    def _manager(self) -> Any:
        manager = None if is_pattern(self.group) else manager_of(self.group)
        if manager is None:
            raise InvalidEvent(
                "only a GroupChatManager is resumed here; give a pattern and restored.messages to run_group_chat, and "
                "for a GroupChat its manager to restore_groupchat"
            )
        return manager


def restore_group(
    saved: SavedChat, group: Any, manager: Any, rename: Mapping[str, str] | None, results: Results
) -> RestoredGroup:
    """Put a saved group talk into fresh agents, their group chat and manager, or a fresh pattern."""
    members = members_of(group)
    boss = manager if manager is not None else getattr(group, "groupchat", None) and group
    agents = named([*members, *([boss] if boss is not None else [])])
    names = renamed(saved.chat, list(agents), _with_manager(saved, boss, rename))
    lists = saved.chat.lists
    # The group's own list names every author; the caller's may be what one of the agents sees.
    key = main_key({key: lists[key] for key in lists if key.kind == "group"}) or main_key(
        {key: lists[key] for key in lists if key.kind == "talk"}
    )
    if key is None:
        raise InvalidEvent(
            f"chat {saved.chat_id!r} holds no group chat; restore it with restore_conversation"
        )
    messages = relabelled(saved.chat.held(key), names)
    calls = open_calls(messages)
    response: Message | None = None
    if calls and not unanswered(calls, results):
        response = tool_message(calls, results, _executor(group, members, calls))
    speaker = names.get(_speaker(saved, messages, names, members), "")
    if is_pattern(group):
        for message in messages:
            if message.get("name") == "_User":
                del message["name"]
        if speaker in agents and agents[speaker] in group.agents:
            group.initial_agent = agents[speaker]
        set_variables(group, saved.context_variables)
    else:
        place(saved.chat, agents, names)
        chat = getattr(group, "groupchat", None) or group
        chat.messages[:] = copy.deepcopy(messages)
    if response is not None:
        messages.append(response)
        if not is_pattern(group) and boss is not None:
            _receive(boss, members, response)
    whole = boss if boss is not None else group
    return RestoredGroup(saved, whole, messages, agents.get(speaker), results)


def _with_manager(saved: SavedChat, boss: Any, rename: Mapping[str, str] | None) -> dict[str, str]:
    """The manager is known by its part in the group, not by its name: AG2 calls every one chat_manager."""
    names = dict(rename or {})
    was = (saved.chat.facts.get("group") or {}).get("manager")
    if was and boss is not None:
        names.setdefault(was, boss.name)
    return names


def _speaker(saved: SavedChat, messages: list[Message], names: Mapping[str, str], members: list[Any]) -> str:
    """The saved name of the agent that spoke last."""
    back = {now: was for was, now in names.items()}
    told = (saved.chat.facts.get("group") or {}).get("last_speaker")
    found = _last_speaker(messages, [agent.name for agent in members])
    if isinstance(told, str) and told in names and told != _EXECUTOR:
        return told
    return back.get(found or "", "")


def _last_speaker(messages: list[Message], names: list[str]) -> str | None:
    return next((message["name"] for message in reversed(messages) if message.get("name") in names), None)


def _executor(group: Any, members: list[Any], calls: list[OpenCall]) -> str:
    """Who runs the tools: AG2's own executor in a pattern, else the member that has them."""
    if is_pattern(group):
        return _EXECUTOR
    wanted = [call.name for call in calls]
    able = (agent for agent in members if getattr(agent, "can_execute_function", None))
    return str(next((agent.name for agent in able if agent.can_execute_function(wanted)), members[0].name))


def _receive(manager: Any, members: list[Any], message: Message) -> None:
    """Let manager, group chat and all members hold a message as if its author had sent it to the group."""
    for agent in members:
        for holder, peer in ((agent, manager), (manager, agent)):
            if hasattr(holder, "_oai_messages"):
                holder._oai_messages[peer].append(copy.deepcopy(message))
    manager.groupchat.messages.append(copy.deepcopy(message))
