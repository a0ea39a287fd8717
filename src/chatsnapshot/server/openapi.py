"""The OpenAPI 3.1 description of the service, made from its endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chatsnapshot import __version__
from chatsnapshot.server.endpoints import Endpoint, Parameter
from chatsnapshot.server.shapes import ENTRY, EVENT, PAGE, REPORT, RESULT

__all__ = ["PROBLEM", "describe"]

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457; further members depend on the type",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:chatsnapshot:problem:[a-z0-9-]+$"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
    },
}

_REFUSED = {
    "description": "refused",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def describe(
    endpoints: Iterable[Endpoint], *, keyed: bool, ledgers: Sequence[str] | None = None
) -> dict[str, Any]:
    """The description: each endpoint under ``/v1`` and under ``/v1/ledgers/{ledger}``.

    ``ledgers`` are all that there are, where everybody may know them.
    """
    names = {"enum": list(ledgers)} if ledgers else _NAME
    ledger = Parameter(
        name="ledger",
        where="path",
        required=True,
        description="the name of a ledger of this service",
        schema={"type": "string", **names},
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        for prefix, more in (("/v1", ()), ("/v1/ledgers/{ledger}", (ledger,))):
            if not endpoint.path and not more:
                continue  # it is about the name of a ledger
            methods = paths.setdefault(prefix + endpoint.path, {})
            methods[endpoint.method.lower()] = _operation(endpoint, prefix, more, keyed)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "ChatSnapshot",
            "version": __version__,
            "description": "A durable ledger of what agents, tools and the systems around them did.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": {
                "Problem": PROBLEM,
                "Event": EVENT,
                "Result": RESULT,
                "Report": REPORT,
                "Entry": ENTRY,
                "Page": PAGE,
            }
        },
    }
    if keyed:
        described["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return described


def _operation(endpoint: Endpoint, prefix: str, more: tuple[Parameter, ...], keyed: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint.method, endpoint.path, bool(more)),
        "summary": endpoint.summary,
        "parameters": [_parameter(one) for one in (*more, *endpoint.parameters)],
        "responses": {**endpoint.responses, "default": _REFUSED},
    }
    if endpoint.links:
        whole = {"ledger": "$request.path.ledger"} if more else {}
        found = operation["responses"] = {**operation["responses"]}
        found["200"] = {
            **found["200"],
            "links": {
                one: {
                    "operationId": _operation_id("GET", path, bool(more)),
                    "parameters": {**whole, parameter: expression},
                }
                for one, path, parameter, expression in endpoint.links
            },
        }
    if endpoint.request:
        operation["requestBody"] = endpoint.request
    if keyed:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Needs a key with the scope {endpoint.scope}."
    return operation


def _operation_id(method: str, path: str, named: bool) -> str:
    name = f"{method.lower()}{path}{'_of' if named else ''}"
    return name.replace("/", "_").replace("{", "").replace("}", "")


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.description,
        "required": parameter.required,
        "schema": parameter.schema,
    }


_NAME = {"pattern": "^[a-z0-9-]{1,63}$"}
