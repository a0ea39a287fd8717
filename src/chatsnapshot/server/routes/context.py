"""``GET /v1/runs/{id}/context``: the past of a run within a token budget, for a model."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent, LimitExceeded
from chatsnapshot.ledger import Ledger
from chatsnapshot.projections.context.making import BUDGET_TOKENS, context, to_json
from chatsnapshot.projections.finding import correlation_of
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.parameters import RUN, UNTIL, choice, flag, moment, number, only
from chatsnapshot.server.problems import Problem

__all__ = ["ENDPOINTS"]

_FORMATS = ("json", "markdown", "messages", "openai", "anthropic")
_BUDGET_MAX = 1_000_000
_SEARCH_CHARS_MAX = 1_000


async def _context(call: Call) -> Response:
    given = only(call.request, ("budget", "format", "search", "near", "until", "children", "bare"))
    form = choice(given, "format", _FORMATS)
    search = given.get("search")
    if search is not None and not 0 < len(search) <= _SEARCH_CHARS_MAX:
        raise Problem(
            400, "parameter", f"search is 1 to {_SEARCH_CHARS_MAX:,} characters", parameter="search"
        )
    if search is not None and "near" in given:
        raise Problem(409, "parameter", "give search or near, not both", parameter="near")
    options = {
        "budget_tokens": number(given, "budget", BUDGET_TOKENS, low=1, high=_BUDGET_MAX),
        "format": "markdown" if form == "json" else form,
        "search": search,
        "near": given.get("near"),
        "until": moment(given),
        "children": flag(given, "children", True),
        "quoted": not flag(given, "bare", False),
    }
    work = functools.partial(_made, call.ledger, call.request.path_params["run"], options)
    try:
        made = await asyncio.to_thread(work)
    except LimitExceeded as error:
        raise Problem(409, "budget", str(error), parameter="budget") from None
    except InvalidEvent as error:
        if error.path == "query":  # no word to look for: it finds nothing
            raise Problem(404, "search", str(error), parameter="search") from None
        raise Problem(400, "parameter", str(error), parameter=error.path) from None
    headers = {"Cache-Control": "no-store", "ChatSnapshot-Tokens": str(made.tokens)}
    if form == "json":
        return Response(to_json(made), media_type="application/json", headers=headers)
    if form == "markdown":
        return Response(made.text, media_type="text/markdown", headers=headers)
    return Response(made.text.encode() or b"[]", media_type="application/json", headers=headers)


def _made(ledger: Ledger, run: str, options: dict[str, Any]) -> Any:
    return context(ledger, [correlation_of(ledger, run)], **options)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/runs/{run}/context",
        scope="read",
        handle=_context,
        summary="What a model should know of one run, within a budget; each record cites its position",
        parameters=(
            RUN,
            Parameter(
                name="budget",
                description="at most so many tokens, estimated",
                schema={"type": "integer", "minimum": 1, "maximum": _BUDGET_MAX, "default": BUDGET_TOKENS},
            ),
            Parameter(
                name="format",
                description="the form of it: json says too what was left out",
                schema={"type": "string", "enum": list(_FORMATS), "default": "json"},
            ),
            Parameter(
                name="search",
                description="what a search finds in this run",
                schema={"type": "string", "minLength": 1, "maxLength": _SEARCH_CHARS_MAX},
            ),
            Parameter(
                name="near",
                description="what is close to this event, not to the newest",
                schema={"type": "string", "format": "uuid"},
            ),
            UNTIL,
            Parameter(
                name="children", description="with child runs", schema={"type": "boolean", "default": True}
            ),
            Parameter(
                name="bare",
                description="texts behind their citations, without fences around them",
                schema={"type": "boolean", "default": False},
            ),
        ),
        responses={
            "200": {
                "description": "the context, with its tokens in ChatSnapshot-Tokens",
                "content": {
                    "application/json": {"schema": {}},
                    "text/markdown": {"schema": {"type": "string"}},
                },
            }
        },
    ),
)
