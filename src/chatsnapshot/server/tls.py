"""Certificates and addresses of the service: what is checked before it listens, and certificates that are renewed."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import ssl
import stat
from collections.abc import Callable
from typing import Any, NamedTuple

from chatsnapshot.errors import LedgerError

__all__ = ["Renewal", "Tls", "check_exposure", "check_tls", "is_loopback"]

_log = logging.getLogger("chatsnapshot.server")


class Tls(NamedTuple):
    """Files in PEM form: the certificate with those that lead to its root, and its private key."""

    certificate: str
    key: str


def is_loopback(sock: socket.socket) -> bool:
    """Whether only this machine reaches the socket."""
    name: Any = sock.getsockname()
    return ipaddress.ip_address(name[0].partition("%")[0]).is_loopback


def check_exposure(sock: socket.socket, *, keyed: bool) -> None:
    """Raise :class:`LedgerError` where others than this machine reach the socket and no key is asked for."""
    if keyed or is_loopback(sock):
        return
    host = sock.getsockname()[0]
    sock.close()
    raise LedgerError(
        f"{host} can be reached from other machines and this service asks for no keys; make one with "
        "chatsnapshot keys create --keys FILE, then serve with --keys FILE, or listen on 127.0.0.1"
    )


def check_tls(tls: Tls) -> None:
    """Raise :class:`LedgerError` when the files cannot be used, in one sentence."""
    for path in tls:
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError as error:
            raise LedgerError(f"{path} cannot be read: {error.strerror}") from None
        if path == tls.key and mode & 0o007:
            raise LedgerError(
                f"the private key {path} can be read by everybody (mode {mode:04o}); run: chmod 600 {path}"
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A key with a password would be asked for at the terminal; a service has nobody there.
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise LedgerError(
            f"{tls.certificate} and {tls.key} are no certificate and its private key without a password, in PEM form "
            f"({reason})"
        ) from None


class Renewal:
    """Gives new connections the certificate that the files hold now; connections that are there keep theirs.

    ``context`` is the one that the server listens with, ``made`` makes another like it of the files.
    """

    def __init__(self, tls: Tls, context: ssl.SSLContext, made: Callable[[], ssl.SSLContext]) -> None:
        self._tls = tls
        self._made = made
        self._current = context
        self._known = self._state()
        context.sni_callback = self._choose

    def _choose(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _state(self) -> tuple[tuple[int, int, int], ...] | None:
        """What tells whether a file was changed; ``None`` while one is missing."""
        try:
            found = [os.stat(path) for path in self._tls]
        except OSError:
            return None
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)

    def look(self, *, always: bool = False) -> None:
        """Read the files if they were changed, or ``always``; what cannot be used is logged and changes nothing."""
        state = self._state()
        if state is None or (state == self._known and not always):
            return  # a file that is being replaced is there at the next look
        self._known = state
        try:
            check_tls(self._tls)
            self._current = self._made()
        except (LedgerError, OSError, ValueError) as error:
            _log.error("the certificate was changed and cannot be used, so the one before is kept: %s", error)
        else:
            _log.info("new connections get the certificate in %s as it is now", self._tls.certificate)
