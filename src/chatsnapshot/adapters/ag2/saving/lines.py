"""Tells the two lines of AG2 apart, and describes agents without anything that may be secret."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from chatsnapshot.adapters.plain import type_name
from chatsnapshot.errors import InvalidEvent, MissingExtra

__all__ = ["CLASSIC", "PLAIN", "STREAMED", "as_list", "describe", "line_of", "root_of", "runtime_of"]

CLASSIC = "classic"
"""Agents of module ``autogen``."""
STREAMED = "1.x"
"""Agents of module ``ag2``, before that ``autogen.beta``."""
PLAIN = "transcript"
"""Messages without agents."""

_BETA = "autogen.beta"


def as_list(agents: Any) -> list[Any]:
    """Agents as a list: one, several, or a mapping by name."""
    if agents is None:
        return []
    if isinstance(agents, Mapping):
        return list(agents.values())
    if isinstance(agents, (list, tuple, set, frozenset)):
        return list(agents)
    return [agents]


def line_of(agents: Iterable[Any]) -> str:
    """The line that all of these agents are of; raises :class:`InvalidEvent` for a mixture and for what is no agent."""
    found = {_line(agent) for agent in agents}
    if len(found) > 1:
        raise InvalidEvent(
            "these agents are of both lines of AG2 (autogen and ag2 1.x); save each line as a chat of its own",
            path="agents",
        )
    return found.pop() if found else PLAIN


def root_of(agent: Any) -> str:
    """The package that a 1.x agent comes from: ``ag2`` or ``autogen.beta``."""
    for kind in type(agent).__mro__:
        if kind.__module__ == "ag2" or kind.__module__.startswith("ag2."):
            return "ag2"
        if kind.__module__.startswith(_BETA):
            return _BETA
    return "ag2"


def runtime_of(agents: Iterable[Any]) -> str:
    """The package and version that the agents come from: ``ag2/1.2.1``, ``autogen/0.14.1``, or ``none``."""
    for agent in agents:
        root = root_of(agent) if _line(agent) == STREAMED else "autogen"
        module = sys.modules.get(root) or sys.modules.get(root.partition(".")[0])
        version = getattr(module, "__version__", None) or getattr(
            sys.modules.get(root.partition(".")[0]), "__version__", "?"
        )
        return f"{root}/{version}"
    return "none"


def describe(agent: Any) -> dict[str, Any]:
    """Name, class, description and model names: nothing else of an agent is stored."""
    description = getattr(agent, "description", None)
    if description == getattr(agent, "system_message", None):
        description = None  # AG2 puts the instructions there when no description was given
    return {
        "name": agent.name,
        "class": type_name(agent),
        "description": description if isinstance(description, str) else None,
        "models": _models(agent),
    }


def _line(agent: Any) -> str:
    names = {kind.__name__ for kind in type(agent).__mro__}
    if hasattr(agent, "_oai_messages") and hasattr(agent, "receive"):
        return CLASSIC
    if "Agent" in names and hasattr(agent, "ask") and hasattr(agent, "resume") and hasattr(agent, "name"):
        return STREAMED
    if not any(_installed(name) for name in ("ag2", "autogen")):
        raise MissingExtra("saving and restoring AG2 agents", "ag2")
    raise InvalidEvent(
        f"{type_name(agent)} is no agent that can be saved or restored; give a ConversableAgent, a GroupChatManager or "
        "an ag2 Agent",
        path="agents",
    )


def _installed(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _models(agent: Any) -> list[str]:
    """The names of the models, never anything else of the configuration."""
    config = getattr(agent, "llm_config", None) or getattr(agent, "config", None)
    if not config:
        return []
    entries = _part(config, "config_list")
    candidates = list(entries) if isinstance(entries, (list, tuple)) else [config]
    names = [_part(one, "model") for one in candidates]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _part(config: Any, name: str) -> Any:
    try:
        return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
    except Exception:  # a property of somebody's own configuration
        return None
