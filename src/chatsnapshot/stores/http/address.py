"""Reads where a service is and how to talk to it: address, path, key, time limits. Keys are never part of a URL."""

from __future__ import annotations

import ipaddress
import os
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.open import Location

__all__ = ["KEY_VARIABLE", "Address", "read_address"]

KEY_VARIABLE = "CHATSNAPSHOT_KEY"
"""The environment variable that holds the key of HTTP ledgers."""

SECONDS_DEFAULT = 10.0
_SECONDS = (0.05, 600.0)
_KNOWN = frozenset({"mode", "key_file", "cleartext", "ca_file", "timeout", "spool", "spool_bytes_max"})


class Address(NamedTuple):
    """``base`` is the path in front of ``/store/…``; ``ledger`` is ``None`` where the URL names none."""

    secure: bool
    host: str
    port: int
    base: str
    ledger: str | None
    key: str | None
    ca_file: str | None
    seconds: float

    def __repr__(self) -> str:
        return f"Address({self.host}:{self.port}{self.base})"


def read_address(location: Location) -> Address:
    """Take the URL of a location apart; raises :class:`LedgerError` with the sentence that helps."""
    parts = urlsplit(location.target)
    options = dict(location.options)
    unknown = sorted(options.keys() - _KNOWN)
    if unknown:
        raise LedgerError(
            f"unknown option {unknown[0]!r} in an http:// URL; known are ledger, {', '.join(sorted(_KNOWN))}"
        )
    if parts.username is not None or parts.password is not None:
        raise LedgerError(
            f"an http:// URL holds no user or password; put the key of the service into {KEY_VARIABLE}, or name a file "
            "that holds it with key_file="
        )
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise LedgerError("the port of an http:// URL is a number from 1 to 65535") from None
    if not host:
        raise LedgerError("an http:// URL names a host, as in http://127.0.0.1:8420?ledger=main")
    secure = parts.scheme.lower() == "https"
    key = _key(options.get("key_file"))
    if key is not None and not secure and not _is_loopback(host) and options.get("cleartext") != "allow":
        raise LedgerError(
            f"the key would go to {host} in clear text over http://; use https://, or add cleartext=allow where the "
            "network itself is trusted"
        )
    given = dict(parse_qsl(urlsplit(location.address).query))
    ledger = location.ledger if "ledger" in given else None
    prefix = parts.path.rstrip("/")
    return Address(
        secure,
        host,
        port or (443 if secure else 80),
        f"{prefix}/v1" + (f"/ledgers/{ledger}" if ledger else ""),
        ledger,
        key,
        options.get("ca_file"),
        _seconds(options.get("timeout")),
    )


def _key(path: str | None) -> str | None:
    key = os.environ.get(KEY_VARIABLE, "")
    if path is not None:
        try:
            with open(os.path.expanduser(path), encoding="ascii") as file:
                key = file.read(4096)
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(f"the key file {path} cannot be read: {type(error).__name__}") from None
    key = key.strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise LedgerError(f"the key in {path or KEY_VARIABLE} is no key: it holds characters that none has")
    return key


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _seconds(text: str | None) -> float:
    if text is None:
        return SECONDS_DEFAULT
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not _SECONDS[0] <= seconds <= _SECONDS[1]:
        raise LedgerError(f"timeout is a number of seconds from {_SECONDS[0]:g} to {_SECONDS[1]:g}")
    return seconds
