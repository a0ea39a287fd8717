"""The ASGI application: routes from the endpoints, access before anything else, and every error as a problem."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from chatsnapshot.server.audit import Audit
from chatsnapshot.server.endpoints import Call, Endpoint
from chatsnapshot.server.guard import Guard, Headers
from chatsnapshot.server.metering import ROUTE, Meter
from chatsnapshot.server.openapi import describe
from chatsnapshot.server.problems import Problem, problem_of, problem_response
from chatsnapshot.server.routes import ENDPOINTS
from chatsnapshot.server.routes.health import HEALTH
from chatsnapshot.server.routes.numbers import metrics
from chatsnapshot.server.segments import Segments, restored
from chatsnapshot.server.service import Service
from chatsnapshot.server.streaming import Streamed

__all__ = ["application"]

_log = logging.getLogger("chatsnapshot.server")


def application(service: Service, endpoints: Iterable[Endpoint] = ENDPOINTS) -> ASGIApp:
    """The application of a service, guarded; its lifespan opens and closes the ledgers."""
    audit = Audit(service)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await service.start()
        except Exception as error:
            service.unopened = error
            raise
        try:
            await audit.start()
            yield
        finally:
            await audit.stop()
            await service.stop()

    by_path: dict[str, dict[str, Endpoint]] = {}
    everything = tuple(endpoints)
    for endpoint in everything:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [Route(path, _open(service, path, handle), methods=["GET"]) for path, handle in HEALTH.items()]
    routes.append(Route("/metrics", _metrics(service), methods=["GET"]))
    known = not service.gate.keyed and service.settings.any_ledger is None
    names = sorted(service.settings.ledgers) if known else None
    description = msgspec.json.encode(describe(everything, keyed=service.gate.keyed, ledgers=names))
    routes.append(Route("/v1/openapi.json", _fixed(description), methods=["GET"]))
    for path, methods in by_path.items():
        for prefix in ("/v1", "/v1/ledgers/{ledger}"):
            routes.append(
                Route(prefix + path, _guarded(service, audit, prefix + path, methods), methods=list(methods))
            )
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error},
    )
    app.router.redirect_slashes = False
    app.state.service = service
    guarded = Guard(Segments(app), service.settings.hosts)
    return Headers(Meter(guarded, service.counts, service.settings.requests_max))


def _fixed(content: bytes) -> Any:
    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = "/v1/openapi.json"
        return Response(content, media_type="application/json")

    return answer


def _open(service: Service, path: str, handle: Any) -> Any:
    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = path
        return await handle(service)  # type: ignore[no-any-return]

    return answer


def _metrics(service: Service) -> Any:
    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = "/metrics"
        try:
            return await metrics(service, request)
        except Exception as error:
            return _answer(service, request, error)

    return answer


def _guarded(service: Service, audit: Audit, path: str, methods: Mapping[str, Endpoint]) -> Any:
    async def answer(request: Request) -> Response:
        request.scope[ROUTE] = path
        request.scope["path_params"] = restored(request.scope["path_params"])
        endpoint = methods.get(request.method) or methods["GET"]  # HEAD
        try:
            access = await service.gate.admit(request)
            name = service.name_of(request.path_params.get("ledger"))
            if access.ledgers is not None and name not in access.ledgers:
                raise Problem(404, "no-ledger", "there is no ledger of that name here")
            if not access.allows(endpoint.scope, name):
                raise Problem(
                    403, "scope", f"this needs a key with the scope {endpoint.scope}", scope=endpoint.scope
                )
            request = service.gate.watched(request, access)
            if endpoint.makes:
                return await endpoint.handle(Call(request, service, access, name, None))  # type: ignore[arg-type]
            async with service.using(name) as ledger:
                if endpoint.scope == "read":
                    await audit.read(name, ledger, access, endpoint.path.format(**request.path_params))
                response = await endpoint.handle(Call(request, service, access, name, ledger))
                if isinstance(response, Streamed):
                    response.also_after(service.keep(name))
                return response
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except Exception as error:
            return _answer(service, request, error)

    return answer


def _answer(service: Service, request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    service.counts.failed(problem.kind)
    if problem.status == 500:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(problem)


async def _http_error(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow", "other methods")
    kinds = {404: ("no-path", "there is no such path"), 405: ("no-method", f"this path takes {allowed}")}
    kind, detail = kinds.get(error.status_code, ("http", str(error.detail)))
    return problem_response(Problem(error.status_code, kind, detail, headers=error.headers))
