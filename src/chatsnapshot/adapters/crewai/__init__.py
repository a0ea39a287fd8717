"""CrewAI: ``CrewAIRecorder`` records crews, flows and agents of the process. Importing this does not import CrewAI."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["CrewAIRecorder", "install"]

_HOME = {"CrewAIRecorder": "recorder", "install": "recorder"}

if TYPE_CHECKING:
    from chatsnapshot.adapters.crewai.recorder import CrewAIRecorder, install


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
