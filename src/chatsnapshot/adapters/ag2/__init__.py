"""AG2: ``AG2Recorder`` for AG2 1.x agents, ``map_event`` and ``normalize`` for a loop of your own,
``AG2ChatPersistence`` to save conversations of either line and restore them, ``resume_run`` and
``aresume_run`` to go on with a run that a kill stopped.

Importing this package imports neither ``ag2`` nor ``autogen``: events are known by their shape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "AG2ChatPersistence",
    "AG2Recorder",
    "PersistentChatMixin",
    "ResumedChat",
    "ResumedGroup",
    "ResumedRun",
    "StorageBackend",
    "aresume_run",
    "map_event",
    "normalize",
    "resume_run",
]

_HOME = {
    "AG2ChatPersistence": "saving",
    "AG2Recorder": "recorder",
    "PersistentChatMixin": "saving",
    "ResumedChat": "resuming",
    "ResumedGroup": "resuming",
    "ResumedRun": "resuming",
    "StorageBackend": "saving",
    "aresume_run": "resuming",
    "map_event": "events",
    "normalize": "events",
    "resume_run": "resuming",
}

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.events import map_event, normalize
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder
    from chatsnapshot.adapters.ag2.resuming import (
        ResumedChat,
        ResumedGroup,
        ResumedRun,
        aresume_run,
        resume_run,
    )
    from chatsnapshot.adapters.ag2.saving import AG2ChatPersistence, PersistentChatMixin, StorageBackend


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
