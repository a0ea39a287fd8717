"""Payloads of tools: the call and the result."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema
from chatsnapshot.events.schemas.parts import (
    Agent,
    Attempt,
    CallId,
    DurationNs,
    Error,
    FunctionRef,
    Id,
    Name,
    Native,
    RunId,
    Text,
    ToolRef,
)

__all__ = ["SCHEMAS", "ToolCall", "ToolResult"]


class ToolCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool is being called."""

    name: Annotated[Name | None, Meta(description="name of the tool")] = None
    call_id: CallId = None
    arguments: Annotated[
        Any, Meta(description="the arguments: an object, or JSON text as the model wrote it")
    ] = None
    attempt: Attempt = None
    tool_name: Annotated[Name | None, Meta(description="as `name`")] = None
    func_name: Annotated[Name | None, Meta(description="as `name`")] = None
    tool: Annotated[
        ToolRef | str | None, Meta(description="the call as an object, or the name of the tool")
    ] = None
    function: Annotated[FunctionRef | str | None, Meta(description="name and arguments, OpenAI's form")] = (
        None
    )
    tool_call_id: Annotated[Id | None, Meta(description="as `call_id`")] = None
    tool_use_id: Annotated[Id | None, Meta(description="as `call_id`")] = None
    id: Annotated[Id | None, Meta(description="as `call_id`")] = None
    args: Annotated[Any, Meta(description="as `arguments`")] = None
    input: Annotated[Any, Meta(description="as `arguments`")] = None
    parameters: Annotated[Any, Meta(description="as `arguments`")] = None
    kwargs: Annotated[Any, Meta(description="as `arguments`")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


class ToolResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A tool answered or failed."""

    name: Annotated[Name | None, Meta(description="name of the tool")] = None
    call_id: CallId = None
    result: Annotated[Any, Meta(description="what the tool gave")] = None
    is_error: Annotated[bool | None, Meta(description="whether the tool failed")] = None
    error: Annotated[Error | None, Meta(description="what went wrong")] = None
    status: Annotated[Id | None, Meta(description="the tool's own status: a word or an HTTP status")] = None
    duration_ns: DurationNs = None
    tool_name: Annotated[Name | None, Meta(description="as `name`")] = None
    func_name: Annotated[Name | None, Meta(description="as `name`")] = None
    tool: Annotated[
        ToolRef | str | None, Meta(description="the result as an object, or the name of the tool")
    ] = None
    tool_call_id: Annotated[Id | None, Meta(description="as `call_id`")] = None
    tool_use_id: Annotated[Id | None, Meta(description="as `call_id`")] = None
    id: Annotated[Id | None, Meta(description="as `call_id`")] = None
    output: Annotated[Any, Meta(description="as `result`")] = None
    content: Annotated[Any, Meta(description="as `result`")] = None
    response: Annotated[Any, Meta(description="as `result`")] = None
    return_value: Annotated[Any, Meta(description="as `result`")] = None
    parts: Annotated[Any, Meta(description="as `result`, in parts")] = None
    value: Annotated[Any, Meta(description="as `result`: what was given instead of an object")] = None
    success: Annotated[bool | None, Meta(description="false where the tool failed")] = None
    role: Annotated[Text | None, Meta(description="of a provider's message that holds the result")] = None
    run_id: RunId = None
    agent: Agent = None
    native: Native = None


_CALL_IDS = ("call_id", "tool_call_id", "tool_use_id", "id")

SCHEMAS: tuple[Schema, ...] = (
    schema(
        "execution.tool_call",
        ToolCall,
        {"name": "look_up_order", "call_id": "call-1", "arguments": {"order": "WW-1042"}, "agent": "desk"},
        ("name", "tool_name", "tool", "function", "func_name"),
    ),
    schema(
        "execution.tool_result",
        ToolResult,
        {
            "name": "look_up_order",
            "call_id": "call-1",
            "result": "Harbour lamp, brass, 48.00 EUR",
            "duration_ns": 41_250_000,
        },
        (
            "name",
            "tool_name",
            "tool",
            "func_name",
            *_CALL_IDS,
            "result",
            "output",
            "content",
            "response",
            "value",
            "return_value",
            "parts",
            "error",
        ),
    ),
)
