"""The ``RunHooks`` of one call: tell what happens, then call the hooks that the caller gave, unchanged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.openai_agents.calls import Call, Made

if TYPE_CHECKING:
    from chatsnapshot.adapters.openai_agents.recorder import OpenAIAgentsRecorder

__all__ = ["hooks_of", "is_ours", "marker"]


def hooks_of(call: Call, given: Any) -> Any:
    """Hooks for one call, around those that the caller gave."""
    return _classes()[0](call, given)


def marker(recorder: OpenAIAgentsRecorder) -> Any:
    """``recorder.hooks``: hooks that do nothing themselves and say who records the run that they are given to."""
    return _classes()[1](recorder)


def is_ours(hooks: Any) -> OpenAIAgentsRecorder | None:
    """Whose marker this is."""
    found: OpenAIAgentsRecorder | None = hooks.recorder if isinstance(hooks, _classes()[1]) else None
    return found


@cache
def _classes() -> tuple[Any, Any]:
    from agents import RunHooks
    from agents.lifecycle import RunHooksBase

    class Marker(RunHooks):
        """Says which recorder records the run that it is given to."""

        def __init__(self, recorder: OpenAIAgentsRecorder) -> None:
            self.recorder = recorder

    class Hooks(RunHooks):
        """Tells one call what happens in it.

        The methods are plain functions that give an awaitable: what they do before that happens in the context of the
        tool or the turn itself, so that a tool is entered for everything that runs in it.
        """

        def __init__(self, call: Call, given: Any) -> None:
            self.call = call
            self.given = given if isinstance(given, RunHooksBase) else None

        def _then(self, tell: Callable[[], Made], name: str, *args: Any, **named: Any) -> Awaitable[None]:
            made: Made = []
            with ExitStack() as stack:
                for watch in self.call.watches[:1]:
                    stack.enter_context(watch.recorder.guarded())
                made = tell()
            own = None if self.given is None else partial(getattr(self.given, name), *args, **named)
            return _both(self.call, made, own)

        def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> Any:
            tell = partial(self.call.asked_model, agent, system_prompt)
            return self._then(tell, "on_llm_start", context, agent, system_prompt, input_items)

        def on_llm_end(self, context: Any, agent: Any, response: Any) -> Any:
            tell = partial(self.call.model_answered, agent, response)
            return self._then(tell, "on_llm_end", context, agent, response)

        def on_tool_start(self, context: Any, agent: Any, tool: Any) -> Any:
            tell = partial(self.call.tool_began, context, tool)
            return self._then(tell, "on_tool_start", context, agent, tool)

        def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> Any:
            tell = partial(self.call.tool_ended, context, tool, result)
            return self._then(tell, "on_tool_end", context, agent, tool, result)

        def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> Any:
            tell = partial(self.call.handed_over, from_agent, to_agent)
            # The SDK gives these by name, so they go on by name.
            named = {"context": context, "from_agent": from_agent, "to_agent": to_agent}
            return self._then(tell, "on_handoff", **named)

    def handed_on(name: str) -> Any:
        def hook(self: Any, *args: Any, **named: Any) -> Any:
            return self._then(list, name, *args, **named)

        return hook

    for name in dir(RunHooksBase):
        if name.startswith("on_") and name not in vars(Hooks):
            setattr(Hooks, name, handed_on(name))
    return Hooks, Marker


async def _both(call: Call, made: Made, own: Callable[[], Awaitable[Any]] | None) -> None:
    if made:
        await call.arecord(made)
    if own is not None:
        await own()
