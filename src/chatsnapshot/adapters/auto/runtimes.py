"""Which runtimes auto mode knows: the module whose import says that one is used, and the adapter that records it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from chatsnapshot.errors import InvalidEvent

__all__ = ["RUNTIMES", "Runtime", "chosen", "switch_on"]

_ADAPTERS = "chatsnapshot.adapters."


class Runtime(NamedTuple):
    """One runtime. ``module`` is imported by every program that uses it, and seldom by others.

    It is switched on when nothing of its ``packages`` (by default the top-level one of the module) is being imported.
    """

    name: str
    module: str
    adapter: str
    recorder: str
    packages: tuple[str, ...] = ()


RUNTIMES: tuple[Runtime, ...] = (
    Runtime("ag2", "ag2", "ag2.installing", "AG2Recorder"),
    Runtime("autogen", "autogen", "ag2.installing", "AG2Recorder"),
    Runtime(
        "langgraph",
        "langchain_core.callbacks",
        "langgraph",
        "LangGraphRecorder",
        ("langchain_core", "langgraph", "langchain"),
    ),
    Runtime("openai_agents", "agents", "openai_agents", "OpenAIAgentsRecorder"),
    Runtime("pydantic_ai", "pydantic_ai", "pydantic_ai", "PydanticAIRecorder"),
    Runtime("crewai", "crewai", "crewai", "CrewAIRecorder"),
    Runtime("google_adk", "google.adk.runners", "google_adk", "GoogleADKRecorder", ("google.adk",)),
    Runtime("agent_framework", "agent_framework", "agent_framework", "AgentFrameworkRecorder"),
    Runtime("autogen_agentchat", "autogen_agentchat.base", "autogen_agentchat", "AgentChatRecorder"),
    Runtime("smolagents", "smolagents", "smolagents", "SmolagentsRecorder"),
    Runtime("strands", "strands", "strands", "StrandsRecorder"),
    Runtime("agno", "agno.agent", "agno", "AgnoRecorder", ("agno",)),
    Runtime(
        "llama_index",
        "llama_index_instrumentation",
        "llama_index",
        "LlamaIndexRecorder",
        ("llama_index", "llama_index_instrumentation", "workflows"),
    ),
    Runtime("mcp", "mcp", "mcp_calls", "McpClientRecorder"),
)


def chosen(names: Iterable[str] | None) -> tuple[Runtime, ...]:
    """The runtimes of these names, or all; raises :class:`InvalidEvent` for a name that there is not.

    The names are those of ``source.runtime``; ``autogen`` is the classic line of AG2.
    """
    if names is None:
        return RUNTIMES
    known = {runtime.name: runtime for runtime in RUNTIMES}
    wanted = [name.replace("-", "_") for name in ([names] if isinstance(names, str) else names)]
    for name in wanted:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise InvalidEvent(f"auto mode knows no runtime {name!r}{hint}; it knows {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(wanted))


def switch_on(runtime: Runtime, ledger: Any, options: dict[str, Any]) -> tuple[Any, Callable[[], None]]:
    """Record every run of a runtime from here on; gives the recorder, and what switches it off again."""
    adapter = importlib.import_module(_ADAPTERS + runtime.adapter)
    recorder = getattr(adapter, runtime.recorder)(ledger, **options)
    undo: Callable[[], None] = adapter.install(recorder)
    return recorder, undo
