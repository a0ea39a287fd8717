"""Where the server of a URL listens, and the same URL by way of a proxy."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from chatsnapshot.testing.faults.proxy import Address

__all__ = ["address_of", "through"]

PORTS = {
    "postgresql": 5432,
    "postgres": 5432,
    "mongodb": 27017,
    "nats": 4222,
    "http": 80,
    "https": 443,
}
"""The ports that servers listen on when a URL names none."""


def address_of(url: str) -> Address:
    """Host and port of the one server that a URL names, or its unix socket (PostgreSQL: ``host=`` names its folder)."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS and not parts.netloc:
        raise ValueError(f"there is no server for a proxy to stand in front of in {url!r}")
    if "," in parts.netloc:
        raise ValueError("a proxy stands in front of one server, and the URL names several")
    options = dict(parse_qsl(parts.query))
    postgresql = parts.scheme in ("postgresql", "postgres")
    port = int((postgresql and options.get("port")) or parts.port or PORTS.get(parts.scheme) or 0)
    if not port:
        raise ValueError("a proxy needs to know the port of the server, and the URL names none")
    netloc_host = parts.netloc.rpartition("@")[2].partition(":")[0]
    host = (options.get("host", "") if postgresql else "") or unquote(netloc_host)
    if host.startswith("/"):
        return os.path.join(host, f".s.PGSQL.{port}") if postgresql else host
    return (host or "127.0.0.1", port)


def through(url: str, address: Address) -> str:
    """The URL with another address in place of its server's; the other options stay.

    A MongoDB client is told to talk to this address only, or it would ask the server for its own and go there.
    """
    parts = urlsplit(url)
    postgresql = parts.scheme in ("postgresql", "postgres")
    user, at, _ = parts.netloc.rpartition("@")
    options = [(key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True)]
    if isinstance(address, str):
        if postgresql:
            folder, _, name = address.rpartition("/")
            options = [(key, value) for key, value in options if key not in ("host", "port")]
            options += [("host", folder), ("port", name.rpartition(".")[2])]
            netloc = user + at
        else:
            netloc = f"{user}{at}{quote(address, safe='')}"
    else:
        host, port = address
        if postgresql:
            options = [(key, value) for key, value in options if key not in ("host", "port")]
        netloc = f"{user}{at}{host}:{port}"
    if parts.scheme == "mongodb" and "directConnection" not in dict(options):
        options.append(("directConnection", "true"))
    query = urlencode(options, quote_via=quote, safe="/")  # libpq takes + for a plus
    path = parts.path or ("/" if query or not netloc else "")
    return f"{parts.scheme}://{netloc}{path}{'?' + query if query else ''}"
