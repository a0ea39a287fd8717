"""Record runs of Agno agents, teams and workflows (``docs/agno.md``).

Importing this package does not import ``agno``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["AgnoRecorder", "install"]

if TYPE_CHECKING:
    from chatsnapshot.adapters.agno.recorder import AgnoRecorder, install


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.recorder"), name)
