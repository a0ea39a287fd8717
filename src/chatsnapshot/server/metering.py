"""Stands around every route: counts requests with their status and time, and sends away what is too much at once."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chatsnapshot.server.counting import Counts
from chatsnapshot.server.problems import Problem, problem_response

__all__ = ["ROUTE", "Meter"]

ROUTE = "chatsnapshot.route"
"""Where in the ASGI scope a handler leaves the path of its endpoint, as the description has it."""

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Meter:
    """ASGI middleware. Beyond ``requests_max`` at once the next are answered with 503 and Retry-After."""

    def __init__(self, app: ASGIApp, counts: Counts, requests_max: int) -> None:
        self._app = app
        self._counts = counts
        self._requests_max = requests_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counts = self._counts
        begin = time.perf_counter()
        # What a client sends as its method is no name for a counter, or it could make any number of them.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        answered = False

        async def counted(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                seconds = time.perf_counter() - begin
                counts.answered(method, scope.get(ROUTE, "none"), str(message["status"]), seconds)
            await send(message)

        counts.open += 1
        try:
            if counts.open > self._requests_max:
                counts.failed("overloaded")
                await _too_many(self._requests_max)(scope, receive, counted)
            else:
                await self._app(scope, receive, counted)
        finally:
            counts.open -= 1
            if not answered:
                counts.answered(method, scope.get(ROUTE, "none"), "none", time.perf_counter() - begin)


def _too_many(requests_max: int) -> ASGIApp:
    return problem_response(
        Problem(
            503,
            "overloaded",
            f"{requests_max:,} requests are under way already; try again soon",
            retry_after=1,
        )
    )
