"""``RestoredChat``: classic agents that hold a saved talk again, and how they go on with it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from chatsnapshot.adapters.ag2.saving.opencalls import (
    OpenCall,
    Results,
    only,
    open_calls,
    tool_message,
    unanswered,
)
from chatsnapshot.adapters.ag2.saving.record import Chat
from chatsnapshot.adapters.ag2.saving.saved import SavedChat
from chatsnapshot.errors import InvalidEvent

__all__ = ["RestoredChat", "liveliest"]

Message = dict[str, Any]


class RestoredChat:
    """Two or more agents of the classic line that hold a saved talk again.

    ``messages`` is the talk with the last open tool call answered where its result is on record; ``last_agent`` wrote
    its last message; ``open_calls`` are tool calls whose results are on no record. ``pair`` are the two agents that
    spoke last with each other, the author of the last message first.

    A new message: ``user.initiate_chat(assistant, message=..., clear_history=False)``; AG2's own ``clear_history=True``
    would throw away what was restored. From where the talk stopped: :meth:`resume`.
    """

    def __init__(
        self, saved: SavedChat, agents: dict[str, Any], pair: tuple[Any, Any] | None, results: Results
    ) -> None:
        self.saved = saved
        self.chat_id = saved.chat_id
        self.position = saved.position
        self.metadata = saved.metadata
        self.agents = agents
        self.open_calls: list[OpenCall] = []
        self.messages: list[Message] = []
        self._results = results
        self.pair = None if pair is None else _authored(*pair)
        if self.pair is not None:
            self._answer()
            self.messages = copy.deepcopy(self.pair[0]._oai_messages[self.pair[1]])

    @property
    def last_agent(self) -> Any:
        """The agent that wrote the last message, or ``None``."""
        return self.pair[0] if self.pair else None

    @property
    def last_message(self) -> Message | None:
        """The last message, or ``None``."""
        return self.messages[-1] if self.messages else None

    def _answer(self) -> None:
        """Answer open tool calls from the record when all of them are there; the others stay open."""
        author, executor = self._two()
        calls = open_calls(author._oai_messages[executor])
        self.open_calls = unanswered(calls, self._results)
        if calls and not self.open_calls:
            message = tool_message(calls, self._results, executor.name)
            for agent, peer in ((author, executor), (executor, author)):
                agent._oai_messages[peer].append(copy.deepcopy(message))
            self.pair = (executor, author)

    def close_open_calls(self, text: str) -> None:
        """Answer what is open with a text of yours, so that the talk can go on without running the tools."""
        if self.pair is None:
            return
        self._results.explicit.update({call.call_id: text for call in self.open_calls})
        self.open_calls = []
        self._answer()
        self.messages = copy.deepcopy(self.pair[0]._oai_messages[self.pair[1]])

    def resume(self) -> list[Message]:
        """Go on from where the talk stopped: the agent that owes a reply gives it. Gives the whole talk.

        Open tool calls are executed, those on record are not; a person whose turn it is is asked. Raises
        :class:`InvalidEvent` when there is no talk of two agents to go on with.
        """
        author, other, rest = self._prepared()
        if rest is not None:
            _, made = other.generate_tool_calls_reply(messages=[rest], sender=author)
            reply = self._completed(made)
        else:
            reply = other.generate_reply(messages=other._oai_messages[author], sender=author)
        if reply is not None:
            other.send(reply, author)
        return self._went_on()

    async def aresume(self) -> list[Message]:
        """As :meth:`resume`, for agents with async tools or replies."""
        author, other, rest = self._prepared()
        if rest is not None:
            _, made = await other.a_generate_tool_calls_reply(messages=[rest], sender=author)
            reply = self._completed(made)
        else:
            reply = await other.a_generate_reply(messages=other._oai_messages[author], sender=author)
        if reply is not None:
            await other.a_send(reply, author)
        return self._went_on()

    def _prepared(self) -> tuple[Any, Any, Message | None]:
        """Who wrote last, who owes a reply, and the tool calls to run where only some of them are on record."""
        author, other = self._two()
        other._prepare_chat(author, clear_history=False)
        held = other._oai_messages[author]
        partly = self.open_calls and len(self.open_calls) < len(open_calls(held))
        return author, other, only(held[-1], self.open_calls) if partly else None

    def _completed(self, made: Message | None) -> Message:
        author, other = self._two()
        return tool_message(open_calls(other._oai_messages[author]), self._results, other.name, made)

    def _two(self) -> tuple[Any, Any]:
        if self.pair is None:
            raise InvalidEvent(
                f"chat {self.chat_id!r} holds no talk between two of {', '.join(self.agents) or 'no agents'}"
            )
        return self.pair

    def _went_on(self) -> list[Message]:
        author, other = self._two()
        self.open_calls = []
        self.pair = _authored(author, other)
        self.messages = copy.deepcopy(author._oai_messages[other])
        return self.messages


def liveliest(chat: Chat, agents: dict[str, Any], names: dict[str, str]) -> tuple[Any, Any] | None:
    """The pair that the talk is between: that of the longest list; the order of agents decides between equals."""
    order = list(agents)
    keys = [
        key
        for key in chat.lists
        if key.kind == "chat"
        and chat.lists[key]
        and names.get(key.of, key.of) in agents
        and names.get(key.peer, key.peer) in agents
    ]
    key = min(
        keys,
        key=lambda key: (-len(chat.lists[key]), order.index(names.get(key.of, key.of))),
        default=None,
    )
    return None if key is None else (agents[names.get(key.of, key.of)], agents[names.get(key.peer, key.peer)])


def _authored(one: Any, other: Any) -> tuple[Any, Any]:
    """The two agents, the author of the last message first."""
    held = one._oai_messages[other]
    return (one, other) if _wrote(one, other, held) else (other, one)


def _wrote(one: Any, other: Any, held: Sequence[Message]) -> bool:
    """Whether ``one`` wrote the last message of its list; tool calls carry no name and look alike on both sides."""
    if not held:
        return True
    last = held[-1]
    if last.get("tool_calls") or last.get("function_call"):
        asked = [call["function"]["name"] for call in last.get("tool_calls", ()) if call.get("function")]
        asked = asked or [last["function_call"].get("name")]
        able = [agent.can_execute_function(asked) for agent in (one, other)]
        if able[0] != able[1]:
            return bool(able[1])
        return not _wrote(one, other, held[:-1]) if len(held) > 1 else False
    if last.get("role") in ("tool", "function"):
        if last.get("name") in (one.name, other.name):
            return bool(last["name"] == one.name)
        return not _wrote(one, other, held[:-1]) if len(held) > 1 else True
    return last.get("role") == "assistant"
