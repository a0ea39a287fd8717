"""Runs the server: over standard input and output, or over HTTP on an address of this machine alone."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from chatsnapshot.errors import LedgerError

__all__ = ["PATH", "address", "listen", "serve_http", "serve_stdio"]

PATH = "/mcp"
INTERRUPTED = 130
BODY_BYTES_MAX = 1024 * 1024
GRACE_SECONDS = 5


def serve_stdio(server: MCPServer[Any], close: Callable[[], object]) -> None:
    """Serve until standard input ends; standard output carries the protocol and nothing else.

    On SIGINT (130) and SIGTERM (0) ``close`` is called and the process ends: a thread that waits for input cannot be
    stopped in another way. A second signal ends it at once.
    """
    anyio.run(_stdio, server, close)


async def _stdio(server: MCPServer[Any], close: Callable[[], object]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, close)
        await server.run_stdio_async()
        tasks.cancel_scope.cancel()


async def _watch(close: Callable[[], object]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            async for sig in signals:
                code = INTERRUPTED if sig == signal.SIGINT else 0
                if _ending:
                    os._exit(code)
                _ending.append(code)
                tasks.start_soon(_end, close, code)


_ending: list[int] = []
"""The exit code, once a signal came."""


async def _end(close: Callable[[], object], code: int) -> None:
    try:
        await anyio.to_thread.run_sync(close)
    finally:
        os._exit(code)


def address(text: str) -> tuple[str, int]:
    """``HOST:PORT`` as both; raises :class:`LedgerError` when it is none."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise LedgerError(f"--http takes HOST:PORT, such as 127.0.0.1:8421, not {text!r:.80}")
    return host.strip("[]"), int(port)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address of this machine alone: the server asks for no keys.

    Raises :class:`LedgerError` when others reach the address, or when it cannot be listened on.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        where = str(found[4][0])
        if not ipaddress.ip_address(where.partition("%")[0]).is_loopback:
            raise LedgerError(
                f"{where} can be reached from other machines and this server asks for no keys; "
                "listen on 127.0.0.1, and put a proxy that asks for them before it"
            )
        sock = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise LedgerError(f"there is no address {host!r:.80} to listen on: {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(found[4])
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise LedgerError(
            f"cannot listen on {host}:{port}: {error.strerror}; another program may use the port"
        ) from None
    return sock


def serve_http(server: MCPServer[Any], sock: socket.socket) -> int:
    """Serve streamable HTTP at :data:`PATH` until SIGTERM (0) or SIGINT (130); the exit code.

    A request must name this machine in its Host, and may come from pages of this server only (Origin): a page on the web
    cannot reach it through a browser on this machine.
    """
    port = int(sock.getsockname()[1])
    names = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_BYTES_MAX,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=names,
            allowed_origins=[f"http://{name}" for name in names],
        ),
    )
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="on",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    running = _Server(config)
    running.run(sockets=[sock])
    if not running.started:
        return 1
    return INTERRUPTED if running.interrupted else 0


class _Server(uvicorn.Server):
    """uvicorn, with an end that is an exit code and not a signal."""

    interrupted = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but the signal is not raised again at the end: it was obeyed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Remember which signal it was."""
        self.interrupted = self.interrupted or sig == signal.SIGINT
        super().handle_exit(sig, frame)
