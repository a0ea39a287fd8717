"""What the first line of a Codex rollout says of its thread: its id, who began it, where it works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsnapshot.importers.base import name_text

__all__ = ["RUNTIME", "Meta"]

RUNTIME = "codex"


class Meta:
    """What the first line of a rollout says."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        source = facts.get("source")
        subagent = source.get("subagent") if isinstance(source, Mapping) else None
        spawn = subagent.get("thread_spawn") if isinstance(subagent, Mapping) else None
        spawn = spawn if isinstance(spawn, Mapping) else {}
        self.thread = name_text(facts.get("id") or facts.get("session_id"))
        self.parent = name_text(facts.get("parent_thread_id") or spawn.get("parent_thread_id"))
        self.forked_from = name_text(facts.get("forked_from_id"))
        self.review = subagent == "review"
        self.child = subagent is not None or self.parent is not None
        named = (facts.get("agent_nickname"), spawn.get("agent_nickname"), facts.get("agent_role"))
        role = spawn.get("agent_role") or (subagent if isinstance(subagent, str) else None)
        self.agent = next(
            (one for one in map(name_text, (*named, role)) if one), "subagent" if self.child else RUNTIME
        )
        self.at = facts.get("timestamp")
        self.cwd = facts.get("cwd")
