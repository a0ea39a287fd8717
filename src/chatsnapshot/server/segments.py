"""Keeps an encoded slash inside of its part of a path: ``/v1/runs/a%2Fb`` is the run ``a/b``, and no path below ``a``."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Segments", "restored"]

_SLASH = "\ufdd0"
"""Stands for the slash between here and the routes: no character, so no text of anybody has it (Unicode, 23.7)."""


class Segments:
    """ASGI middleware in front of the routes, which know paths only as they are after decoding."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" in raw.lower():
            parts = raw.decode("ascii").split("/")
            scope = {**scope, "path": "/".join(unquote(part).replace("/", _SLASH) for part in parts)}
        await self._app(scope, receive, send)


def restored(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parts of a path that a route found, as they were meant."""
    return {
        name: value.replace(_SLASH, "/") if isinstance(value, str) else value
        for name, value in parameters.items()
    }
