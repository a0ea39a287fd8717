"""Goes on with AG2 runs that a kill stopped, from the ledger alone (``docs/ag2-saving.md``).

Importing this package imports neither ``ag2`` nor ``autogen``: agents are known by their shape.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["aresume_run", "resume_run"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.resume"), name)
