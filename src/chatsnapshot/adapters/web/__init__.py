"""Context across processes: ``inject`` and ``extract`` for headers, middleware for ASGI and WSGI, transports for httpx.

Importing this package imports neither a web framework nor ``httpx``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "AsyncLedgerTransport",
    "LedgerMiddleware",
    "LedgerTransport",
    "LedgerWsgiMiddleware",
    "Received",
    "extract",
    "inject",
]

_HOME = {
    "AsyncLedgerTransport": "transport",
    "LedgerMiddleware": "asgi",
    "LedgerTransport": "transport",
    "LedgerWsgiMiddleware": "wsgi",
    "Received": "carrying",
    "extract": "carrying",
    "inject": "carrying",
}

if TYPE_CHECKING:
    from chatsnapshot.adapters.web.asgi import LedgerMiddleware
    from chatsnapshot.adapters.web.carrying import Received, extract, inject
    from chatsnapshot.adapters.web.transport import AsyncLedgerTransport, LedgerTransport
    from chatsnapshot.adapters.web.wsgi import LedgerWsgiMiddleware


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use (PEP 562)."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
