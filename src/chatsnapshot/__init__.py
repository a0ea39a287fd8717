"""ChatSnapshot: a durable, append-only, causally linked history of what agents and the systems around them did."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "open": "chatsnapshot.opening",
    "autorecord": "chatsnapshot.adapters.auto.recording",
    "federate": "chatsnapshot.federation",
    "Ledger": "chatsnapshot.ledger",
    "Pending": "chatsnapshot.pending",
    "EventEnvelope": "chatsnapshot.envelope",
    "LedgerEntry": "chatsnapshot.envelope",
    "Source": "chatsnapshot.envelope",
    "Limits": "chatsnapshot.limits",
    "LedgerError": "chatsnapshot.errors",
    "InvalidEvent": "chatsnapshot.errors",
    "EventConflict": "chatsnapshot.errors",
    "SequenceConflict": "chatsnapshot.errors",
    "CommitUncertain": "chatsnapshot.errors",
    "StoreFull": "chatsnapshot.errors",
    "StoreUnavailable": "chatsnapshot.errors",
    "StorePoisoned": "chatsnapshot.errors",
    "LedgerClosed": "chatsnapshot.errors",
    "ReadOnly": "chatsnapshot.errors",
    "NotFound": "chatsnapshot.errors",
    "Corrupt": "chatsnapshot.errors",
    "FormatTooNew": "chatsnapshot.errors",
    "LimitExceeded": "chatsnapshot.errors",
    "MissingExtra": "chatsnapshot.errors",
    "AG2ChatPersistence": "chatsnapshot.adapters.ag2.saving.persistence",
    "PersistentChatMixin": "chatsnapshot.adapters.ag2.saving.mixin",
    "StorageBackend": "chatsnapshot.adapters.ag2.saving.backend",
}

__all__ = [
    "AG2ChatPersistence",
    "CommitUncertain",
    "Corrupt",
    "EventConflict",
    "EventEnvelope",
    "FormatTooNew",
    "InvalidEvent",
    "Ledger",
    "LedgerClosed",
    "LedgerEntry",
    "LedgerError",
    "LimitExceeded",
    "Limits",
    "MissingExtra",
    "NotFound",
    "Pending",
    "PersistentChatMixin",
    "ReadOnly",
    "SequenceConflict",
    "Source",
    "StorageBackend",
    "StoreFull",
    "StorePoisoned",
    "StoreUnavailable",
    "autorecord",
    "federate",
    "open",
]

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.saving.backend import StorageBackend
    from chatsnapshot.adapters.ag2.saving.mixin import PersistentChatMixin
    from chatsnapshot.adapters.ag2.saving.persistence import AG2ChatPersistence
    from chatsnapshot.adapters.auto.recording import autorecord
    from chatsnapshot.envelope import EventEnvelope, LedgerEntry, Source
    from chatsnapshot.errors import (
        CommitUncertain,
        Corrupt,
        EventConflict,
        FormatTooNew,
        InvalidEvent,
        LedgerClosed,
        LedgerError,
        LimitExceeded,
        MissingExtra,
        NotFound,
        ReadOnly,
        SequenceConflict,
        StoreFull,
        StorePoisoned,
        StoreUnavailable,
    )
    from chatsnapshot.federation import federate
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.limits import Limits
    from chatsnapshot.opening import open
    from chatsnapshot.pending import Pending


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'chatsnapshot' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
