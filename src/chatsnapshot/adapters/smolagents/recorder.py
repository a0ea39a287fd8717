"""``SmolagentsRecorder``: records runs of smolagents agents, one line for the user."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.prompts import KnownPrompts
from chatsnapshot.adapters.requiring import need, version_of
from chatsnapshot.adapters.smolagents.entering import entrance

__all__ = ["SmolagentsRecorder", "install"]

A = TypeVar("A")


class SmolagentsRecorder(RuntimeRecorder):
    """Records runs of smolagents agents (``pip install chatsnapshot[smolagents]``).

    >>> recorder = SmolagentsRecorder(ledger)
    >>> agent = recorder.attach(CodeAgent(tools=[], model=model))
    >>> agent.run("Hello")

    ``CodeAgent`` and ``ToolCallingAgent`` are recorded, streamed or not, with whatever agents they manage: a run inside
    of a run is a child run. ``run(task, reset=False)`` goes on in the conversation of the agent's run before; every other
    run begins one, unless the recorder has a ``correlation_id``. ``docs/smolagents.md`` says what is recorded and what
    is not.

    Raises :class:`MissingExtra` without smolagents, :class:`LedgerError` where the installed version lacks something.
    """

    runtime = "smolagents"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        needed = (
            *("MultiStepAgent.run", "MultiStepAgent._run_stream", "MultiStepAgent.__call__", "Tool.__call__"),
            *("ToolCallingAgent.process_tool_calls", "ToolCallingAgent.execute_tool_call", "FinalAnswerStep"),
        )
        self._agents = need("smolagents", *needed, extra="smolagents", versions="smolagents>=1.26")
        self.version = version_of("smolagents")
        """The installed version of smolagents."""
        self.prompts = KnownPrompts()
        """Instructions that are on record."""
        entrance.open()
        weakref.finalize(self, entrance.close).atexit = False

    def attach(self, agent: A) -> A:
        """Record the runs of this agent and of those that it calls; gives the agent. Twice does nothing."""
        self._check(agent)
        entrance.attach(agent, self)
        return agent

    def detach(self, agent: A) -> A:
        """Record this agent no more, from its next run on; gives the agent."""
        self._check(agent)
        entrance.detach(agent, self)
        return agent

    def _check(self, agent: Any) -> None:
        if not isinstance(agent, self._agents.MultiStepAgent):
            kind = f"{type(agent).__module__}.{type(agent).__qualname__}"
            raise TypeError(f"SmolagentsRecorder records a smolagents.MultiStepAgent, not {kind}")


def install(recorder: SmolagentsRecorder) -> Callable[[], None]:
    """Record every agent of this process; gives what undoes it."""
    if not isinstance(recorder, SmolagentsRecorder):
        raise TypeError(f"install takes a SmolagentsRecorder, not {type(recorder).__name__}")
    entrance.open()
    entrance.installed.append(recorder)

    def undo() -> None:
        if recorder in entrance.installed:
            entrance.installed.remove(recorder)
            entrance.close()

    return undo
