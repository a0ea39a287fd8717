"""Record runs of smolagents agents (``docs/smolagents.md``).

Importing this package does not import ``smolagents``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["SmolagentsRecorder", "install"]

if TYPE_CHECKING:
    from chatsnapshot.adapters.smolagents.recorder import SmolagentsRecorder, install


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.recorder"), name)
