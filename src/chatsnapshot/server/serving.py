"""Runs the service on uvicorn: one process, one address, an orderly end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn
from uvicorn.config import create_ssl_context

from chatsnapshot.errors import LedgerError
from chatsnapshot.server import logs
from chatsnapshot.server.app import application
from chatsnapshot.server.connections import bounded
from chatsnapshot.server.service import Service
from chatsnapshot.server.tls import Renewal, Tls, check_exposure

__all__ = ["listen", "serve"]

_log = logging.getLogger("chatsnapshot.server")

INTERRUPTED = 130
GRACE_SECONDS = 10
"""How long requests that are under way may take after the service was told to end."""
_LOOK_TICKS = 100
"""So many ticks of uvicorn, of 0.1 s each, pass between two looks at the files of the certificate."""
END_SECONDS_MAX = 30
"""When all of it, closing the ledgers too, takes longer, the process ends all the same."""


def listen(host: str, port: int, *, keyed: bool = False) -> socket.socket:
    """A socket that listens on the address; raises :class:`LedgerError` when that cannot be.

    Without keys only an address of this machine alone is listened on.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # With the protocol named, or asyncio leaves TCP_NODELAY off and every answer waits 40 ms for an ACK.
        sock = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise LedgerError(f"there is no address {host!r} to listen on: {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(found[4])
        check_exposure(sock, keyed=keyed)
        sock.listen(2048)  # before the address is told: who connects at once is kept waiting, not refused
    except OSError as error:
        sock.close()
        raise LedgerError(
            f"cannot listen on {host}:{port}: {error.strerror}; another program may use the port (choose one with --port)"
        ) from None
    return sock


class _Server(uvicorn.Server):
    """uvicorn, with an end that is an exit code and not a signal, and that comes whatever the store does."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self.interrupted = False
        self.ready: Callable[[], object] | None = None
        self.renewal: Renewal | None = None
        self._asked = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.ready is not None:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        watch = threading.Timer(END_SECONDS_MAX, _give_up)
        watch.daemon = True
        watch.start()
        self._service.end()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but the signal is not raised again at the end: it was obeyed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        if self.renewal is not None and hasattr(signal, "SIGHUP"):
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._renew)
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _renew(self, sig: int, frame: FrameType | None) -> None:
        """Read the certificate anew, at the next tick."""
        self._asked = True

    async def on_tick(self, counter: int) -> bool:
        """As in uvicorn, and a look at the certificate from time to time."""
        if self.renewal is not None and (self._asked or counter % _LOOK_TICKS == 0):
            asked, self._asked = self._asked, False
            self.renewal.look(always=asked)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in order; on a second SIGINT at once. What was acknowledged is stored, so nothing is lost by it."""
        if sig == signal.SIGINT:
            if self.should_exit:
                os._exit(INTERRUPTED)
            self.interrupted = True
        self.should_exit = True


def _give_up() -> None:
    _log.error("the service did not come to its end within %d s, so it ends without", END_SECONDS_MAX)
    os._exit(1)


def serve(
    service: Service,
    sock: socket.socket,
    *,
    tls: Tls | None = None,
    proxies: Sequence[str] = (),
    log_form: str = "text",
    ready: Callable[[], object] | None = None,
) -> int:
    """Serve on a socket that is bound, until SIGTERM (0) or SIGINT (130); the exit code, 1 when it never started.

    Raises :class:`LedgerError` where a ledger cannot be opened. ``ready`` is called once the ledgers are open.
    ``proxies`` are the addresses whose word is taken for who asks (X-Forwarded-For).
    """
    settings = service.settings
    _allow_open_files(settings.connections_max)
    logs.install(log_form)
    config = uvicorn.Config(
        application(service),
        access_log=False,
        log_config=None,
        lifespan="on",
        loop="asyncio",
        http=bounded(
            head_seconds_max=settings.head_seconds_max,
            stall_seconds_max=settings.stall_seconds_max,
            connections_max=settings.connections_max,
        ),
        ws="none",
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        ssl_certfile=tls and tls.certificate,
        ssl_keyfile=tls and tls.key,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = _Server(config, service)
    server.ready = ready
    if tls is not None:
        config.load()
        assert config.ssl is not None
        server.renewal = Renewal(tls, config.ssl, lambda: _context(config))
    with suppress(SystemExit):  # uvicorn's, with a code of its own, where the application does not start
        server.run(sockets=[sock])
    if not server.started:
        if isinstance(service.unopened, LedgerError):
            raise service.unopened from None
        _log.error("the service cannot start", exc_info=service.unopened)
        return 1
    return INTERRUPTED if server.interrupted else 0


def _context(config: uvicorn.Config) -> ssl.SSLContext:
    """Another context like that of the configuration, of the files as they are now."""
    return create_ssl_context(
        certfile=config.ssl_certfile,  # type: ignore[arg-type]
        keyfile=config.ssl_keyfile,
        password=config.ssl_keyfile_password,
        ssl_version=config.ssl_version,
        cert_reqs=config.ssl_cert_reqs,
        ca_certs=config.ssl_ca_certs,
        ciphers=config.ssl_ciphers,
    )


def _allow_open_files(connections_max: int) -> None:
    """Each connection is an open file, and the usual limit of 1,024 is fewer than there may be."""
    try:
        import resource
    except ImportError:  # pragma: no cover, Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + 1_000
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard > 0 else wanted, hard))
