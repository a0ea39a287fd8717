"""Which tool call began which sub-agent of a Claude Code session, as far as the lines so far tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.importers.base import name_text

__all__ = ["Spawn", "Spawns", "agent_told"]

TOOLS = frozenset({"Task", "Agent"})
_TOLD = re.compile(r"^agentId: ?([0-9A-Za-z_-]{1,64})", re.MULTILINE)


class Spawn(msgspec.Struct):
    """A call of the tool that begins a sub-agent; ``agent`` is the one that it began, once that is known."""

    event_id: str
    correlation: str
    prompt: str
    kind: str | None
    title: str | None
    agent: str | None = None
    answered: bool = False


class Spawns:
    """The spawns of one session by call id. A link that the program writes counts before the same prompt."""

    def __init__(self) -> None:
        self._calls: dict[str, Spawn] = {}
        self._agents: dict[str, Spawn] = {}

    def called(self, call_id: str, name: object, arguments: object, event_id: str, correlation: str) -> None:
        """A tool is called."""
        given = arguments if isinstance(arguments, Mapping) else {}
        prompt = given.get("prompt")
        if name not in TOOLS or not isinstance(prompt, str):
            return
        kind, title = name_text(given.get("subagent_type"), 64), name_text(given.get("description"), 200)
        self._calls[call_id] = Spawn(event_id, correlation, prompt.strip(), kind, title)
        again = name_text(given.get("resume"))
        if again is not None:  # an agent that is there goes on: nobody new belongs to this call
            self._calls[call_id].agent = f"agent-{again}"

    def told(self, call_id: object, agent: object) -> Spawn | None:
        """The program says which agent belongs to a call."""
        spawn = self._calls.get(call_id) if isinstance(call_id, str) else None
        name = name_text(agent, 64)
        if spawn is not None and name is not None and spawn.agent in (None, f"agent-{name}"):
            spawn.agent = f"agent-{name}"
            self._agents.setdefault(spawn.agent, spawn)
        return spawn

    def answered(self, call_id: object) -> None:
        """A call has its result."""
        if isinstance(call_id, str) and call_id in self._calls:
            self._calls[call_id].answered = True

    def of(self, agent: str, prompt: str, last_chance: bool = False) -> Spawn | None:
        """The call that began an agent: as the program says, else the only one with its prompt, at last the first one."""
        found = self._agents.get(agent)
        if found is not None:
            return found
        same = [
            spawn for spawn in self._calls.values() if spawn.agent is None and spawn.prompt == prompt.strip()
        ]
        if len(same) == 1 or (same and last_chance):
            same[0].agent = agent
            self._agents[agent] = same[0]
            return same[0]
        return None

    @property
    def undecided(self) -> bool:
        """Whether a call is under way of which it is not known which agent it began."""
        return any(spawn.agent is None and not spawn.answered for spawn in self._calls.values())


def agent_told(structured: object, result: Any) -> tuple[str | None, bool]:
    """The agent that a result names, and whether it has ended."""
    facts = structured if isinstance(structured, Mapping) else {}
    named = name_text(facts.get("agentId"), 64)
    if named is None:
        parts = result if isinstance(result, list) else [result]
        texts = (part.get("content") if isinstance(part, Mapping) else part for part in parts)
        found = next(
            (match for text in texts if isinstance(text, str) and (match := _TOLD.search(text))), None
        )
        named = found[1] if found else None
    return named, facts.get("status") != "async_launched" and facts.get("isAsync") is not True
