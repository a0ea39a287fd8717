"""Addresses as they may be recorded: without user, password and fragment, and no value of a query."""

from __future__ import annotations

import re

__all__ = ["QUERY_NAMES_MAX", "shown_path", "shown_url"]

PATH_CHARS_MAX = 1_024
NAME_CHARS_MAX = 64
QUERY_NAMES_MAX = 20

_ODD = re.compile(r"[^!-~]")


def shown_url(scheme: str, host: str, port: int | None, path: str, query: str) -> str:
    """``https://api.example.com:8443/orders?limit=…``; ``port`` only where it is not the scheme's own."""
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return _plain(f"{scheme}://{name}{'' if port is None else f':{port}'}") + shown_path(path, query)


def shown_path(path: str, query: str = "") -> str:
    """A path as it was asked for, with the names of its query, each value as ``…``."""
    text = _cut(_plain(path) or "/", PATH_CHARS_MAX)
    pieces = [piece for piece in query.split("&") if piece]
    names = [_name(piece) for piece in pieces[:QUERY_NAMES_MAX]]
    if len(pieces) > QUERY_NAMES_MAX:
        names.append("…")
    return f"{text}?{'&'.join(names)}" if names else text


def _name(piece: str) -> str:
    name, equals, _ = piece.partition("=")
    return f"{_cut(_plain(name), NAME_CHARS_MAX)}=…" if equals else "…"  # without a name all of it is a value


def _plain(text: str) -> str:
    return _ODD.sub("?", text)


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
