"""Stands before every route: whose name the request is for, which page sent it, and what every answer says to browsers.

A page on the web can make a browser on this machine send requests to loopback, also under a name of its own that
resolves to it (DNS rebinding). So the Host must be one of ours, and a request that a foreign page caused is refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import unquote_plus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chatsnapshot.server.problems import Problem, problem_response

__all__ = ["BODY", "HEADERS", "Guard", "Headers", "host_of"]

BODY = "chatsnapshot.body"
"""Where in the ASGI scope the way to the server stands that no middleware is on: for pieces of a body, once the head of
the answer is sent."""

_PORT = re.compile(r":[0-9]{1,5}", re.ASCII)
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""What every answer says to browsers."""
_KEY_NAMES = frozenset(("key", "api_key", "apikey", "token", "access_token", "authorization"))
_KEY = re.compile(rb"csk(?:_|%5[fF])[a-z0-9]{8}(?:_|%5[fF])[A-Za-z0-9_%-]{20}")
_PORTS = {"http": 80, "https": 443}


class Headers:
    """ASGI middleware around everything else: what every answer says to browsers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, _without_trace(send))
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in HEADERS if name not in given),
                ]
            await send(message)

        scope[BODY] = send
        await self._app(scope, receive, secured)


class Guard:
    """ASGI middleware. ``hosts`` are further names, without a port, that a Host header may hold."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._hosts = _LOOPBACK | {host.lower().strip("[]").rstrip(".") for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("this service speaks HTTP only")
        problem = self._wrong(scope)
        await (self._app if problem is None else problem_response(problem))(scope, receive, send)

    def _wrong(self, scope: Scope) -> Problem | None:
        """Why the request is refused, if it is."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if b"transfer-encoding" in headers and b"content-length" in headers:
            return _framing("a request has a Content-Length or a Transfer-Encoding, not both")
        if len(headers.get(b"content-length", ())) > 1:
            return _framing("a request has one Content-Length")
        hosts = headers.get(b"host", [])
        host = _host_and_port(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        if host is None or not self._is_ours(host[0], scope):
            return Problem(
                421,
                "host",
                "this service does not answer to that name; allow it with --host-name, or use its address",
            )
        if any(not _same(origin.decode("latin-1"), host) for origin in headers.get(b"origin", ())):
            return Problem(403, "origin", "a page of another origin sent this request; it is not served")
        if any(site.lower() not in (b"same-origin", b"none") for site in headers.get(b"sec-fetch-site", ())):
            return Problem(403, "origin", "a page of another site sent this request; it is not served")
        query: bytes = scope["query_string"]
        url = scope.get("raw_path", b"") + b"?" + query
        if _KEY.search(url) or _KEY_NAMES & {name.lower() for name in _query_names(query)}:
            return Problem(
                400,
                "key-in-url",
                "a key never stands in a URL; send it as Authorization: Bearer, and replace this one",
            )
        return None

    def _is_ours(self, host: str, scope: Scope) -> bool:
        """One of the names, or the address that the connection came to: no name resolves to itself."""
        local = scope.get("server")
        return host in self._hosts or (local is not None and host == _address(local[0]))


def host_of(text: str) -> str | None:
    """The name or address of a Host header, without its port, in lower case; ``None`` when it is malformed."""
    found = _host_and_port(text)
    return None if found is None else found[0]


def _host_and_port(text: str) -> tuple[str, int | None] | None:
    text = text.strip(" \t").lower()
    if text.startswith("["):
        name, bracket, port = text[1:].partition("]")
        if not bracket or "%" in name:
            return None
        try:
            name = str(ipaddress.IPv6Address(name))
        except ValueError:
            return None
    else:
        name, colon, port = text.partition(":")
        port = colon + port
        if not name or not name.isascii() or not all(letter.isalnum() or letter in "-._" for letter in name):
            return None
        name = name.removesuffix(".")
    if not port:
        return name, None
    if not _PORT.fullmatch(port) or int(port[1:]) > 65_535:
        return None
    return name, int(port[1:])


def _same(origin: str, host: tuple[str, int | None]) -> bool:
    """Whether a page of this origin was given out by what the request is for; a Host without port has that of http(s)."""
    scheme, mark, rest = origin.strip().lower().partition("://")
    found = _host_and_port(rest)
    if not mark or scheme not in _PORTS or found is None or found[0] != host[0]:
        return False
    port = found[1] or _PORTS[scheme]
    return port == host[1] if host[1] is not None else port in _PORTS.values()


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return ""


def _without_trace(send: Send) -> Send:
    """That the service cannot start is told by who started it, in one sentence, and not by the server under it."""

    async def told(message: Message) -> None:
        await send({**message, "message": ""} if message["type"] == "lifespan.startup.failed" else message)

    return told


def _framing(why: str) -> Problem:
    return Problem(400, "framing", why, headers={"Connection": "close"})


def _query_names(query: bytes) -> list[str]:
    return [unquote_plus(part.partition("=")[0]) for part in query.decode("latin-1").split("&") if part]
