"""Reads the URL of a ledger on NATS: servers, credentials, and our options with their meaning."""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from chatsnapshot.errors import LedgerError
from chatsnapshot.limits import MIB
from chatsnapshot.stores.open import Location

__all__ = ["Address", "read_address"]

TIMEOUT_SECONDS = 20.0
"""How long one call rides out a fail-over before it raises; ``timeout=`` sets another."""

_OPTIONS = (
    "replicas",
    "index",
    "timeout",
    "domain",
    "credentials",
    "nkey",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "monitoring",
)


class Address(NamedTuple):
    """Where the ledger is, and how to get there; holds secrets, and shows none."""

    url: str
    ledger: str
    servers: tuple[str, ...]
    """``nats://host:port``, without credentials."""
    user: str | None
    password: str | None
    token: str | None
    options: dict[str, str]
    replicas: int | None
    timeout: float
    api: str
    """Prefix of the JetStream API."""

    def __repr__(self) -> str:
        return f"Address({self.url!r})"

    @property
    def stream(self) -> str:
        """Name of the stream that holds the entries."""
        return f"chatsnapshot_{self.ledger}"

    @property
    def vault(self) -> str:
        """Name of the stream that holds keys and parts."""
        return f"chatsnapshot_{self.ledger}_vault"

    @property
    def subjects(self) -> str:
        """What all subjects of the ledger begin with."""
        return f"chatsnapshot.{self.ledger}"

    def connect_options(self) -> dict[str, Any]:
        """Arguments for ``Client.connect``; raises :class:`LedgerError` for files that cannot be read."""
        options: dict[str, Any] = {
            "servers": list(self.servers),
            "name": f"chatsnapshot {self.ledger}",
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.1,
            "connect_timeout": 2,
            "ping_interval": 2,
            "max_outstanding_pings": 2,
            "pending_size": 128 * MIB,
        }
        if self.token is not None:
            options["token"] = self.token
        if self.user is not None:
            options["user"], options["password"] = self.user, self.password or ""
        if "credentials" in self.options:
            options["user_credentials"] = self.options["credentials"]
        if "nkey" in self.options:
            options["nkeys_seed"] = self.options["nkey"]
        for name in ("credentials", "nkey"):
            if name in self.options:
                _readable(name, self.options[name])
        if any(name.startswith("tls_") for name in self.options):
            options["tls"] = self._tls()
        return options

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.options.get("tls_ca"))
            if "tls_cert" in self.options:
                context.load_cert_chain(self.options["tls_cert"], self.options.get("tls_key"))
            return context
        except (OSError, ssl.SSLError) as error:
            raise LedgerError(
                f"tls_ca, tls_cert or tls_key of {self.url} cannot be read ({type(error).__name__}); give PEM files"
            ) from None


def _readable(name: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise LedgerError(
            f"the file that {name}= names cannot be read ({error.strerror}); give the path of a readable file"
        ) from None


def read_address(location: Location) -> Address:
    """Take the URL of a location apart; raises :class:`LedgerError` for an option that is unknown or misfits."""
    parts = urlsplit(location.target)
    user_part, at, hosts = parts.netloc.rpartition("@")
    user = password = token = None
    if at:
        name, colon, secret = user_part.partition(":")
        if colon:
            user, password = unquote(name), unquote(secret)
        else:
            token = unquote(name)
    servers = tuple(f"{parts.scheme}://{_with_port(host)}" for host in hosts.split(",") if host)
    if not servers:
        raise LedgerError(f"{location.url} names no server; write nats://host:4222?ledger=NAME")
    if parts.path.strip("/"):
        raise LedgerError(
            f"{location.url} has a path, and NATS knows none; name the ledger with ?ledger=NAME"
        )
    options = dict(location.options)
    for name in options:
        if name not in _OPTIONS:
            raise LedgerError(
                f"{name!r} is no option of a nats:// URL; known are ledger, {', '.join(_OPTIONS)}"
            )
    return Address(
        location.url,
        location.ledger,
        servers,
        user,
        password,
        token,
        options,
        _replicas(options.get("replicas")),
        _timeout(options.get("timeout")),
        f"$JS.{options['domain']}.API" if options.get("domain") else "$JS.API",
    )


def _with_port(host: str) -> str:
    return host if host.rpartition(":")[2].isdigit() and not host.endswith("]") else f"{host}:4222"


def _replicas(text: str | None) -> int | None:
    if text is None:
        return None
    if text not in ("1", "3", "5"):
        raise LedgerError(
            f"replicas is 1, 3 or 5, not {text!r}; an even number survives no more lost servers"
        )
    return int(text)


def _timeout(text: str | None) -> float:
    try:
        seconds = TIMEOUT_SECONDS if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise LedgerError(f"timeout is a number of seconds up to 3600, not {text!r}")
    return seconds
