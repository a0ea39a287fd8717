"""A plain transcript put into agents of either line: what was said, without tool calls and their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.ag2.saving import classic
from chatsnapshot.adapters.ag2.saving.opencalls import Results
from chatsnapshot.adapters.ag2.saving.restored import RestoredChat
from chatsnapshot.adapters.ag2.saving.saved import SavedChat
from chatsnapshot.adapters.ag2.saving.streamed import said
from chatsnapshot.adapters.ag2.saving.streams import RestoredStream, RestoredStreams
from chatsnapshot.errors import InvalidEvent

__all__ = ["into_classic", "into_streams"]


def into_classic(saved: SavedChat, agents: list[Any]) -> RestoredChat:
    """Give two classic agents the transcript: the one with a model said what assistants said.

    Raises :class:`InvalidEvent` when these are not two agents of which one has a model, and names do not tell either.
    """
    if len(agents) != 2:
        raise InvalidEvent(
            f"a transcript is restored into two agents, the one with a model and its user, not {len(agents)}",
            path="agents",
        )
    given = classic.named(agents)
    models = [bool(getattr(agent, "llm_config", None)) for agent in agents]
    if models[0] == models[1] and not any(one["name"] in given for one in saved.transcript):
        raise InvalidEvent(
            f"which of {', '.join(given)} is the assistant? give one agent with an llm_config and one without",
            path="agents",
        )
    assistant, user = agents if models[0] >= models[1] else (agents[1], agents[0])
    lists: dict[int, list[dict[str, Any]]] = {id(assistant): [], id(user): []}
    for one in saved.transcript:
        author = given.get(one["name"]) or (assistant if one["role"] == "assistant" else user)
        for agent in agents:
            role = "assistant" if agent is author else "user"
            lists[id(agent)].append({"content": one["content"], "role": role, "name": author.name})
    assistant._oai_messages[user] = lists[id(assistant)]
    user._oai_messages[assistant] = lists[id(user)]
    return RestoredChat(saved, given, (assistant, user), Results(None, None, []))


async def into_streams(saved: SavedChat, agents: Mapping[str, Any]) -> RestoredStreams:
    """Give AG2 1.x agents the transcript, each on a new stream: what it said as its responses, all else as requests."""
    streams = {}
    for name, agent in agents.items():
        streams[name] = RestoredStream(agent, None, {}, said(saved.transcript, agent))
        await streams[name].prepare(Results(None, None, []))
    return RestoredStreams(saved, streams)
