"""``OpenAIAgentsRecorder``: records runs of the OpenAI Agents SDK, one line for the user."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.openai_agents.entering import entrance, recording
from chatsnapshot.adapters.openai_agents.hooking import marker
from chatsnapshot.adapters.openai_agents.questions import Waiting
from chatsnapshot.adapters.prompts import KnownPrompts
from chatsnapshot.adapters.requiring import need, version_of

__all__ = ["OpenAIAgentsRecorder", "install"]


class OpenAIAgentsRecorder(RuntimeRecorder):
    """Records runs of the OpenAI Agents SDK (``pip install chatsnapshot[openai-agents]``).

    >>> recorder = OpenAIAgentsRecorder(ledger)
    >>> result = await recorder.run(agent, "Hello")

    :meth:`run`, :meth:`run_sync` and :meth:`run_streamed` take what those of ``Runner`` take and give what they give.
    Where the call of ``Runner`` has to stay, ``hooks=recorder.hooks`` does the same. A run's conversation is the
    recorder's ``correlation_id``, else ``RunConfig.group_id``, the session's id, the conversation id or the trace id.
    Runs inside a run are child runs. A run that waits for approval is paused and goes on from its ``RunState``, in
    this process or another one. ``docs/openai-agents.md`` says what is recorded and what is not.

    Raises :class:`MissingExtra` without the SDK, :class:`LedgerError` where the installed version lacks a hook.
    """

    runtime = "openai_agents"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        needed = ("Runner.run", "Runner.run_sync", "Runner.run_streamed", "RunHooks.on_llm_end", "Agent")
        self._agents = need(
            "agents",
            *needed,
            extra="openai-agents",
            versions="openai-agents>=0.20",
            what="the OpenAI Agents SDK",
        )
        self.version = version_of("openai-agents")
        """The installed version of the SDK."""
        entrance.open()
        weakref.finalize(self, entrance.close).atexit = False
        self.waiting = Waiting()
        """Runs that wait for approvals."""
        self._marker: Any = None
        self.prompts = KnownPrompts()
        """Instructions that are on record."""

    async def run(  # type: ignore[override]
        self, starting_agent: Any, input: Any, **options: Any
    ) -> Any:
        """``Runner.run``, recorded."""
        self._check(starting_agent)
        with recording(self):
            return await self._agents.Runner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """``Runner.run_sync``, recorded."""
        self._check(starting_agent)
        with recording(self):
            return self._agents.Runner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:
        """``Runner.run_streamed``, recorded: the run ends with its background task."""
        self._check(starting_agent)
        with recording(self):
            return self._agents.Runner.run_streamed(starting_agent, input, **options)

    @property
    def hooks(self) -> Any:
        """What ``Runner.run(..., hooks=)`` takes to be recorded, where the call itself has to stay as it is."""
        if self._marker is None:
            self._marker = marker(self)
        return self._marker

    def _check(self, agent: Any) -> None:
        if not isinstance(agent, self._agents.Agent):
            raise TypeError(
                f"OpenAIAgentsRecorder records an agents.Agent, not {type(agent).__module__}.{type(agent).__qualname__}"
            )


def install(recorder: OpenAIAgentsRecorder) -> Callable[[], None]:
    """Record every run of the SDK in this process; gives what undoes it."""
    if not isinstance(recorder, OpenAIAgentsRecorder):
        raise TypeError(f"install takes an OpenAIAgentsRecorder, not {type(recorder).__name__}")
    entrance.open()
    entrance.installed.append(recorder)

    def undo() -> None:
        if recorder in entrance.installed:
            entrance.installed.remove(recorder)
            entrance.close()

    return undo
