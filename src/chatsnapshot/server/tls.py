"""Certificates and addresses of the service: what is checked before it listens to anybody."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import stat
from typing import Any, NamedTuple

from chatsnapshot.errors import LedgerError

__all__ = ["Tls", "check_exposure", "check_tls", "is_loopback"]


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
