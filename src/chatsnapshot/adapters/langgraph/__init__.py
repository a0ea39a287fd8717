"""Record LangGraph and LangChain (``LangGraphRecorder``), and keep the state of graphs (``ChatSnapshotSaver``).

Importing this package imports neither: see ``docs/langgraph.md``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["ChatSnapshotSaver", "LangGraphRecorder", "install"]

_HOME = {"ChatSnapshotSaver": "saver", "LangGraphRecorder": "recorder", "install": "installing"}

if TYPE_CHECKING:
    from chatsnapshot.adapters.langgraph.installing import install
    from chatsnapshot.adapters.langgraph.recorder import LangGraphRecorder
    from chatsnapshot.adapters.langgraph.saver import ChatSnapshotSaver


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
