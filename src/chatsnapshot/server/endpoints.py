"""What an endpoint is: method, path, the scope of a key that it needs, its handler, and what OpenAPI says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.server.access import Access
    from chatsnapshot.server.service import Service

__all__ = ["Call", "Endpoint", "Handler", "Parameter", "Scope"]

Scope = Literal["ingest", "read", "admin", "any"]


class Call(NamedTuple):
    """One request on its way: the service, who asks, the ledger that it is about and its name in the path."""

    request: Request
    service: Service
    access: Access
    name: str
    ledger: Ledger


Handler = Callable[[Call], Awaitable[Response]]


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the query, of the path or of the headers; ``schema`` is JSON Schema."""

    name: str
    description: str
    where: Literal["query", "path", "header"] = "query"
    schema: Mapping[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})
    required: bool = False


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path below ``/v1`` and ``/v1/ledgers/{ledger}``.

    The scope ``any`` is held by every key of the ledger. ``makes``: its ledger need not be there yet.

    ``request`` and ``responses`` are parts of OpenAPI: media type to schema, status to description and content.
    """

    method: str
    path: str
    scope: Scope
    handle: Handler
    summary: str
    makes: bool = False
    parameters: tuple[Parameter, ...] = ()
    request: Mapping[str, Any] = {}
    responses: Mapping[str, Any] = {}
    links: tuple[tuple[str, str, str, str], ...] = ()
    """What an answer leads to: a name, the path of a GET endpoint, its parameter, and where in the answer that is."""
