"""Reads the URL of a ledger on a server: which store, which ledger, our options, and how it is shown without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from chatsnapshot.errors import LedgerError

__all__ = ["OPTIONS", "SCHEMES", "ServerUrl", "locate_server", "without_secrets"]

SCHEMES = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mongodb": "mongodb",
    "mongodb+srv": "mongodb",
    "nats": "nats",
    "tls": "nats",
    "http": "http",
    "https": "http",
}
"""The schemes of URLs, and the store that each is for."""

OPTIONS: dict[str, frozenset[str] | None] = {
    "postgresql": frozenset({"ledger", "listen_url"}),
    "mongodb": frozenset({"ledger"}),
    "nats": None,
    "http": None,
}
"""Options of a URL that are ours; the others are the driver's. NATS has none of its own: there all are ours."""

_SECRET = re.compile(r"password|passwd|secret|token|key$|credential", re.IGNORECASE)
_HIDDEN = "***"


class ServerUrl(NamedTuple):
    """A URL taken apart; ``target`` is what the driver takes and may hold secrets, ``url`` is shown and holds none."""

    kind: str
    ledger: str
    url: str
    target: str
    options: tuple[tuple[str, str], ...]


def locate_server(text: str, ledger_name: Callable[[str], str]) -> ServerUrl:
    """Take a URL apart; raises :class:`LedgerError`, which shows no more than its scheme, when it cannot be read."""
    scheme = text.partition(":")[0].lower()
    kind = SCHEMES[scheme]
    try:
        parts = urlsplit(text)
        parts.hostname, parts.username, parts.password  # noqa: B018 (each may raise)
        # A plus is a plus, as drivers have it, and no blank as in forms.
        query = parts.query.replace("+", "%2B")
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise LedgerError(
            f"this {scheme}:// URL cannot be read; write {scheme}://user:password@host:port/database?ledger=NAME,"
            " with what is special in a name or password as %XX"
        ) from None
    if not text[len(scheme) :].startswith("://"):
        raise LedgerError(f"a server's URL begins with {scheme}://")
    if parts.fragment:
        raise LedgerError(f"a {scheme}:// URL has no part after #; write # in a password as %23")
    known = OPTIONS[kind]
    ours = [(key, value) for key, value in given if known is None or key in known]
    names = [key for key, _ in ours]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise LedgerError(f"the option {twice} is twice in the {scheme}:// URL; give it once")
    options = dict(ours)
    ledger = ledger_name(options.pop("ledger", "main"))
    # As it was written: drivers differ in what they take for a blank.
    written = [piece for piece in parts.query.split("&") if piece]
    theirs = "&".join(
        piece
        for piece, (key, _) in zip(written, given, strict=True)
        if known is not None and key not in known
    )
    target = parts._replace(query=theirs).geturl()
    return ServerUrl(kind, ledger, without_secrets(text), target, tuple(sorted(options.items())))


def without_secrets(url: str) -> str:
    """The URL with passwords, tokens and the like hidden; what cannot be read is hidden but for its scheme."""
    try:
        parts = urlsplit(url)
        user, at, host = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        # nats://TOKEN@host: a name alone is a token there
        if at and (colon or SCHEMES.get(parts.scheme) == "nats"):
            user = f"{name}:{_HIDDEN}" if colon else _HIDDEN
        query = [
            (key, _HIDDEN if _SECRET.search(key) else without_secrets(value) if "://" in value else value)
            for key, value in parse_qsl(parts.query, keep_blank_values=True)
        ]
    except ValueError:
        return f"{url.partition(':')[0]}://{_HIDDEN}"
    shown = urlencode(query, safe="*:/,@")
    return parts._replace(netloc=user + at + host, query=shown).geturl()
