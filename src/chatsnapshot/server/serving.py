"""Runs the service on uvicorn: one process, one address, an orderly end."""

from __future__ import annotations

import socket

import uvicorn

from chatsnapshot.errors import LedgerError
from chatsnapshot.server.app import application
from chatsnapshot.server.service import Service

__all__ = ["listen", "serve"]

GRACE_SECONDS = 10
"""How long requests that are under way may take after the service was told to end."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the address; raises :class:`LedgerError` when that cannot be."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # With the protocol named, or asyncio leaves TCP_NODELAY off and every answer waits 40 ms for an ACK.
        sock = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise LedgerError(f"there is no address {host!r} to listen on: {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(found[4])
        sock.listen(2048)  # before the address is told: who connects at once is kept waiting, not refused
    except OSError as error:
        sock.close()
        raise LedgerError(
            f"cannot listen on {host}:{port}: {error.strerror}; another program may use the port (choose one with --port)"
        ) from None
    return sock


def serve(service: Service, sock: socket.socket) -> bool:
    """Serve on a socket that is bound, until SIGINT or SIGTERM; whether it ever started."""
    config = uvicorn.Config(
        application(service),
        access_log=False,
        log_level="warning",
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[sock])
    return server.started
