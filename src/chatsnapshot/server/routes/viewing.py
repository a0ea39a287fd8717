"""``GET /v1/runs`` and what is under a run: its views; ``GET /v1/metrics`` and ``/v1/audit`` of all; ``/v1/search``."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.projections.finding import correlation_of, find_run
from chatsnapshot.projections.graphdiagram import render_dot, render_mermaid
from chatsnapshot.projections.markdown import render_markdown
from chatsnapshot.projections.render import render_text
from chatsnapshot.projections.search.query import CHARS_MAX
from chatsnapshot.projections.search.searching import Found, search
from chatsnapshot.projections.views import list_runs, view
from chatsnapshot.reading import make_query
from chatsnapshot.server.endpoints import Call, Endpoint, Parameter
from chatsnapshot.server.parameters import (
    FILTERS,
    POSITION,
    RUN,
    UNTIL,
    choice,
    filters,
    flag,
    moment,
    number,
    only,
)
from chatsnapshot.server.problems import Problem, unplaced

__all__ = ["ENDPOINTS", "VIEWS"]

VIEWS = ("timeline", "transcript", "graph", "metrics", "audit", "state", "critical_path")
_RUNS_DEFAULT = 50
_RUNS_MAX = 1_000
_HITS_DEFAULT = 20
_HITS_MAX = 1_000
_CONDITION = r"^[^<>=!]*[^<>=!\s][^<>=!]*(!?=.*\S.*|[<>]=?\s*-?[0-9]+)?$"


async def _runs(call: Call) -> Response:
    given = only(call.request, ("last", "until", "evaluation"))
    last = number(given, "last", _RUNS_DEFAULT, low=1, high=_RUNS_MAX)
    conditions = [given["evaluation"]] if "evaluation" in given else []
    found = await _worked(
        functools.partial(list_runs, call.ledger, last=last, until=moment(given), evaluation=conditions)
    )
    return _json({"runs": found})


async def _run(call: Call) -> Response:
    given = only(call.request, ("until",))
    return _json(await _worked(functools.partial(_one_run, call.ledger, _name(call), moment(given))))


def _one_run(ledger: Ledger, name: str, until: Any) -> Any:
    correlation = correlation_of(ledger, name)
    runs = view(ledger, "runs", correlation, until=until)
    found = find_run(runs.runs, name, correlation)
    if found is None:
        raise NotFound(f"there is no run {name!r}")
    return found


async def _view(call: Call, kind: str) -> Response:
    forms: tuple[str, ...] = ("json",)
    if kind == "transcript":
        forms = ("json", "text", "markdown")
    elif kind == "graph":
        forms = ("json", "mermaid", "dot")
    given = only(call.request, ("until", "children", "format"))
    form = choice(given, "format", forms)
    work = functools.partial(
        _viewed, call.ledger, kind, _name(call), moment(given), flag(given, "children", True), form
    )
    found = await _worked(work)
    return _text(found) if isinstance(found, str) else _json(found)


def _viewed(ledger: Ledger, kind: str, name: str, until: Any, children: bool, form: str) -> Any:
    found = view(ledger, kind, correlation_of(ledger, name), until=until, children=children)
    renders: dict[str, Callable[[Any], str]] = {
        "text": render_text,
        "markdown": render_markdown,
        "mermaid": render_mermaid,
        "dot": render_dot,
    }
    return renders[form](found) if form in renders else found


async def _whole(call: Call, kind: str) -> Response:
    given = only(call.request, ("until",))
    return _json(await _worked(functools.partial(view, call.ledger, kind, until=moment(given))))


async def _search(call: Call) -> Response:
    given = only(call.request, [*(one.name for one in FILTERS), "q", "limit", "order", "after", "until"])
    words = given.get("q", "")
    if not 0 < len(words) <= CHARS_MAX:
        raise Problem(
            400, "parameter", f"q says which words to look for, in {CHARS_MAX:,} characters", parameter="q"
        )
    found = await _worked(
        functools.partial(
            _found,
            call.ledger,
            words,
            filters(given),
            limit=number(given, "limit", _HITS_DEFAULT, low=1, high=_HITS_MAX),
            order=choice(given, "order", ("best", "newest")),
            after=number(given, "after", 0),
            until=moment(given),
        )
    )
    return _json({"hits": found.hits, "note": found.note and unplaced(found.note)})


def _found(ledger: Ledger, words: str, chosen: dict[str, Any], **wanted: Any) -> Found:
    """What is found; a search without a word to look for finds nothing, and says why."""
    make_query(limits=ledger.limits, **chosen)  # what is wrong with them is told whatever the words are
    try:
        return search(ledger, words, **chosen, **wanted)
    except InvalidEvent as error:
        if error.path != "query":
            raise
        return Found(words, (), str(error))


async def _worked(work: Callable[[], Any]) -> Any:
    """Done in a thread; what was wrong with the request is a 400."""
    try:
        return await asyncio.to_thread(work)
    except InvalidEvent as error:
        raise Problem(400, "parameter", str(error), parameter=error.path) from None


def _name(call: Call) -> str:
    name: str = call.request.path_params["run"]
    return name


def _json(content: Any) -> Response:
    return Response(
        msgspec.json.encode(content), media_type="application/json", headers={"Cache-Control": "no-store"}
    )


def _text(content: str) -> Response:
    return Response(content, media_type="text/plain; charset=utf-8", headers={"Cache-Control": "no-store"})


_CHILDREN = Parameter(
    name="children", description="with child runs", schema={"type": "boolean", "default": True}
)
_JSON: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
_OBJECT = {"200": {"description": "the view", "content": _JSON}}
_OBJECT_OR_TEXT = {
    "200": {"description": "the view", "content": {**_JSON, "text/plain": {"schema": {"type": "string"}}}}
}


def _format(*forms: str) -> Parameter:
    return Parameter(
        name="format", description="the form of it", schema={"type": "string", "enum": list(forms)}
    )


def _forms(kind: str) -> tuple[Parameter, ...]:
    if kind == "transcript":
        return (_format("json", "text", "markdown"),)
    return (_format("json", "mermaid", "dot"),) if kind == "graph" else ()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/runs",
        scope="read",
        handle=_runs,
        summary="The runs that began last, as trees, in the order of their beginning",
        parameters=(
            Parameter(
                name="last",
                description="so many of the runs that stand at the top",
                schema={"type": "integer", "minimum": 1, "maximum": _RUNS_MAX, "default": _RUNS_DEFAULT},
            ),
            UNTIL,
            Parameter(
                name="evaluation",
                description="only runs that were evaluated so: NAME, NAME=LABEL, NAME>=0.8",
                schema={"type": "string", "pattern": _CONDITION},
            ),
        ),
        responses={
            "200": {
                "description": "the runs",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "required": ["runs"],
                            "properties": {"runs": {"type": "array", "items": {"type": "object"}}},
                        }
                    }
                },
            }
        },
    ),
    Endpoint(
        method="GET",
        path="/runs/{run}",
        scope="read",
        handle=_run,
        summary="One run with its child runs",
        parameters=(RUN, UNTIL),
        responses=_OBJECT,
    ),
    *(
        Endpoint(
            method="GET",
            path=f"/runs/{{run}}/{kind}",
            scope="read",
            handle=functools.partial(_view, kind=kind),
            summary=f"The {kind.replace('_', ' ')} of one run",
            parameters=(RUN, UNTIL, _CHILDREN, *_forms(kind)),
            responses=_OBJECT_OR_TEXT if _forms(kind) else _OBJECT,
        )
        for kind in VIEWS
    ),
    *(
        Endpoint(
            method="GET",
            path=f"/{kind}",
            scope="read",
            handle=functools.partial(_whole, kind=kind),
            summary=f"The {kind} of the whole ledger",
            parameters=(UNTIL,),
            responses=_OBJECT,
        )
        for kind in ("metrics", "audit")
    ),
    Endpoint(
        method="GET",
        path="/search",
        scope="read",
        handle=_search,
        summary="The events in which all words are found, best first",
        parameters=(
            Parameter(
                name="q",
                required=True,
                description='words, "a phrase", begin*, -without',
                schema={"type": "string", "minLength": 1, "maxLength": 1_000},
            ),
            *FILTERS,
            Parameter(name="after", description="only after this position", schema=POSITION),
            UNTIL,
            Parameter(
                name="limit",
                description="the best so many",
                schema={"type": "integer", "minimum": 1, "maximum": _HITS_MAX, "default": _HITS_DEFAULT},
            ),
            Parameter(
                name="order",
                description="best first, or newest",
                schema={"type": "string", "enum": ["best", "newest"]},
            ),
        ),
        responses=_OBJECT,
    ),
)
