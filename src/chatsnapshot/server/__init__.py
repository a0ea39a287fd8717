"""The HTTP service: ledgers over the network, as ``docs/http.md`` describes it; ``chatsnapshot serve`` runs it."""

from chatsnapshot.errors import MissingExtra

try:
    import starlette
    import uvicorn
except ImportError:
    raise MissingExtra("the HTTP service", "server") from None

del starlette, uvicorn
