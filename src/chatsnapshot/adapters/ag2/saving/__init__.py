"""Save AG2 conversations into a ledger and restore them: ``AG2ChatPersistence`` (``docs/ag2-saving.md``).

Importing this package imports neither ``ag2`` nor ``autogen``: agents are known by their shape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "AG2ChatPersistence",
    "Conversation",
    "PersistentChatMixin",
    "RestoredChat",
    "RestoredGroup",
    "RestoredStream",
    "RestoredStreams",
    "SavedChat",
    "StorageBackend",
]

_HOME = {
    "AG2ChatPersistence": "persistence",
    "Conversation": "chats",
    "PersistentChatMixin": "mixin",
    "RestoredChat": "restored",
    "RestoredGroup": "groups",
    "RestoredStream": "streams",
    "RestoredStreams": "streams",
    "SavedChat": "saved",
    "StorageBackend": "backend",
}

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.saving.backend import StorageBackend
    from chatsnapshot.adapters.ag2.saving.chats import Conversation
    from chatsnapshot.adapters.ag2.saving.groups import RestoredGroup
    from chatsnapshot.adapters.ag2.saving.mixin import PersistentChatMixin
    from chatsnapshot.adapters.ag2.saving.persistence import AG2ChatPersistence
    from chatsnapshot.adapters.ag2.saving.restored import RestoredChat
    from chatsnapshot.adapters.ag2.saving.saved import SavedChat
    from chatsnapshot.adapters.ag2.saving.streams import RestoredStream, RestoredStreams


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
