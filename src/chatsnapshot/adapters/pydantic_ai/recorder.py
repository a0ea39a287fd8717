"""``PydanticAIRecorder``: records runs of Pydantic AI 2 agents that carry its capability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.prompts import KnownPrompts
from chatsnapshot.adapters.pydantic_ai.capability import capability_of
from chatsnapshot.adapters.pydantic_ai.installing import put
from chatsnapshot.adapters.requiring import need, version_of

__all__ = ["PydanticAIRecorder", "install"]


class PydanticAIRecorder(RuntimeRecorder):
    """Records runs of Pydantic AI agents (``pip install chatsnapshot[pydantic-ai]``, Python 3.11 or newer).

    >>> recorder = PydanticAIRecorder(ledger)
    >>> agent = Agent("openai:gpt-5", name="desk", capabilities=[recorder.capability])

    All ways of running are recorded: ``run``, ``run_sync``, ``run_stream``, ``iter``. A run's conversation is the
    recorder's ``correlation_id``, else Pydantic AI's ``conversation_id``. An agent that a tool runs is a child run. A run
    whose output is ``DeferredToolRequests`` is paused; the run that is given ``deferred_tool_results`` goes on with it.
    ``docs/pydantic-ai.md`` says what is recorded and what is not.

    Raises :class:`MissingExtra` without Pydantic AI, :class:`LedgerError` where the installed version lacks a hook.
    """

    runtime = "pydantic_ai"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        needed = [
            f"AbstractCapability.{name}"
            for name in ("wrap_run", "before_node_run", "wrap_model_request", "wrap_tool_execute")
        ]
        need(
            "pydantic_ai.capabilities",
            *needed,
            extra="pydantic-ai",
            versions="pydantic-ai-slim>=2.60",
            what="Pydantic AI",
        )
        self.version = version_of("pydantic-ai-slim", "pydantic-ai")
        """The installed version of Pydantic AI."""
        self.capability: Any = capability_of(self)
        """For ``Agent(capabilities=[...])``, or for one run: ``agent.run(..., capabilities=[...])``."""
        self.prompts = KnownPrompts()
        """Instructions that are on record."""


def install(recorder: PydanticAIRecorder) -> Callable[[], None]:
    """Record every run of every agent in this process; gives what undoes it."""
    if not isinstance(recorder, PydanticAIRecorder):
        raise TypeError(f"install takes a PydanticAIRecorder, not {type(recorder).__name__}")
    return put(recorder)
