"""Google ADK 2: ``GoogleADKRecorder`` records runs, ``ChatSnapshotSessionService`` keeps sessions on a ledger.

Importing this package does not import ADK; the session service does, at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["ChatSnapshotSessionService", "GoogleADKRecorder", "install"]

_HOME = {
    "ChatSnapshotSessionService": "sessions",
    "GoogleADKRecorder": "recorder",
    "install": "installing",
}

if TYPE_CHECKING:
    from chatsnapshot.adapters.google_adk.installing import install
    from chatsnapshot.adapters.google_adk.recorder import GoogleADKRecorder
    from chatsnapshot.adapters.google_adk.sessions import ChatSnapshotSessionService


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
