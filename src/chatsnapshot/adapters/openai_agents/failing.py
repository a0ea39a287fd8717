"""What a tool raised: the SDK hides it from the model and from traces, and tells it to the formatter of tool errors."""

from __future__ import annotations

import copy
from typing import Any

from chatsnapshot.adapters.openai_agents.calls import CURRENT

__all__ = ["with_formatter"]


class _Formatter:
    """Takes note of the error, and leaves the text for the model to the formatter that was there, or to the SDK."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __call__(self, failure: Any) -> Any:
        call = CURRENT.get()
        if call is not None and failure.error is not None:
            call.failures[failure.call_id] = failure.error
        return None if self.given is None else self.given(failure)


def with_formatter(run_config: Any) -> Any:
    """The configuration of a run with this formatter in it; as it came where the SDK tells no errors."""
    from agents import run_config as home

    told: Any = getattr(home, "ToolErrorFormatterArgs", None)
    if told is None or "error" not in getattr(told, "__dataclass_fields__", ()):
        return run_config
    if run_config is None or isinstance(run_config, dict):
        # A mapping stays one: the runner closes the model provider that it makes for it.
        given = (run_config or {}).get("tool_error_formatter")
        if isinstance(given, _Formatter):
            return run_config
        return {**(run_config or {}), "tool_error_formatter": _Formatter(given)}
    given = run_config.tool_error_formatter
    if isinstance(given, _Formatter):
        return run_config
    changed = copy.copy(run_config)
    changed.tool_error_formatter = _Formatter(given)
    return changed
