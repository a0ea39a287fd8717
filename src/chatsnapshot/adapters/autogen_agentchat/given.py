"""What a run of AgentChat was given: the agent or team that runs, and its task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chatsnapshot.adapters.autogen_agentchat.contents import is_chat
from chatsnapshot.adapters.plain import header_text

__all__ = ["Given"]


class Given(NamedTuple):
    """The arguments of ``run`` and ``run_stream``."""

    runner: Any = None
    """The agent or team; ``None`` for a stream that does not say whose it is."""
    task: Any = None
    streamed: bool = True
    called: str | None = None
    """The name that the recorder was told."""

    @classmethod
    def of_stream(cls, stream: Any, called: str | None = None) -> Given:
        """Those of a stream that ``run_stream`` gave and nobody has read yet: a generator has its arguments in it."""
        frame = getattr(stream, "ag_frame", None)
        arguments: Mapping[str, Any] = {} if frame is None else frame.f_locals
        runner = arguments.get("self")
        if not callable(getattr(runner, "run_stream", None)):
            return cls(called=called)
        return cls(runner, arguments.get("task"), called=called)

    @property
    def name(self) -> str:
        """The agent or team by its name."""
        return header_text(self.called or getattr(self.runner, "name", None) or "") or "agent"

    @property
    def is_team(self) -> bool:
        """Whether several speak in the run."""
        return hasattr(self.runner, "_participants")

    @property
    def speakers(self) -> set[str]:
        """The names of those that speak in the run, as far as it says so."""
        if self.is_team:
            return {str(one.name) for one in self.runner._participants}
        return set() if self.runner is None else {self.name}

    @property
    def manager(self) -> str | None:
        """The name that a team itself speaks under."""
        return getattr(self.runner, "_group_chat_manager_name", None) if self.is_team else None

    @property
    def messages(self) -> list[Any]:
        """The messages of the task; a task may be a text."""
        if self.task is None:
            return []
        given = list(self.task) if isinstance(self.task, (list, tuple)) else [self.task]
        return [one for one in given if isinstance(one, str) or is_chat(one)]

    def facts(self) -> dict[str, Any]:
        """What the start of the run tells of it."""
        runner = self.runner
        told: dict[str, Any] = {"description": getattr(runner, "description", None)}
        if self.is_team:
            told["participants"] = [str(one.name) for one in runner._participants]
            told["turns_max"] = getattr(runner, "_max_turns", None)
        for message in getattr(runner, "_system_messages", None) or ():
            told["instructions"] = getattr(message, "content", None)
        told["streaming"] = True if self.streamed else None
        return {name: value for name, value in told.items() if value}
