"""Record runs of the OpenAI Agents SDK, and keep its sessions in a ledger (``docs/openai-agents.md``).

Importing this package does not import ``agents``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["ChatSnapshotSession", "OpenAIAgentsRecorder", "install"]

_HOME = {"ChatSnapshotSession": "sessions", "OpenAIAgentsRecorder": "recorder", "install": "recorder"}

if TYPE_CHECKING:
    from chatsnapshot.adapters.openai_agents.recorder import OpenAIAgentsRecorder, install
    from chatsnapshot.adapters.openai_agents.sessions import ChatSnapshotSession


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
