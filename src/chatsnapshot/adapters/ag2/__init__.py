"""AG2: ``AG2Recorder`` for AG2 1.x agents, ``map_event`` and ``normalize`` for a loop of your own.

Importing this package imports neither ``ag2`` nor ``autogen``: events are known by their shape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["AG2Recorder", "map_event", "normalize"]

_HOME = {"AG2Recorder": "recorder", "map_event": "events", "normalize": "events"}

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.events import map_event, normalize
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
