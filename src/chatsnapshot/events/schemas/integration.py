"""Payloads of other services: the call, the answer, and calls of interfaces of our own."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import Attempt, CallId, DurationNs, Error, Id, Name, Native, Text

__all__ = ["SCHEMAS", "ApiTriggered", "ServiceCall", "ServiceResponse"]

_Service = Annotated[Name | None, Meta(description="which service")]
_Operation = Annotated[Name | None, Meta(description="what it is asked to do, such as `GET /orders/{id}`")]
_Url = Annotated[Text | None, Meta(description="as `operation`, the address")]
_Request = Annotated[Any, Meta(description="what is sent")]
_As_call_id = Annotated[Id | None, Meta(description="as `call_id`")]
_As_service = Annotated[Name | None, Meta(description="as `service`")]
_As_operation = Annotated[Name | None, Meta(description="as `operation`")]


class ServiceCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Another service is being called."""

    call_id: CallId = None
    service: _Service = None
    operation: _Operation = None
    request: _Request = None
    attempt: Attempt = None
    status: Annotated[Id | None, Meta(description="status, where it is known already")] = None
    error: Annotated[Error | None, Meta(description="why the call could not be made")] = None
    request_id: _As_call_id = None
    id: _As_call_id = None
    api: _As_service = None
    host: _As_service = None
    method: _As_operation = None
    endpoint: _As_operation = None
    path: _As_operation = None
    url: _Url = None
    name: _As_operation = None
    native: Native = None


class ServiceResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Another service answered or failed."""

    call_id: CallId = None
    service: _Service = None
    operation: _Operation = None
    status: Annotated[Id | None, Meta(description="the service's status: an HTTP status or a word")] = None
    duration_ns: DurationNs = None
    response: Annotated[Any, Meta(description="what came back")] = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    request_id: _As_call_id = None
    id: _As_call_id = None
    api: _As_service = None
    host: _As_service = None
    method: _As_operation = None
    endpoint: _As_operation = None
    path: _As_operation = None
    url: _Url = None
    name: _As_operation = None
    native: Native = None


class ApiTriggered(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An interface of ours was called from outside."""

    call_id: CallId = None
    service: Annotated[Name | None, Meta(description="which interface of ours")] = None
    operation: Annotated[Name | None, Meta(description="what was asked for")] = None
    request: Annotated[Any, Meta(description="what was received")] = None
    status: Annotated[Id | None, Meta(description="the status that we answered with")] = None
    duration_ns: DurationNs = None
    user: Annotated[Name | None, Meta(description="who called")] = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    request_id: _As_call_id = None
    id: _As_call_id = None
    api: _As_service = None
    host: _As_service = None
    method: _As_operation = None
    endpoint: _As_operation = None
    path: _As_operation = None
    url: _Url = None
    name: _As_operation = None
    native: Native = None


_NAMED = ("service", "operation", "api", "host", "method", "endpoint", "path", "url", "name")
_CALL = {"call_id": "courier-1", "service": "courier", "operation": "POST /pickups"}

SCHEMAS: tuple[Schema, ...] = (
    schema("integration.call", ServiceCall, {**_CALL, "request": {"day": "Saturday"}}, _NAMED),
    schema(
        "integration.response",
        ServiceResponse,
        {**_CALL, "status": 201, "duration_ns": 87_500_000, "response": {"pickup": "p-9"}},
        (*_NAMED, "call_id", "request_id", "id"),
    ),
    schema(
        "integration.api_triggered",
        ApiTriggered,
        {"call_id": "r-4", "service": "orders", "operation": "POST /cases", "status": 202, "user": "shop"},
        _NAMED,
    ),
)
