"""Stands before every route: whose name the request is for, which page sent it, and what every answer says to browsers.

A page on the web can make a browser on this machine send requests to loopback, also under a name of its own that
resolves to it (DNS rebinding). So the Host must be one of ours, and a request that a foreign page caused is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chatsnapshot.server.problems import Problem, problem_response

__all__ = ["Guard", "host_of"]

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_KEY_NAMES = frozenset(("key", "api_key", "apikey", "token", "access_token", "authorization"))


class Guard:
    """ASGI middleware. ``hosts`` are further names, in lower case, without a port, that a Host header may hold."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._hosts = _LOOPBACK | {host.lower().strip("[]") for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._wrong(scope)
        app = self._app if problem is None else problem_response(problem)

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in _HEADERS if name not in given),
                ]
            await send(message)

        await app(scope, receive, secured)

    def _wrong(self, scope: Scope) -> Problem | None:
        """Why the request is refused, if it is."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = headers.get(b"host", [])
        host = host_of(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        if host is None or host not in self._hosts:
            return Problem(
                421,
                "host",
                "this service does not answer to that name; allow it with --host-name, or use its address",
            )
        for origin in headers.get(b"origin", []):
            text = origin.decode("latin-1")
            scheme, mark, rest = text.partition("://")
            if not mark or scheme not in ("http", "https") or host_of(rest) not in self._hosts:
                return Problem(403, "origin", "a page of another origin sent this request; it is not served")
        sites = headers.get(b"sec-fetch-site", [])
        if any(site.lower() not in (b"same-origin", b"none") for site in sites):
            return Problem(403, "origin", "a page of another site sent this request; it is not served")
        if _KEY_NAMES & {name.lower() for name in _query_names(scope["query_string"])}:
            return Problem(
                400,
                "key-in-url",
                "a key never stands in a URL; send it as Authorization: Bearer, and replace this one",
            )
        return None


def host_of(text: str) -> str | None:
    """The name or address of a Host header, without its port, in lower case; ``None`` when it is malformed."""
    text = text.strip().lower()
    if text.startswith("["):
        inside, bracket, port = text[1:].partition("]")
        if not bracket or (port and not _is_port(port)):
            return None
        try:
            return str(ipaddress.IPv6Address(inside))
        except ValueError:
            return None
    name, colon, port = text.partition(":")
    if not name or (colon and not _is_port(":" + port)):
        return None
    return name.rstrip(".") if all(letter.isalnum() or letter in "-._" for letter in name) else None


def _is_port(text: str) -> bool:
    return len(text) <= 6 and text[0] == ":" and text[1:].isascii() and text[1:].isdigit()


def _query_names(query: bytes) -> list[str]:
    from urllib.parse import unquote_plus

    return [unquote_plus(part.partition("=")[0]) for part in query.decode("latin-1").split("&") if part]
