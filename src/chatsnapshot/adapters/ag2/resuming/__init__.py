"""Goes on with AG2 runs that a kill stopped, from the ledger alone (``docs/ag2-saving.md``).

Importing this package imports neither ``ag2`` nor ``autogen``: agents are known by their shape.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["ResumedChat", "ResumedGroup", "ResumedRun", "aresume_run", "resume_run"]

_HOME = {
    "ResumedChat": "resumedchat",
    "ResumedGroup": "resumedgroup",
    "ResumedRun": "resumedrun",
    "aresume_run": "resume",
    "resume_run": "resume",
}

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.resuming.resume import aresume_run, resume_run
    from chatsnapshot.adapters.ag2.resuming.resumedchat import ResumedChat
    from chatsnapshot.adapters.ag2.resuming.resumedgroup import ResumedGroup
    from chatsnapshot.adapters.ag2.resuming.resumedrun import ResumedRun


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
